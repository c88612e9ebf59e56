"""Where in a line its words, its tokens and the units of a model stand, and so which makes which.

A span is beginning and end in the line as it was written: before cleaning, tokenising and lower
case. Units are what the ids of `Codec.encode` stand for: words, characters or pieces of words.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.hansards import ordinary
from bahdanau_jax.data.tokens.cleaning import clean
from bahdanau_jax.data.tokens.codec import Codec

Span = tuple[int, int]

LONGEST_MATCHED = 500  # characters of a word within which cleaning is followed


class Segmented(NamedTuple):
    """A line as a model reads it, and the words that are counted in it."""

    text: str
    words: tuple[str, ...]  # W words, casing kept
    spans: list[Span]  # W spans in `text`; words may share one ("du" of "de le")


def word_spans(text: str) -> list[Span]:
    """What stands between white space.

    >>> word_spans("A b.")
    [(0, 1), (2, 4)]
    """
    return [found.span() for found in re.finditer(r"\S+", text)]


def token_spans(codec: Codec, text: str) -> list[Span]:
    """The tokeniser's words."""
    tokenised, origins = _origins(codec, text)
    return [_cover(origins[a:b]) for a, b in word_spans(tokenised)]


def unit_spans(codec: Codec, text: str) -> list[Span]:
    """Of each id of `codec.encode(text)` without EOS. A unit that is but a space, as some pieces
    and characters are, stands where the next character does."""
    tokenised, origins = _origins(codec, text)
    spans = []
    for a, b in codec.vocabulary.spans(tokenised):
        inside = [origins[i] for i in range(a, b) if tokenised[i] != " "]
        spans.append(_cover(inside or origins[a : a + 1] or [(0, 0)]))
    return spans


def overlaps(words: Sequence[Span], units: Sequence[Span]) -> Bool[np.ndarray, "W U"]:
    """Which units share a character with which words; EOS, last on both axes, is one of each."""
    w = np.array(words, np.int64).reshape(-1, 2)
    u = np.array(units, np.int64).reshape(-1, 2)
    both = np.zeros((len(w) + 1, len(u) + 1), bool)
    both[:-1, :-1] = (w[:, :1] < u[None, :, 1]) & (u[None, :, 0] < w[:, 1:])
    both[-1, -1] = True
    return both


def _origins(codec: Codec, text: str) -> tuple[str, list[Span]]:
    """`codec.tokenize(text)`, and where each of its characters comes from; a space comes from
    where the next character does.

    Tokenisers set spaces and drop characters, so the tokenised text is looked up in the cleaned
    one, from left to right.
    """
    config = codec.config
    tokenised = codec.tokenizer.tokenize(clean(config, text))
    characters, places = _cleaned(config, text)
    at, words, origins = 0, [], []
    for word in tokenised.split():
        spans = []
        for character in word:
            at = max(characters.find(character, at), at)
            spans.append(places[min(at, len(places) - 1)] if places else (0, 0))
            at += 1
        written = word.lower() if config.lowercase else word
        if len(written) != len(word):
            spans = [_cover(spans)] * len(written)
        words.append(written)
        origins += [*([spans[0]] if origins else []), *spans]
    return " ".join(words), origins


def _cleaned(config: DataConfig, text: str) -> tuple[str, list[Span]]:
    """The characters of the cleaned text without white space, and where each comes from."""
    found = []
    for start, end in word_spans(text):
        word = text[start:end]
        cleaned = clean(config, word)
        blocks = [(0, len(word), 0, len(cleaned))]
        if cleaned == word:
            blocks = [(i, i + 1, i, i + 1) for i in range(len(word))]
        elif len(word) <= LONGEST_MATCHED:
            blocks = _blocks(word, cleaned)
        for a, b, c, d in blocks:
            found += [(one, (start + a, start + b)) for one in cleaned[c:d] if not one.isspace()]
    return "".join(one for one, _ in found), [span for _, span in found]


def _blocks(word: str, cleaned: str) -> list[tuple[int, int, int, int]]:
    """Parts of `word` and what they became: single characters, but for what was changed."""
    blocks = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, word, cleaned, False).get_opcodes():
        same = [(a + i, a + i + 1, c + i, c + i + 1) for i in range(b - a)]
        blocks += same if tag == "equal" else [(a, b, c, d)]
    return blocks


def _cover(spans: Sequence[Span]) -> Span:
    return min(start for start, _ in spans), max(end for _, end in spans)


def _cut(text: str, spans: list[Span]) -> Segmented:
    return Segmented(text, tuple(text[start:end] for start, end in spans), spans)


def _pieces(codec: Codec, language: str, line: str) -> Segmented:
    return Segmented(line, codec.units(line)[:-1], unit_spans(codec, line))


def _hansards(codec: Codec, language: str, line: str) -> Segmented:
    words = line.split()
    text, spans = ordinary(words, language)
    return Segmented(text, tuple(words), spans)


# What is counted as a word of a line, given the codec and the language of its side.
LEVELS: Mapping[str, Callable[[Codec, str, str], Segmented]] = MappingProxyType(
    {
        "word": lambda codec, language, line: _cut(line, word_spans(line)),
        "token": lambda codec, language, line: _cut(line, token_spans(codec, line)),
        "piece": _pieces,
        "hansards": _hansards,
    }
)
