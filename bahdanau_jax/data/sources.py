"""Where sentence pairs come from: `text:FILE,FILE`, `builtin:NAME/SPLIT?options` or `tfds:NAME`.

    text:train.en.gz,train.fr.gz           line n of one file translates line n of the other
    text:a.en+b.en,a.fr+b.fr               several files a side, one after the other
    builtin:en-fr/train?pairs=20000        see builtin.py
    tfds:wmt14_translate/fr-en             see tfds.py

Relative files lie in `data.root`, else in the environment's BAHDANAU_DATA, else in data/.
"""

import gzip
import itertools
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import builtin, tfds
from bahdanau_jax.data.names import choose

if TYPE_CHECKING:
    from bahdanau_jax.data.grammar import AlignedPair


class Pair(NamedTuple):
    source: str  # one line of text, as it was written
    target: str  # its translation


class Source(NamedTuple):
    """A kind of corpus. Each function takes what stands after the colon, and the settings."""

    pairs: Callable[[str, DataConfig], Iterator[Pair]]
    aligned: "Callable[[str, DataConfig], Iterator[AlignedPair]]"
    files: Callable[[str, DataConfig], list[Path]]  # all files that shape the pairs


def pairs(spec: str, config: DataConfig) -> Iterator[Pair]:
    """The sentence pairs of a corpus, in its order.

    Raises ValueError or OSError: at once for a name, an option or a file that is not there; while
    reading for damaged files, invalid UTF-8, unequal line counts; for a corpus without any pair.

    >>> next(pairs("text:train.en.gz,train.fr.gz", config)).source
    'Two young men are outside.'
    """
    kind, rest = _split(spec)
    return _not_empty(kind.pairs(rest, config), spec)


def aligned_pairs(spec: str, config: DataConfig) -> "Iterator[AlignedPair]":
    """The pairs of a `builtin:` corpus with their gold links: the same pairs in the same order."""
    kind, rest = _split(spec)
    return _not_empty(kind.aligned(rest, config), spec)


def files(spec: str, config: DataConfig) -> list[Path]:
    """The files that a corpus is made from; a built-in one is made from its generator."""
    kind, rest = _split(spec)
    return kind.files(rest, config)


def _split(spec: str) -> tuple[Source, str]:
    name, _, rest = spec.partition(":")
    return choose(SOURCES, name, "kind of corpus"), rest


def _not_empty(items: Iterator, spec: str) -> Iterator:
    empty = True
    for item in items:
        empty = False
        yield item
    if empty:
        raise ValueError(f"the corpus {spec} is empty: it has no sentence pair")


OPENERS: Mapping[str, Callable] = MappingProxyType({".gz": gzip.open, ".xz": lzma.open})


def _text_sides(rest: str, config: DataConfig) -> tuple[list[Path], list[Path]]:
    sides = rest.split(",")
    if len(sides) != 2 or not all(sides):
        raise ValueError(f"text:{rest} should be text:SOURCE_FILE,TARGET_FILE")
    root = Path(config.root or os.environ.get("BAHDANAU_DATA") or "data")
    source, target = ([root / name for name in side.split("+")] for side in sides)
    if len(source) != len(target):
        raise ValueError(
            f"text:{rest} names {len(source)} source files, but {len(target)} target files"
        )
    for path in (*source, *target):
        if not path.is_file():
            raise FileNotFoundError(
                f"no file {path} (relative files lie in the folder set by --data.root or by the "
                "environment variable BAHDANAU_DATA)"
            )
    return source, target


def _text_files(rest: str, config: DataConfig) -> list[Path]:
    source, target = _text_sides(rest, config)
    return source + target


def _text_pairs(rest: str, config: DataConfig) -> Iterator[Pair]:
    shards = list(zip(*_text_sides(rest, config), strict=True))
    return itertools.chain.from_iterable(itertools.starmap(_shard, shards))


def _shard(source: Path, target: Path) -> Iterator[Pair]:
    counts = [0, 0]
    for sides in itertools.zip_longest(lines(source), lines(target)):
        for side, line in enumerate(sides):
            counts[side] += line is not None
        if None not in sides:
            yield Pair(*sides)
    if counts[0] != counts[1]:
        raise ValueError(
            f"{source} has {counts[0]} lines, but {target} has {counts[1]}: line n of one should "
            "translate line n of the other"
        )


def lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, plain, .gz or .xz. Only \n ends one; a \r before it goes."""
    number = 0
    with OPENERS.get(path.suffix, open)(path, "rb") as file:
        try:
            for line in file:
                number += 1
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not valid UTF-8 (byte {error.start + 1} of the line)"
            ) from error
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            raise ValueError(f"{path} is damaged after line {number}: {error}") from error


def _text_aligned(rest: str, config: DataConfig) -> "Iterator[AlignedPair]":
    raise ValueError(f"text:{rest} has no gold alignments; builtin: corpora have")


# What stands before the colon of a corpus.
SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "text": Source(_text_pairs, _text_aligned, _text_files),
        "builtin": Source(
            pairs=lambda rest, config: itertools.starmap(Pair, builtin.texts(rest)),
            aligned=lambda rest, config: builtin.aligned(rest),
            files=lambda rest, config: builtin.files(rest),
        ),
        "tfds": Source(
            pairs=lambda rest, config: itertools.starmap(Pair, tfds.texts(rest, config)),
            aligned=tfds.aligned,
            files=tfds.files,
        ),
    }
)
