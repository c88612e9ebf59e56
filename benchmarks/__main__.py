"""python -m benchmarks WHAT: measurements on this machine, as JSON on stdout."""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from bahdanau_jax.cli import experiment, import_from_here, manual, options
from bahdanau_jax.cli import main as command_line
from bahdanau_jax.config import DataConfig
from bahdanau_jax.names import did_you_mean
from bahdanau_jax.parsing import finite
from benchmarks import accelerator_command, program_cache, serve_options


@dataclass(frozen=True)
class Data:
    """Time the preparation of a corpus and the delivery of its batches, and count their padding.

    The corpus is `--data.train`. All fields of the configuration's data section are options.
    """

    data: DataConfig = field(default_factory=DataConfig)
    encoders: str = "unigram,bpe,words"  # kinds of encoding, separated by commas
    repeats: int = 3  # repetitions of the delivery; the median counts
    padding_shapes: str = "1,2,4,8,12,16,24,48"  # numbers of padded shapes to plan with

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks data",
        "python -m benchmarks data --data.train text:a.en,a.fr --encoders words",
    )
    COMMON: ClassVar[Sequence[str]] = ("--data.train",)


def _data(arguments: Sequence[str]) -> dict:
    chosen = options.parse(Data, arguments, "python -m benchmarks data")
    _at_least_one("repeats", chosen.repeats)
    from benchmarks import data_benchmark

    settings = dataclasses.replace(chosen.data, dev="", test="")
    shapes = numbers("padding-shapes", chosen.padding_shapes)
    encoders = [name.strip() for name in chosen.encoders.split(",") if name.strip()]
    if not encoders:
        raise ValueError("--encoders is empty: name at least one kind of encoding")
    return data_benchmark.run(settings, encoders, chosen.repeats, shapes)


@dataclass(frozen=True)
class Decode:
    """Time the translation of a test corpus, also by JoeyNMT with `--joeynmt`.

    Both translate in turn, each with its fastest settings. A JoeyNMT model of the same sizes and
    vocabulary is trained first. Then the memory of search at the paper's size is measured.
    """

    run: Path  # the folder of a trained model
    joeynmt: Path | None = None  # the Python of an environment with JoeyNMT
    peer_folder: Path | None = None  # of JoeyNMT's model; default RUN/peer-joeynmt
    peer_updates: int = 1000  # updates of 64 sentences to train JoeyNMT's model
    corpus: str = ""  # an address, as for --data.test; default: the run's test corpus
    sentences: int = 0  # the number of first sentences to translate; 0: all
    beams: str = "1,5"  # beam sizes; 1 is greedy search
    batch_sizes: str = "16,32,64,128"  # candidates, of which the fastest is used
    rounds: int = 5  # rounds in which the programs translate in turn
    memory: bool = True  # also measure the memory of search
    trust_code: bool = False  # import a module that the run names (module:attribute)

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks decode --run runs/quickstart",
        "python -m benchmarks decode --run runs/quickstart --beams 1,5,12 --memory False",
    )


def _decode(arguments: Sequence[str]) -> dict:
    chosen = options.parse(Decode, arguments, "python -m benchmarks decode")
    for name, least in (("sentences", 0), ("peer_updates", 1), ("rounds", 1)):
        if getattr(chosen, name) < least:
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} is {getattr(chosen, name)}, but at least {least} is needed"
            )
    for name in ("peer_folder", "peer_updates"):
        options.require(chosen, name, "joeynmt")
    beams, sizes = numbers("beams", chosen.beams), numbers("batch-sizes", chosen.batch_sizes)
    from benchmarks import decode_benchmark

    if chosen.trust_code:
        import_from_here()
    return decode_benchmark.run(
        chosen.run,
        chosen.joeynmt,
        chosen.peer_folder,
        chosen.peer_updates,
        chosen.corpus,
        chosen.sentences,
        beams,
        sizes,
        chosen.rounds,
        chosen.memory,
        chosen.trust_code,
    )


@dataclass(frozen=True)
class Train:
    """Time updates of a random batch, and compare with other programs and the machine's limit.

    The peers torch, torch-compiled and joeynmt run in an environment of their own.
    """

    size: str = "small"  # the size of model and batch
    peers: str = "jax"  # other programs, separated by commas; "" for none
    rounds: int = 5  # rounds of each pair of programs; medians count
    torch_python: Path | None = None  # the Python of an environment with torch, NumPy and joeynmt
    lengths: str = ""  # values of S = T in place of those of the size, such as 30,50
    batches: str = ""  # batch sizes in place of that of the size, such as 80,320,1280
    compute_dtype: str = "float32"  # of ours; with bfloat16, PyTorch may use autocast

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks train",
        "python -m benchmarks train --size tiny --peers jax,summed-in-loops",
    )


