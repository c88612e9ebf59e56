"""The corpora that need no file: `builtin:NAME/SPLIT?options`, each pair with its gold alignment.

    builtin:en-fr/train?pairs=20000&min=3&max=60&seed=0      sentences of min to max words
    builtin:reverse/test?pairs=500&min=1&max=10&limit=20     min to max integers of 1 to limit

Splits are train, dev and test, and share no source. Dev and test of en-fr repeat no source either.
"""

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bahdanau_jax.data import tasks
from bahdanau_jax.data.names import choose

if TYPE_CHECKING:
    from bahdanau_jax.data.grammar import AlignedPair

PAIRS = 1_000  # where the option does not say
MOST_REPEATED = 10_000  # sentences seen before in a row, after which there is no new one


class Builtin(NamedTuple):
    """A built-in corpus. `generate(split, seed, other options)` is endless and deterministic."""

    options: tuple[str, ...]  # the names it takes beside pairs and seed
    generate: "Callable[[str, int, dict[str, int]], Iterator[AlignedPair]]"
    texts: "Callable[[AlignedPair], tuple[str, str]]"  # both sides as ordinary text
    files: Callable[[], list[Path]]  # the code that makes it


def _integers(task: tasks.Task) -> Builtin:
    return Builtin(
        options=("min", "max", "limit"),
        generate=lambda split, seed, options: tasks.generate(task._replace(**options), split, seed),
        texts=lambda pair: (" ".join(pair.source), " ".join(pair.target)),
        files=lambda: [Path(tasks.__file__)],
    )


def _sentences(split: str, seed: int, options: dict[str, int]) -> "Iterator[AlignedPair]":
    from bahdanau_jax.data import grammar

    words = {f"{bound}_words": value for bound, value in options.items()}
    stream = grammar.generate(split, seed, **words)
    return stream if split == "train" else _distinct(stream)


def _sentence_texts(pair: "AlignedPair") -> tuple[str, str]:
    from bahdanau_jax.data import grammar

    return grammar.text(pair.source, "en"), grammar.text(pair.target, "fr")


def _grammar_files() -> list[Path]:
    from bahdanau_jax.data import grammar

    # Its lexicon and rules are files beside it.
    return sorted(Path(inspect.getfile(grammar)).parent.glob("*.py"))


def _distinct(stream: "Iterator[AlignedPair]") -> "Iterator[AlignedPair]":
    seen, repeated = set(), 0
    for pair in stream:
        if pair.source not in seen:
            seen.add(pair.source)
            repeated = 0
            yield pair
        elif (repeated := repeated + 1) == MOST_REPEATED:
            raise ValueError(
                f"builtin:en-fr has only {len(seen)} different sentences within these bounds: "
                "ask for fewer pairs or more words"
            )


BUILTINS: Mapping[str, Builtin] = MappingProxyType(
    {
        "en-fr": Builtin(("min", "max"), _sentences, _sentence_texts, _grammar_files),
        **{name: _integers(task) for name, task in tasks.TASKS.items()},
    }
)


def aligned(rest: str) -> "Iterator[AlignedPair]":
    """The pairs of NAME/SPLIT?options with their gold links."""
    corpus, split, options = _parse(rest)
    pairs, seed = options.pop("pairs", PAIRS), options.pop("seed", 0)
    return itertools.islice(corpus.generate(split, seed, options), pairs)


def texts(rest: str) -> Iterator[tuple[str, str]]:
    """The same pairs as ordinary text."""
    corpus, *_ = _parse(rest)
    return map(corpus.texts, aligned(rest))


def files(rest: str) -> list[Path]:
    corpus, *_ = _parse(rest)
    return corpus.files()


def _parse(rest: str) -> tuple[Builtin, str, dict[str, int]]:
    """(corpus, split, options given); a ValueError lists what is known."""
    address, _, query = rest.partition("?")
    name, _, split = address.partition("/")
    corpus = choose(BUILTINS, name, "built-in corpus")
    choose(tasks.SPLITS, split, f"split of builtin:{name}")
    known = dict.fromkeys(("pairs", "seed", *corpus.options))
    options = {}
    for item in filter(None, query.split("&")):
        key, _, value = item.partition("=")
        choose(known, key, f"option of builtin:{name}")
        if not (value.isascii() and value.isdigit()):
            raise ValueError(f"builtin:{rest}: {key} should be a whole number, not {value!r}")
        options[key] = int(value)
    return corpus, split, options
