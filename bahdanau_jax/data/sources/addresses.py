"""Where sentence pairs come from: an address, `KIND:WHERE`, or several of them with weights.

    text:train.en.gz,train.fr.gz           line n of one file translates line n of the other
    text:a.en+b.en,a.fr+b.fr               several files a side, one after the other
    tsv:pairs.tsv?source=1&target=2        two columns of a table, by number or by name
    jsonl:pairs.jsonl?source=en&target=fr  two keys of every line's object
    tfds:wmt14_translate/fr-en             a public dataset: see tfds.py
    builtin:en-fr/train?pairs=20000        see builtin.py
    text:a.en,a.fr; 0.5*tsv:b.tsv          an epoch has all pairs of the first, half of the second

Relative files lie in `data.root`; where it is not set, in the environment's BAHDANAU_DATA, the
current folder or data/, whichever has all files of the corpus first.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources import builtin, tfds
from bahdanau_jax.data.sources import text_files as reading
from bahdanau_jax.data.sources.locations import located
from bahdanau_jax.names import choose

if TYPE_CHECKING:
    from bahdanau_jax.data.sources.grammar import AlignedPair

WEIGHT = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\*(.*)", re.DOTALL)


class Pair(NamedTuple):
    source: str  # one line of text, as it was written
    target: str  # its translation


class Corpus(NamedTuple):
    """One address of several."""

    address: str
    weight: float  # how often an epoch goes through it


class Source(NamedTuple):
    """A kind of corpus. Each function takes what stands after the colon, and the settings."""

    pairs: Callable[[str, DataConfig], Iterator[Pair]]
    files: Callable[[str, DataConfig], list[Path]]  # all files that shape the pairs
    aligned: "Callable[[str, DataConfig], Iterator[AlignedPair]] | None" = None  # with gold links


def corpora(spec: str) -> list[Corpus]:
    """The corpora that a setting names, separated by `;`.

    Raises ValueError for an empty one, an unknown kind and a weight that is not positive.

    >>> corpora("text:a.en,a.fr; 0.5*tsv:b.tsv")[1]
    Corpus(address='tsv:b.tsv', weight=0.5)
    """
    found = []
    for part in spec.split(";"):
        weighted = WEIGHT.fullmatch(part.strip())
        corpus = Corpus(weighted[2], float(weighted[1])) if weighted else Corpus(part.strip(), 1.0)
        if not corpus.address or not 0 < corpus.weight < math.inf:
            raise ValueError(
                f"{spec!r} should be KIND:WHERE, or several with ; between, each with a positive "
                "weight before it or none, as in text:a.en,a.fr; 0.5*tsv:b.tsv"
            )
        _split(corpus.address)
        found.append(corpus)
    return found


def pairs(spec: str, config: DataConfig) -> Iterator[Pair]:
    """The sentence pairs of all corpora that `spec` names, in their order; weights change nothing.

    Raises ValueError or OSError: at once for a name, an option or a file that is not there; while
    reading for damaged files, invalid UTF-8, unequal line counts; for a corpus without any pair.

    >>> next(pairs("text:train.en.gz,train.fr.gz", config)).source
    'Two young men are outside.'
    """
    return itertools.chain.from_iterable([one(c.address, config) for c in corpora(spec)])


def one(address: str, config: DataConfig) -> Iterator[Pair]:
    """The sentence pairs of one corpus."""
    kind, rest = _split(address)
    return _not_empty(kind.pairs(rest, config), address)


def is_aligned(address: str) -> bool:
    """Whether a corpus has gold alignments."""
    return _split(address)[0].aligned is not None


def aligned_pairs(address: str, config: DataConfig) -> "Iterator[AlignedPair]":
    """The pairs of a `builtin:` corpus with their gold links: the same pairs in the same order."""
    kind, rest = _split(address)
    if kind.aligned is None:
        raise ValueError(f"{address} has no gold alignments; builtin: corpora have")
    return _not_empty(kind.aligned(rest, config), address)


def are_apart(one: str, other: str) -> bool:
    """Whether two corpora are known to share no source, without reading them: splits of a built-in
    corpus do not.
    """
    kinds = [_split(address) for address in (one, other)]
    if any(kind is not SOURCES["builtin"] for kind, _ in kinds):
        return False
    (name, split), (same, another) = (rest.partition("?")[0].split("/") for _, rest in kinds)
    return name == same and split != another


def files(address: str, config: DataConfig) -> list[Path]:
    """The files that a corpus is made from; a built-in one is made from its generator."""
    kind, rest = _split(address)
    return kind.files(rest, config)


def identity(spec: str, config: DataConfig) -> list[list]:
    """What tells the same corpora from others without reading them: addresses, and the name, size
    and time of each file. As JSON has it.
    """
    found = []
    for corpus in corpora(spec):
        stats = [(path.name, path.stat()) for path in files(corpus.address, config)]
        found.append(
            [corpus.address, [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]]
        )
    return found


def _split(address: str) -> tuple[Source, str]:
    name, _, rest = address.partition(":")
    return choose(SOURCES, name, "kind of corpus"), rest


def _not_empty(items: Iterator, address: str) -> Iterator:
    empty = True
    for item in items:
        empty = False
        yield item
    if empty:
        raise ValueError(f"the corpus {address} is empty: it has no sentence pair")


def _text_sides(rest: str, config: DataConfig) -> tuple[list[Path], list[Path]]:
    sides = rest.split(",")
    if len(sides) != 2 or not all(sides):
        raise ValueError(
            f"text:{rest} should be text:SOURCE_FILE,TARGET_FILE, whose names have no , + or ; in "
            "them"
        )
    source, target = (side.split("+") for side in sides)
    if len(source) != len(target):
        raise ValueError(
            f"text:{rest} names {len(source)} source files, but {len(target)} target files"
        )
    paths = located([*source, *target], config)
    return paths[: len(source)], paths[len(source) :]


def _text_files(rest: str, config: DataConfig) -> list[Path]:
    source, target = _text_sides(rest, config)
    return source + target


def _text_pairs(rest: str, config: DataConfig) -> Iterator[Pair]:
    shards = list(zip(*_text_sides(rest, config), strict=True))
    return itertools.chain.from_iterable(itertools.starmap(_shard, shards))


def _shard(source: Path, target: Path) -> Iterator[Pair]:
    sides = reading.sentences(source), reading.sentences(target)
    number = 0
    for number, pair in enumerate(map(Pair._make, itertools.zip_longest(*sides)), start=1):
        if None in pair:
            counts = [number - (line is None) for line in pair]
            counts[pair.source is None] += sum(1 for _ in sides[pair.source is None])
            raise ValueError(
                f"{source} has {counts[0]} lines, but {target} has {counts[1]}: line n of one "
                "should translate line n of the other"
            )
        yield pair


def _fields(read: Callable, defaults: Callable[[DataConfig], tuple[str, str]], kind: str) -> Source:
    """A kind whose files hold both sides, each under a name: FILE+FILE?source=NAME&target=NAME."""

    def parse(rest: str, config: DataConfig) -> tuple[list[Path], tuple[str, str]]:
        names, _, query = rest.partition("?")
        chosen: dict[str, str] = dict(zip(("source", "target"), defaults(config), strict=True))
        for item in filter(None, query.split("&")):
            key, _, value = item.partition("=")
            choose(chosen, key, f"option of {kind}:")
            chosen[key] = value
        return located(names.split("+"), config), (chosen["source"], chosen["target"])

    def found(rest: str, config: DataConfig) -> Iterator[Pair]:
        paths, names = parse(rest, config)
        return (Pair(*sides) for path in paths for sides in read(path, names))

    return Source(found, lambda rest, config: parse(rest, config)[0])


# What stands before the colon of a corpus.
SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "text": Source(_text_pairs, _text_files),
        "tsv": _fields(reading.table, lambda config: ("1", "2"), "tsv"),
        "jsonl": _fields(
            reading.records,
            lambda config: (config.source_language, config.target_language),
            "jsonl",
        ),
        "builtin": Source(
            pairs=lambda rest, config: itertools.starmap(Pair, builtin.texts(rest)),
            files=lambda rest, config: builtin.files(rest),
            aligned=lambda rest, config: builtin.aligned(rest),
        ),
        "tfds": Source(
            pairs=lambda rest, config: itertools.starmap(Pair, tfds.texts(rest, config)),
            files=tfds.files,
        ),
    }
)
