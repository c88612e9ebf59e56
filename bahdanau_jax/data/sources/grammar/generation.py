"""Draws pairs of the built-in corpus by a seed: their split, their length and their text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from math import exp
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import NamedTuple
from zlib import crc32

from bahdanau_jax.data.sources.grammar.derivation import Derivation
from bahdanau_jax.data.sources.grammar.inflection import Token, spell
from bahdanau_jax.data.sources.grammar.lexicon import Lexicon
from bahdanau_jax.data.sources.grammar.synchronous import Links, links
from bahdanau_jax.data.sources.grammar.wordreader import load
from bahdanau_jax.names import choose

SPLITS = ("train", "dev", "test")
_SHARES = ("test", "dev", *8 * ("train",))  # by the hash of the English sentence
_SHORTEST = 3
LONGEST = 10_000  # tokens of an English sentence; some draws have as many as are allowed
_TYPICAL, _SPREAD = 2.54, 0.5  # mean and deviation of the logarithm of the English length


class AlignedPair(NamedTuple):
    """A tokenised sentence pair with its gold links."""

    source: tuple[str, ...]  # English tokens, as the Moses tokeniser splits them
    target: tuple[str, ...]  # French tokens, likewise: "l'" and "homme" are two
    sure: Links  # (source position, target position), from 0
    possible: Links  # all links, with the sure ones


def generate(
    split: str,
    seed: int = 0,
    min_words: int = 3,
    max_words: int = 60,
    rare: int = 0,
    words: str | Path | None = None,
    linked: bool = True,
) -> Iterator[AlignedPair]:
    """Yield pairs without end whose English has `min_words` to `max_words` tokens.

    Equal arguments give equal pairs. `rare` is the percentage of noun phrases with a rare proper
    name; `words` is a file that adds to the words (docs/grammar.md). Without `linked`, the pairs
    are the same, but their sets of links are empty; this takes half of the time.

    A hash of its English side assigns a sentence to one of SPLITS, so the splits share no sentence,
    whatever their seeds. Raises ValueError for an unknown split or an impossible range, and the
    errors of `wordreader.load`.

    >>> next(generate("train", min_words=3, max_words=5)).source
    ('You', 'travel', '.')
    """
    choose(dict.fromkeys(SPLITS), split, "split of the built-in corpus")
    if not max(min_words, _SHORTEST) <= max_words <= LONGEST:
        raise ValueError(
            f"no English sentence has {min_words} to {max_words} tokens: the largest number must "
            f"be at least the smallest number, and from {_SHORTEST} to {LONGEST:,}"
        )
    if not 0 <= rare <= 100:
        raise ValueError(f"rare={rare}, but a percentage from 0 to 100 was expected")
    low = max(min_words, _SHORTEST)
    return _generate(split, Random(seed), load(words), rare / 100, low, max_words, linked)


def _generate(
    split: str, random: Random, lexicon: Lexicon, rare: float, low: int, high: int, linked: bool
) -> Iterator[AlignedPair]:
    grammar = Derivation(random, lexicon, rare, linked)
    while True:
        size = round(exp(random.gauss(_TYPICAL, _SPREAD)))
        said = grammar.sentence(size if low <= size <= high else random.randint(low, high))
        english = _capitalised(spell(said.en, "en", lexicon.misleading["en"]))
        source = tuple([word for word, _ in english])
        if low <= len(source) <= high and split == split_of(source):
            french = _capitalised(spell(said.fr, "fr", lexicon.misleading["fr"]))
            both = links(english, french) if linked else (frozenset(), frozenset())
            yield AlignedPair(source, tuple([word for word, _ in french]), *both)


def split_of(source: Sequence[str]) -> str:
    """The one of SPLITS that an English sentence belongs to."""
    return _SHARES[crc32(" ".join(source).encode()) % len(_SHARES)]


def _capitalised(tokens: list[Token]) -> list[Token]:
    (word, marks), *rest = tokens
    return [(word[0].upper() + word[1:], marks), *rest]


# Tokens without a space before them.
_CLOSING = MappingProxyType({"en": (".", ",", "?", "'s"), "fr": (".", ",")})


def text(tokens: Sequence[str], language: str) -> str:
    """Ordinary text, which the Moses tokeniser splits into these tokens again.

    >>> text(("L'", "homme", "voit", "la", "zone", "."), "fr")
    "L'homme voit la zone."
    """
    closing = choose(_CLOSING, language, "language of the built-in corpus")
    before, written = "'", []
    for token in tokens:
        glued = token in closing or before[-1] == "'"
        written.append(token if glued else " " + token)
        before = token
    return "".join(written)


@cache
def _dictionary() -> MappingProxyType[str, str]:
    """The most frequent translation of each English word, by sure links of training sentences."""
    counts: dict[str, Counter[str]] = {}
    for pair in islice(generate("train"), 5_000):
        for i, j in pair.sure:
            counts.setdefault(pair.source[i], Counter())[pair.target[j]] += 1
    return MappingProxyType(
        {word: max(sorted(forms), key=forms.__getitem__) for word, forms in counts.items()}
    )


def word_for_word(source: Sequence[str]) -> tuple[str, ...]:
    """A baseline without context or reordering: the most frequent French form of every token.

    >>> word_for_word(("The", "European", "Union", "."))
    ('Le', 'européenne', 'Union', '.')
    """
    dictionary = _dictionary()
    return tuple(dictionary.get(word, word) for word in source)
