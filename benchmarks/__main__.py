"""python -m benchmarks WHAT: measurements on this machine, as JSON on stdout.

Each benchmark is a module that is imported when it is asked for, so that none measures what another
one imports.
"""

import dataclasses
import json
import math
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


@dataclass(frozen=True)
class Data:
    """Time the preparation of a corpus and the delivery of its batches, and count their padding.

    The corpus is `--data.train`, and any other field of the data's configuration can be set.
    """

    data: DataConfig = field(default_factory=DataConfig)
    encoders: str = "unigram,bpe,words"  # ways to encode, with commas between
    repeats: int = 3  # of the delivery; the median counts
    padding_shapes: str = "1,2,4,8,12,16,24,48"  # numbers of shapes to plan with

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks data",
        "python -m benchmarks data --data.train text:a.en,a.fr --encoders words",
    )
    COMMON: ClassVar[Sequence[str]] = ("--data.train",)


def _data(arguments: Sequence[str]) -> dict:
    asked = options.parse(Data, arguments, "python -m benchmarks data")
    from benchmarks import data

    settings = dataclasses.replace(asked.data, dev="", test="")
    shapes = numbers("padding-shapes", asked.padding_shapes)
    return data.run(settings, asked.encoders.split(","), asked.repeats, shapes)


@dataclass(frozen=True)
class Decode:
    """Time the translation of a test corpus, beside JoeyNMT where its Python is named.

    The two translate in turn, each with its fastest settings, and a model of JoeyNMT of the same
    sizes and vocabulary is trained first. Then the memory that search takes at the paper's size.
    """

    run: Path  # the folder of a trained model
    joeynmt: Path | None = None  # the Python of an environment with JoeyNMT
    peer_folder: Path | None = None  # JoeyNMT's model, made or found; RUN/peer-joeynmt
    peer_updates: int = 1000  # of 64 sentences, to train it
    corpus: str = ""  # an address, as of --data.test; the run's test corpus
    sentences: int = 0  # the first so many of it; 0: all
    beams: str = "1,5"  # 1 is greedy search
    batch_sizes: str = "16,32,64,128"  # to choose from
    rounds: int = 5  # in which both sides translate in turn
    memory: bool = True  # whether to measure the memory of search as well
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks decode --run runs/quickstart",
        "python -m benchmarks decode --run runs/quickstart --beams 1,5,12 --memory False",
    )


def _decode(arguments: Sequence[str]) -> dict:
    asked = options.parse(Decode, arguments, "python -m benchmarks decode")
    for name, least in (("sentences", 0), ("peer_updates", 1), ("rounds", 1)):
        if getattr(asked, name) < least:
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} is {getattr(asked, name)}, but at least {least} is needed"
            )
    beams, sizes = numbers("beams", asked.beams), numbers("batch-sizes", asked.batch_sizes)
    from benchmarks import decode

    if asked.trust_code:
        import_from_here()
    return decode.run(
        asked.run,
        asked.joeynmt,
        asked.peer_folder,
        asked.peer_updates,
        asked.corpus,
        asked.sentences,
        beams,
        sizes,
        asked.rounds,
        asked.memory,
        asked.trust_code,
    )


@dataclass(frozen=True)
class Train:
    """Time updates of a random batch beside other programs and beside the machine's limit.

    torch, torch-compiled and joeynmt run in an environment of their own.
    """

    size: str = "small"  # of model and batch
    peers: str = "jax"  # what to measure beside, with commas between; "" for nothing
    rounds: int = 5  # of each pair of programs; medians count
    torch_python: Path | None = None  # the Python of an environment with torch, NumPy and joeynmt
    lengths: str = ""  # S = T instead of those of the size, as 30,50
    batches: str = ""  # sentences in a batch instead of those of the size, as 80,320,1280
    compute_dtype: str = "float32"  # of ours; beside bfloat16, PyTorch may round by autocast

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks train",
        "python -m benchmarks train --size tiny --peers jax,whole-logits",
    )


def _train(arguments: Sequence[str]) -> dict:
    asked = options.parse(Train, arguments, "python -m benchmarks train")
    lengths = numbers("lengths", asked.lengths) if asked.lengths else []
    batches = numbers("batches", asked.batches) if asked.batches else []
    _at_least_one("rounds", asked.rounds)
    from benchmarks import train

    peers = [name.strip() for name in asked.peers.split(",") if name.strip()]
    return train.run(
        asked.size, peers, asked.rounds, asked.torch_python, lengths, asked.compute_dtype, batches
    )


@dataclass(frozen=True)
class Epoch(experiment.Experiment):
    """Time real epochs over the corpus of a configuration: padding and the host's work included.

    `--workdir` keeps the prepared corpus, and no model.
    """

    epochs: int = 1  # how many
    batches: int = 0  # of each epoch; 0: all

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks epoch quickstart --workdir runs/epoch",
        "python -m benchmarks epoch quickstart --workdir runs/epoch --batches 50",
    )
    COMMON: ClassVar[Sequence[str]] = ("--data.train", "--data.plan", "--data.shapes")