def _train(arguments: Sequence[str]) -> dict:
    chosen = options.parse(Train, arguments, "python -m benchmarks train")
    lengths = numbers("lengths", chosen.lengths) if chosen.lengths else []
    batches = numbers("batches", chosen.batches) if chosen.batches else []
    _at_least_one("rounds", chosen.rounds)
    from benchmarks import train_benchmark

    peers = [name.strip() for name in chosen.peers.split(",") if name.strip()]
    return train_benchmark.run(
        chosen.size,
        peers,
        chosen.rounds,
        chosen.torch_python,
        lengths,
        chosen.compute_dtype,
        batches,
    )


@dataclass(frozen=True)
class Profile:
    """Profile updates of a random batch on a CPU, operation by operation."""

    size: str = "small"  # the size of model and batch
    compute_dtype: str = "float32"  # of the products
    updates: int = 8  # that are timed, and then traced

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks profile",
        "python -m benchmarks profile --size lists --compute-dtype bfloat16",
    )


def _profile(arguments: Sequence[str]) -> dict:
    chosen = options.parse(Profile, arguments, "python -m benchmarks profile")
    _at_least_one("updates", chosen.updates)
    from benchmarks import update_profile

    return update_profile.run(chosen.size, chosen.compute_dtype, chosen.updates)


@dataclass(frozen=True)
class Epoch(experiment.Experiment):
    """Time real epochs over the corpus of a configuration, with padding and the host's work.

    `--workdir` keeps the prepared corpus, and no model.
    """

    epochs: int = 1  # the number of epochs
    batches: int = 0  # the number of batches of each epoch; 0: all

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks epoch quickstart --workdir runs/epoch",
        "python -m benchmarks epoch quickstart --workdir runs/epoch --batches 50",
    )
    COMMON: ClassVar[Sequence[str]] = ("--data.train", "--data.plan", "--data.shapes")


def _epoch(arguments: Sequence[str]) -> dict:
    chosen = experiment.parse(Epoch, arguments, "python -m benchmarks epoch")
    _at_least_one("epochs", chosen.epochs)
    if chosen.batches < 0:
        raise ValueError(
            f"--batches is {chosen.batches}, but should be at least 0, which means all"
        )
    from bahdanau_jax import run
    from benchmarks import epoch_benchmark

    run.check(chosen.settings)
    return epoch_benchmark.run(chosen.settings, chosen.workdir, chosen.epochs, chosen.batches)


@dataclass(frozen=True)
class Scaling:
    """Time updates as batch, lengths, vocabulary and units grow, and fit lines to the times."""

    size: str = "small"  # the base of the sweeps; paper needs 23 GiB for 19 states at once
    rounds: int = 5  # rounds through all sizes; medians count
    output: Path | None = None  # the folder of scaling.svg

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks scaling",
        "python -m benchmarks scaling --size tiny --output report",
    )


def _scaling(arguments: Sequence[str]) -> dict:
    chosen = options.parse(Scaling, arguments, "python -m benchmarks scaling")
    _at_least_one("rounds", chosen.rounds)
    from benchmarks import scaling_benchmark

    return scaling_benchmark.run(chosen.size, chosen.rounds, chosen.output)


@dataclass(frozen=True)
class Learning(experiment.Experiment):
    """Time a training until its dev pairs reach a BLEU, and then JoeyNMT's training.

    `--workdir` is a new folder for both trainings.
    """

    target: float = 50.0  # the BLEU of greedy translations, tokenised
    minutes: float = 60.0  # the limit for each training
    joeynmt: Path | None = None  # the Python of an environment with JoeyNMT

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks learning multi30k --workdir runs/learning",
        "python -m benchmarks learning quickstart --workdir runs/learning --target 80",
    )
    COMMON: ClassVar[Sequence[str]] = ("--data.train", "--data.dev")


