"""Generated corpora, `builtin:NAME/SPLIT?options`, in which each pair has its gold alignment.

    builtin:en-fr/train?pairs=20000&min=3&max=60&seed=0      sentences of min to max words
    builtin:en-fr/train?rare=10&words=FILE                   10 % rare names, your own words
    builtin:reverse/test?pairs=500&min=1&max=10&limit=20     min to max integers from 1 to limit

A relative FILE is relative to the current folder. docs/grammar.md describes en-fr.

The splits train, dev and test share no source. Dev and test of en-fr contain no source twice.
"""

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from bahdanau_jax.data.sources import corpus_cache, integer_tasks
from bahdanau_jax.names import choose

if TYPE_CHECKING:
    from bahdanau_jax.data.sources.grammar import AlignedPair

PAIRS = 1_000  # the default of the option
DIGITS = 15  # of a number in an address, at most
MOST_REPEATED = 10_000  # repeated sentences in a row after which the search for a new one ends

Options = dict[str, Any]


class Builtin(NamedTuple):
    """A built-in corpus, whose pairs are endless and deterministic."""

    options: "Mapping[str, Callable[[str], Any]]"  # name -> parser of its value
    # Arguments: split, seed, other options, and whether the pairs need links.
    generate: "Callable[[str, int, Options, bool], Iterator[AlignedPair]]"
    texts: "Callable[[AlignedPair], tuple[str, str]]"  # both sides as ordinary text
    files: Callable[[Options], list[Path]]  # code and data that shape the pairs


def _whole(value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"should be a whole number, not {value!r}")
    if len(value) > DIGITS:
        raise ValueError(f"should have at most {DIGITS} digits, not {len(value)}")
    return int(value)


def _file(value: str) -> str:
    if not Path(value).is_file():
        raise ValueError(f"should be a file, but {value!r} is none")
    return value


def _integers(task: integer_tasks.Task) -> Builtin:
    return Builtin(
        options=dict.fromkeys(("min", "max", "limit"), _whole),
        generate=lambda split, seed, options, linked: integer_tasks.generate(
            task._replace(**options), split, seed
        ),
        texts=lambda pair: (" ".join(pair.source), " ".join(pair.target)),
        files=lambda options: [Path(integer_tasks.__file__)],
    )


# Option of en-fr -> parser of its value, name of the parameter of `grammar.generate`.
_SENTENCE_OPTIONS = MappingProxyType(
    {
        "min": (_whole, "min_words"),
        "max": (_whole, "max_words"),
        "rare": (_whole, "rare"),
        "words": (_file, "words"),
    }
)


def _sentences(split: str, seed: int, options: Options, linked: bool) -> "Iterator[AlignedPair]":
    from bahdanau_jax.data.sources import grammar

    arguments = {_SENTENCE_OPTIONS[name][1]: value for name, value in options.items()}
    stream = grammar.generate(split, seed, **arguments, linked=linked)
    return stream if split == "train" else _distinct(stream)


def _sentence_texts(pair: "AlignedPair") -> tuple[str, str]:
    from bahdanau_jax.data.sources import grammar

    return grammar.text(pair.source, "en"), grammar.text(pair.target, "fr")


def _sentence_files(options: Options) -> list[Path]:
    from bahdanau_jax.data.sources import grammar

    folder = Path(inspect.getfile(grammar)).parent  # of its words and rules
    own = [Path(options["words"])] if "words" in options else []
    return sorted((*folder.glob("*.py"), *folder.glob("*.txt"))) + own


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
        "en-fr": Builtin(
            options={name: read for name, (read, _) in _SENTENCE_OPTIONS.items()},
            generate=_sentences,
            texts=_sentence_texts,
            files=_sentence_files,
        ),
        **{name: _integers(task) for name, task in integer_tasks.TASKS.items()},
    }
)


def aligned(rest: str) -> "Iterator[AlignedPair]":
    """The pairs of NAME/SPLIT?options with their gold links."""
    return _pairs(*_parse(rest), linked=True)


def texts(rest: str) -> Iterator[tuple[str, str]]:
    """The pairs of NAME/SPLIT?options as ordinary text."""
    corpus, split, options = _parse(rest)
    return corpus_cache.texts(
        corpus_cache.key(rest, (Path(__file__), *corpus.files(options))),
        options.get("pairs", PAIRS),
        map(corpus.texts, _pairs(corpus, split, options, linked=False)),
    )


def _pairs(corpus: Builtin, split: str, options: Options, linked: bool) -> "Iterator[AlignedPair]":
    options = dict(options)
    pairs, seed = options.pop("pairs", PAIRS), options.pop("seed", 0)
    return itertools.islice(corpus.generate(split, seed, options, linked), pairs)


def files(rest: str) -> list[Path]:
    """The files that shape the pairs of NAME/SPLIT?options: code, words, the user's own words."""
    corpus, _, options = _parse(rest)
    return corpus.files(options)


def _parse(rest: str) -> tuple[Builtin, str, Options]:
    """Split NAME/SPLIT?options into (corpus, split, options).

    Raises ValueError for an unknown name, with the known ones, and for a value of the wrong form.
    """
    address, _, query = rest.partition("?")
    name, _, split = address.partition("/")
    corpus = choose(BUILTINS, name, "built-in corpus")
    choose(integer_tasks.SPLITS, split, f"split of builtin:{name}")
    parsers = {"pairs": _whole, "seed": _whole, **corpus.options}
    options = {}
    for item in filter(None, query.split("&")):
        key, _, value = item.partition("=")
        parse = choose(parsers, key, f"option of builtin:{name}")
        try:
            options[key] = parse(value)
        except ValueError as error:
            raise ValueError(f"builtin:{rest}: {key} {error}") from error
    return corpus, split, options