def _epoch(arguments: Sequence[str]) -> dict:
    asked = experiment.parse(Epoch, arguments, "python -m benchmarks epoch")
    _at_least_one("epochs", asked.epochs)
    if asked.batches < 0:
        raise ValueError(f"--batches is {asked.batches}, but should be at least 0, which is all")
    from bahdanau_jax import run
    from benchmarks import epoch

    run.check(asked.settings)
    return epoch.run(asked.settings, asked.workdir, asked.epochs, asked.batches)


@dataclass(frozen=True)
class Scaling:
    """Time updates as batch, lengths, vocabulary and units grow, with lines through the times."""

    size: str = "small"  # where the sweeps start; paper takes 23 GiB, for 19 states at once
    rounds: int = 5  # through all sizes; medians count
    output: Path | None = None  # a folder for scaling.svg

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks scaling",
        "python -m benchmarks scaling --size tiny --output report",
    )


def _scaling(arguments: Sequence[str]) -> dict:
    asked = options.parse(Scaling, arguments, "python -m benchmarks scaling")
    _at_least_one("rounds", asked.rounds)
    from benchmarks import scaling

    return scaling.run(asked.size, asked.rounds, asked.output)


@dataclass(frozen=True)
class Learning(experiment.Experiment):
    """Time a training until its development set is translated well, and then JoeyNMT's.

    `--workdir` is a new folder, for both.
    """

    target: float = 50.0  # BLEU of greedy translations, tokenised
    minutes: float = 60.0  # for each, at most
    joeynmt: Path | None = None  # the Python of an environment with JoeyNMT

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks learning multi30k --workdir runs/learning",
        "python -m benchmarks learning quickstart --workdir runs/learning --target 80",
    )
    COMMON: ClassVar[Sequence[str]] = ("--data.train", "--data.dev")


def _learning(arguments: Sequence[str]) -> dict:
    asked = experiment.parse(Learning, arguments, "python -m benchmarks learning")
    if not 0 < asked.minutes < math.inf:
        raise ValueError(f"--minutes is {asked.minutes}, but should be a number above 0")
    if not math.isfinite(asked.target):
        raise ValueError(f"--target is {asked.target}, but should be a number of BLEU")
    from bahdanau_jax import run
    from benchmarks import learning

    run.check(asked.settings)
    if not asked.settings.data.dev:
        raise ValueError("the configuration names no development set: set --data.dev")
    return learning.run(asked.settings, asked.workdir, asked.target, asked.minutes, asked.joeynmt)


def _at_least_one(option: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"--{option} is {value}, but at least 1 is needed")


def numbers(option: str, text: str) -> list[int]:
    """Positive whole numbers with commas between, as an option gives them."""
    found = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in found):
        raise ValueError(f"--{option} is {text!r}, but should be like 1,2,4")
    return [int(word) for word in found]


@dataclass(frozen=True)
class Overhead:
    """Time each update of a training on random sentences, beside lines and saves and apart.

    Sizes are those of the configuration.
    """

    config: str = "multi30k"  # a configuration file, or the name of a shipped one
    length: int = 16  # positions of each side
    rows: int = 6000  # of each vocabulary, where the configuration leaves them to the data
    steps: int = 400  # updates
    checkpoint_every: int = 30  # updates; the shipped configurations save less often

    EXAMPLES: ClassVar[Sequence[str]] = (
        "python -m benchmarks overhead",
        "python -m benchmarks overhead --config quickstart --steps 100",
    )


def _overhead(arguments: Sequence[str]) -> dict:
    asked = options.parse(Overhead, arguments, "python -m benchmarks overhead")
    for name in ("length", "rows", "steps", "checkpoint_every"):
        if (value := getattr(asked, name)) < 3:
            raise ValueError(f"--{name.replace('_', '-')} is {value}, but should be at least 3")
    from benchmarks import overhead

    config = experiment.load(asked.config)
    sizes = {
        side: getattr(config.model, side) or asked.rows
        for side in ("source_vocabulary", "target_vocabulary")
    }
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, **sizes))
    return overhead.run(config, asked.length, asked.steps, asked.checkpoint_every)


# What can be measured, in which class of options it is described, and who measures it.
BENCHMARKS: Mapping[str, tuple[type, Callable[[Sequence[str]], dict]]] = MappingProxyType(
    {
        "data": (Data, _data),
        "decode": (Decode, _decode),
        "epoch": (Epoch, _epoch),
        "learning": (Learning, _learning),
        "overhead": (Overhead, _overhead),
        "scaling": (Scaling, _scaling),
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
        "Measure the speed of this program on this machine; the result is JSON on stdout.",
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
    print(json.dumps(BENCHMARKS[name][1](rest), indent=2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and return its exit code, as the main function of `bahdanau` does.

    >>> main(["train", "--size", "tiny"])
    """
    return command_line.main(arguments, dispatch)


if __name__ == "__main__":
    sys.exit(main())