def _learning(arguments: Sequence[str]) -> dict:
    chosen = experiment.parse(Learning, arguments, "python -m benchmarks learning")
    if not 0 < chosen.minutes < math.inf:
        raise ValueError(f"--minutes is {chosen.minutes}, but should be a number above 0")
    if not math.isfinite(chosen.target):
        raise ValueError(f"--target is {chosen.target}, but should be a number of BLEU")
    from bahdanau_jax import run
    from benchmarks import learning_benchmark

    run.check(chosen.settings)
    if not chosen.settings.data.dev:
        raise ValueError("the configuration names no development set: set --data.dev")
    return learning_benchmark.run(
        chosen.settings, chosen.workdir, chosen.target, chosen.minutes, chosen.joeynmt
    )


def _at_least_one(option: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"--{option} is {value}, but at least 1 is needed")


def numbers(option: str, text: str) -> list[int]:
    """Parse the value of an option: positive whole numbers, separated by commas."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise ValueError(f"--{option} is {text!r}, but should be like 1,2,4")
    return [int(word) for word in words]


@dataclass(frozen=True)
class Overhead:
    """Time each update of a training on random sentences, with and without metrics and saves.

    The sizes of the model are those of the configuration.
    """

    config: str = "multi30k"  # a configuration file, or the name of a shipped one
    length: int = 16  # tokens of each side
    rows: int = 6000  # entries of each vocabulary, if the configuration does not set them
    steps: int = 400  # the number of updates
    checkpoint_every: int = 30  # updates between saves; shipped configurations have more

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks overhead",
        "python -m benchmarks overhead --config quickstart --steps 100",
    )


def _overhead(arguments: Sequence[str]) -> dict:
    chosen = options.parse(Overhead, arguments, "python -m benchmarks overhead")
    for name in ("length", "rows", "steps", "checkpoint_every"):
        if (value := getattr(chosen, name)) < 3:
            raise ValueError(f"--{name.replace('_', '-')} is {value}, but should be at least 3")
    from benchmarks import overhead_benchmark

    config = experiment.load(chosen.config)
    config = config.with_vocabularies(
        config.model.source_vocabulary or chosen.rows, config.model.target_vocabulary or chosen.rows
    )
    return overhead_benchmark.run(config, chosen.length, chosen.steps, chosen.checkpoint_every)


def _serve(arguments: Sequence[str]) -> dict:
    return serve_options.measure(arguments, numbers)


def _accelerator(arguments: Sequence[str]) -> dict:
    return accelerator_command.measure(arguments, numbers)


# Benchmark -> (the class of its options, the function that runs it).
BENCHMARKS: Mapping[str, tuple[type, Callable[[Sequence[str]], dict]]] = MappingProxyType(
    {
        "accelerator": (accelerator_command.Accelerator, _accelerator),
        "data": (Data, _data),
        "decode": (Decode, _decode),
        "epoch": (Epoch, _epoch),
        "learning": (Learning, _learning),
        "overhead": (Overhead, _overhead),
        "profile": (Profile, _profile),
        "scaling": (Scaling, _scaling),
        "serve": (serve_options.Serve, _serve),
        "train": (Train, _train),
    }
)
EXAMPLES = (
    "python -m benchmarks train --size tiny",
    "python -m benchmarks decode --run runs/quickstart",
)


def usage() -> str:
    parts = (
        "usage: python -m benchmarks WHAT [OPTIONS]",
        "Measure the speed of this program on this machine, and print JSON on stdout.",
        manual.examples(EXAMPLES),
        manual.table("WHAT:", {name: manual.summary(cls) for name, (cls, _) in BENCHMARKS.items()}),
        "python -m benchmarks WHAT --help shows the options.",
    )
    return "\n\n".join(parts) + "\n"


def dispatch(arguments: Sequence[str]) -> None:
    name, *rest = arguments or ("--help",)
    if name in ("-h", "--help"):
        print(usage(), end="")
        return
    if name not in BENCHMARKS:
        hint = did_you_mean(name, BENCHMARKS, f"there are: {', '.join(BENCHMARKS)}")
        raise ValueError(f"no benchmark {name!r}; {hint}")
    print(json.dumps(finite(BENCHMARKS[name][1](rest)), indent=2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and return its exit code, as the main function of `bahdanau` does.

    >>> main(["train", "--size", "tiny"])
    """
    # This process leaves the memory of a GPU to the programs that it compares.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with program_cache.empty_cache():
        return command_line.main(arguments, dispatch)


if __name__ == "__main__":
    sys.exit(main())
