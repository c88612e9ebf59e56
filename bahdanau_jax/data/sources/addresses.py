"""Sentence pairs from an address, `KIND:WHERE`, or from several addresses with weights.

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

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bahdanau_jax.batch import SIDES
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources import builtin, text_files, tfds
from bahdanau_jax.data.sources.hashing import sha256_of_each
from bahdanau_jax.data.sources.locations import located
from bahdanau_jax.names import choose
from bahdanau_jax.splits import weighted

if TYPE_CHECKING:
    from bahdanau_jax.data.sources.grammar import AlignedPair


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str  # text of one sentence, as it was written
    target: str  # its translation


class Corpus(NamedTuple):
    """One address of several."""

    address: str  # without the weight, such as "builtin:en-fr/train"
    weight: float  # passes through the corpus in an epoch


class OpenCorpus(NamedTuple):
    """A corpus whose files were located."""

    address: str  # as `data.train` names it, without its weight
    files: list[Path]  # all files that shape the pairs; those of the generator of a built-in corpus
    read: Callable[[], Iterator[tuple[str, str]]]  # the sentence pairs, from the first on

    def pairs(self) -> Iterator[Pair]:
        """The sentence pairs from the first on. Raises as `pairs` does."""
        return _not_empty(map(Pair._make, self.read()), self.address)


class Source(NamedTuple):
    """A kind of corpus. Each function takes the text after the colon, and the settings."""

    open: Callable[[str, DataConfig], tuple[list[Path], Callable[[], Iterator[tuple[str, str]]]]]
    aligned: "Callable[[str, DataConfig], Iterator[AlignedPair]] | None" = None  # with gold links
    is_here: Callable[[str, DataConfig], bool] = lambda rest, config: True  # nothing to download


def corpora(spec: str) -> list[Corpus]:
    """Parse the corpora that a setting names, separated by `;`.

    Raises ValueError for an empty address, an unknown kind and a weight that is not positive.

    >>> corpora("text:a.en,a.fr; 0.5*tsv:b.tsv")[1]
    Corpus(address='tsv:b.tsv', weight=0.5)
    """
    parsed = []
    for corpus in itertools.starmap(Corpus, weighted(spec)):
        if not corpus.address or not 0 < corpus.weight < math.inf:
            raise ValueError(
                f"{spec!r} should be KIND:WHERE, or several with ; between, each with a positive "
                "weight before it or none, as in text:a.en,a.fr; 0.5*tsv:b.tsv"
            )
        _split(corpus.address)
        parsed.append(corpus)
    return parsed


def open_corpora(spec: str, config: DataConfig) -> list[OpenCorpus]:
    """Locate the files of all corpora that `spec` names, in their order.

    Raises ValueError or OSError for a name, an option or a file that does not exist.
    """
    opened = []
    for corpus in corpora(spec):
        kind, rest = _split(corpus.address)
        opened.append(OpenCorpus(corpus.address, *kind.open(rest, config)))
    return opened


def identity(opened: Iterable[OpenCorpus]) -> list[list]:
    """A JSON value that differs for other corpora: addresses, and name and SHA-256 of each file.

    Copies of the same files have the same identity, on any host.
    """
    corpora = list(opened)
    digests = sha256_of_each(path for corpus in corpora for path in corpus.files)
    return [
        [corpus.address, [[path.name, digests[path]] for path in corpus.files]]
        for corpus in corpora
    ]


def file_digests(spec: str, config: DataConfig) -> list[list]:
    """The `identity` of the corpora of a setting, but for built-in ones, which nobody edits."""
    corpora = open_corpora(spec, config)
    return identity(corpus for corpus in corpora if not corpus.address.startswith("builtin:"))


def pairs(spec: str, config: DataConfig) -> Iterator[Pair]:
    """The sentence pairs of all corpora that `spec` names, in their order; weights change nothing.

    Raises ValueError or OSError: at once for a name, an option or a file that does not exist; while
    reading for damaged files, invalid UTF-8, unequal line counts; for a corpus without any pair.

    >>> next(pairs("text:train.en.gz,train.fr.gz", config)).source
    'Two young men are outside.'
    """
    opened = open_corpora(spec, config)
    return itertools.chain.from_iterable([corpus.pairs() for corpus in opened])


def is_aligned(address: str) -> bool:
    """Whether a corpus has gold alignments."""
    return _split(address)[0].aligned is not None


def aligned_pairs(address: str, config: DataConfig) -> "Iterator[AlignedPair]":
    """The pairs of a `builtin:` corpus with their gold links, in the same order as `pairs`.

    Raises ValueError for a corpus of another kind, an unknown name and an empty corpus.

    >>> next(aligned_pairs("builtin:reverse/test?min=3&max=5", DataConfig())).target
    ('16', '8', '18', '16')
    """
    kind, rest = _split(address)
    if kind.aligned is None:
        raise ValueError(f"{address} has no gold alignments; builtin: corpora have")
    return _not_empty(kind.aligned(rest, config), address)


def is_here(address: str, config: DataConfig) -> bool:
    """Whether reading a corpus downloads nothing. Raises ValueError for an unknown name."""
    kind, rest = _split(address)
    return kind.is_here(rest, config)


def are_apart(one: str, other: str) -> bool:
    """Whether two corpora certainly share no source, which is true of splits of a built-in corpus.

    The corpora are not read.
    """
    kinds = [_split(address) for address in (one, other)]
    if any(kind is not SOURCES["builtin"] for kind, _ in kinds):
        return False
    (name, split), (same, another) = (rest.partition("?")[0].split("/") for _, rest in kinds)
    return name == same and split != another


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


def _open_text(rest: str, config: DataConfig):
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
    shards = list(zip(paths[: len(source)], paths[len(source) :], strict=True))
    return paths, lambda: itertools.chain.from_iterable(
        itertools.starmap(text_files.aligned, shards)
    )


def _fields(read: Callable, defaults: Callable[[DataConfig], tuple[str, str]], kind: str) -> Source:
    """A kind whose files hold both sides, each under a name: FILE+FILE?source=NAME&target=NAME."""

    def open_files(rest: str, config: DataConfig):
        names, _, query = rest.partition("?")
        fields: dict[str, str] = dict(zip(SIDES, defaults(config), strict=True))
        for item in filter(None, query.split("&")):
            key, _, value = item.partition("=")
            choose(fields, key, f"option of {kind}:")
            fields[key] = value
        paths = located(names.split("+"), config)
        sides = fields["source"], fields["target"]
        return paths, lambda: itertools.chain.from_iterable(read(path, sides) for path in paths)

    return Source(open_files)


def _open_tfds(rest: str, config: DataConfig):
    dataset = tfds.open_dataset(rest, config)
    return dataset.files, functools.partial(tfds.texts, dataset)


# The word before the colon of an address -> its kind of corpus.
SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "text": Source(_open_text),
        "tsv": _fields(text_files.table, lambda config: ("1", "2"), "tsv"),
        "jsonl": _fields(
            text_files.records,
            lambda config: (config.source_language, config.target_language),
            "jsonl",
        ),
        "builtin": Source(
            open=lambda rest, config: (
                builtin.files(rest),
                functools.partial(builtin.texts, rest),
            ),
            aligned=lambda rest, config: builtin.aligned(rest),
        ),
        "tfds": Source(_open_tfds, is_here=tfds.is_here),
    }
)
