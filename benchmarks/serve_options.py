"""The options of `python -m benchmarks serve`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bahdanau_jax import run_folder
from bahdanau_jax.cli import import_from_here, options
from bahdanau_jax.config import Config


@dataclass(frozen=True)
class Serve:
    """Load `bahdanau serve` with clients on this machine, with and without shared searches.

    Each client sends one line after the other. One client alone is measured with each beam size.
    With `--joeynmt`, the latency of one sentence is measured beside a JoeyNMT model of the same
    embedding, units and vocabulary, which is trained first. With `--torch-python`, it is measured
    beside the run's own model, by hand in PyTorch.
    """

    run: Path  # the folder of a trained model
    clients: int = 50  # clients that ask at the same time
    seconds: float = 60.0  # the duration of the load
    corpus: str = ""  # an address, as for --data.test; default: the run's test corpus
    beams: str = ""  # beam sizes of one client alone; default: 1, which is greedy, and the run's
    joeynmt: Path | None = None  # the Python of an environment with JoeyNMT
    torch_python: Path | None = None  # the Python of an environment with torch and NumPy
    peer_folder: Path | None = None  # of JoeyNMT's model; default RUN/peer-joeynmt
    peer_updates: int = 1000  # updates of 64 sentences to train JoeyNMT's model
    sentences: int = 100  # the number of first sentences whose latency is compared; 0: all
    rounds: int = 5  # rounds in which the programs translate them in turn
    trust_code: bool = False  # import a module that the run names (module:attribute)

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks serve --run runs/quickstart",
        "python -m benchmarks serve --run runs/quickstart --clients 8 --seconds 10",
        "python -m benchmarks serve --run runs/quickstart --joeynmt joeynmt/bin/python",
    )


def measure(arguments: Sequence[str], numbers: Callable[[str, str], list[int]]) -> dict:
    """Run the benchmark for a command line; `numbers` parses the value of an option."""
    chosen = options.parse(Serve, arguments, "python -m benchmarks serve")
    least = {"clients": 1, "peer_updates": 1, "sentences": 0, "rounds": 1}
    for name, value in least.items():
        if getattr(chosen, name) < value:
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} is {getattr(chosen, name)}, but at least {value} is needed"
            )
    for name in ("peer_folder", "peer_updates"):
        options.require(chosen, name, "joeynmt")
    for name in ("sentences", "rounds"):
        options.require(chosen, name, "joeynmt", "torch_python")
    if not 0 < chosen.seconds < math.inf:
        raise ValueError(f"--seconds is {chosen.seconds}, but should be a number above 0")
    run_folder.check_run(chosen.run)
    beams = _beams(chosen, numbers)
    from benchmarks import sentence_latency, serve_benchmark

    if chosen.trust_code:
        import_from_here()
    latency = {}
    if chosen.joeynmt or chosen.torch_python:  # first: it is sooner known whether they run
        latency["one sentence"] = sentence_latency.run(
            chosen.run,
            chosen.joeynmt,
            chosen.torch_python,
            chosen.peer_folder,
            chosen.peer_updates,
            chosen.corpus,
            chosen.sentences,
            beams,
            chosen.rounds,
            chosen.trust_code,
        )
    loaded = serve_benchmark.run(
        chosen.run, chosen.clients, chosen.seconds, chosen.corpus, beams, chosen.trust_code
    )
    return {**loaded, **latency}


def _beams(chosen: Serve, numbers: Callable[[str, str], list[int]]) -> list[int]:
    """The beam sizes: by default greedy search and the run's own."""
    if chosen.beams:
        return numbers("beams", chosen.beams)
    return sorted({1, Config.load(chosen.run / run_folder.CONFIG).decoding.beam_size})
