"""bahdanau bench WHAT: measurements of this program on this machine, as JSON on stdout."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from bahdanau_jax.cli import options
from bahdanau_jax.config import DataConfig


@dataclass(frozen=True)
class Data:
    """Time the preparation of a corpus and the delivery of its batches, and count their padding.

    The corpus is `--data.train`, and any other field of the data's configuration can be set.
    """

    data: DataConfig = field(default_factory=DataConfig)
    encoders: str = "unigram,bpe,words"  # ways to encode, by name
    repeats: int = 3  # of the delivery; the median counts
    padding_shapes: str = "1,2,4,8,12,16,24,48"  # numbers of shapes to plan with


def _data(arguments: Sequence[str]) -> dict:
    asked = options.parse(Data, arguments, "bench data")
    from bahdanau_jax.benchmarks import data

    settings = dataclasses.replace(asked.data, dev="", test="")
    shapes = [int(number) for number in asked.padding_shapes.split(",")]
    return data.run(settings, asked.encoders.split(","), asked.repeats, shapes)


# What can be measured.
BENCHMARKS: Mapping[str, Callable[[Sequence[str]], dict]] = MappingProxyType({"data": _data})


def main(arguments: Sequence[str]) -> None:
    name, *rest = arguments or ("",)
    if name not in BENCHMARKS:
        if name in ("-h", "--help"):
            print(f"usage: bahdanau bench WHAT [OPTIONS]\n\n{__doc__}\n\nWHAT: {_known()}")
            return
        raise ValueError(f"no benchmark {name!r}; there are: {_known()}")
    print(json.dumps(BENCHMARKS[name](rest), indent=2))


def _known() -> str:
    return ", ".join(BENCHMARKS)
