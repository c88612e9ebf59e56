"""The options of `python -m benchmarks accelerator`."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bahdanau_jax.cli import experiment, options
from bahdanau_jax.config import Config
from bahdanau_jax.names import choose
from benchmarks.accelerator_plan import COMPILER, FULL, QUICK


@dataclass(frozen=True)
class Accelerator:
    """Measure a GPU or TPU within a time limit: results, training, profile, decoding, PyTorch.

    The figures go to OUTPUT/accelerator.json as soon as they are measured, so a command that is
    stopped keeps them. A part that fails, or that does not fit into the time, is recorded as such.
    """

    output: Path  # the folder of accelerator.json, the traces and the compiled programs
    minutes: float = 9.0  # the time limit
    parts: str = ""  # correctness,training,profile,decoding,torch,learning; default: all
    quick: bool = False  # tiny sizes, which show on any machine that the command works
    torch_python: Path | None = None  # the Python of an environment with torch and NumPy
    batches: str = ""  # batch sizes in place of 80,256,1024,4096, and of 80,1024 in comparisons
    lengths: str = ""  # values of S = T in place of 30,50; the first is that of all other parts
    precisions: str = ""  # of bfloat16,tf32,float32, the first of which is measured most
    settings: str = ""  # of the compiler, by their names in COMPILER, separated by commas
    train: str = ""  # the address of a corpus to train on in the time left
    dev: str = ""  # the address of its dev pairs; default: those that belong to the corpus
    config: str = ""  # the configuration of this training; default: multi30k

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks accelerator --output gpu",
        "python -m benchmarks accelerator --output gpu --parts training,profile --lengths 30",
        "python -m benchmarks accelerator --output cpu --quick True",
    )


def measure(arguments: Sequence[str], numbers: Callable[[str, str], list[int]]) -> dict:
    """Run the benchmark for a command line; `numbers` parses the value of an option."""
    chosen = options.parse(Accelerator, arguments, "python -m benchmarks accelerator")
    if not 0 < chosen.minutes < math.inf:
        raise ValueError(f"--minutes is {chosen.minutes}, but should be a number above 0")
    batches = numbers("batches", chosen.batches) if chosen.batches else []
    lengths = numbers("lengths", chosen.lengths) if chosen.lengths else []
    config = _config(chosen)
    from benchmarks import accelerator_benchmark

    parts = _names(chosen.parts, accelerator_benchmark.PARTS, "part")
    for option, part in (("train", "learning"), ("torch_python", "torch")):
        if getattr(chosen, option) and parts and part not in parts:
            name = option.replace("_", "-")
            raise ValueError(f"--{name} has no meaning without the part {part}: add it to --parts")
    scale = QUICK if chosen.quick else FULL
    given = {
        "batches": tuple(batches),
        "compared": tuple(batches),
        "lengths": tuple(lengths),
        "precisions": _names(chosen.precisions, FULL.precisions, "precision"),
        "settings": _names(chosen.settings, COMPILER, "setting of the compiler"),
    }
    scale = scale._replace(**{name: values for name, values in given.items() if values})
    return accelerator_benchmark.run(
        chosen.output, chosen.minutes, parts, scale, chosen.torch_python, config
    )


def _names(given: str, known: Iterable[str], kind: str) -> tuple[str, ...]:
    """The names of an option, separated by commas. Raises ValueError for unknown ones."""
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    for name in names:
        choose({each: each for each in known}, name, kind)
    return names


def _config(chosen: Accelerator) -> Config | None:
    """The configuration of the training, checked; None without --train."""
    if not chosen.train:
        for option in ("dev", "config"):
            if getattr(chosen, option):
                raise ValueError(f"--{option} has no meaning without --train")
        return None
    config = experiment.trained_on(experiment.load(chosen.config or "multi30k"), chosen.train)
    if chosen.dev:
        config = dataclasses.replace(config, data=dataclasses.replace(config.data, dev=chosen.dev))
    from bahdanau_jax import run

    run.check(config)
    if not config.data.dev:
        raise ValueError(f"{chosen.train} has no dev pairs of its own: name some with --dev")
    return config
