"""The positions of words, tokens and units of a model in a line of text.

A span is (start, end) in the original line, before cleaning, tokenising and lower case. Units
correspond to the ids of `Codec.encode`: words, characters or pieces of words.
"""

import difflib
import html
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.hansards import check_language, ordinary
from bahdanau_jax.data.tokens.cleaning import UNICODE, clean
from bahdanau_jax.data.tokens.codec import Codec

Span = tuple[int, int]  # (first character, the one after the last)

# A character reference as html.unescape finds it.
REFERENCE = r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)"
LONGEST_MATCHED = 500  # characters; cleaning is matched character by character in shorter words


class Segmented(NamedTuple):
    """A line as a model reads it, and its words."""

    text: str  # the line
    words: tuple[str, ...]  # W words, casing kept
    spans: list[Span]  # W spans in `text`; words may share one ("du" of "de le")


def word_spans(text: str) -> list[Span]:
    """The spans of the words between white space.

    >>> word_spans("A b.")
    [(0, 1), (2, 4)]
    """
    return [match.span() for match in re.finditer(r"\S+", text)]


def token_spans(codec: Codec, text: str) -> list[Span]:
    """The spans of the tokens."""
    tokenised, origins = _origins(codec, text)
    return [_cover(origins[a:b]) for a, b in word_spans(tokenised)]


def unit_spans(codec: Codec, text: str) -> list[Span]:
    """The span of each id of `codec.encode(text)` without EOS.

    A unit that is only a space has the span of the next character.
    """
    tokenised, origins = _origins(codec, text)
    spans = []
    for a, b in codec.vocabulary.spans(tokenised):
        inside = [origins[i] for i in range(a, b) if tokenised[i] != " "]
        spans.append(_cover(inside or origins[a : a + 1] or [(0, 0)]))
    return spans


def overlaps(words: Sequence[Span], units: Sequence[Span]) -> Bool[np.ndarray, "W U"]:
    """Whether each word shares a character with each unit.

    EOS is the last word and the last unit, and overlaps only with itself.
    """
    w = np.array(words, np.int64).reshape(-1, 2)
    u = np.array(units, np.int64).reshape(-1, 2)
    both = np.zeros((len(w) + 1, len(u) + 1), bool)
    both[:-1, :-1] = (w[:, :1] < u[None, :, 1]) & (u[None, :, 0] < w[:, 1:])
    both[-1, -1] = True
    return both


def _origins(codec: Codec, text: str) -> tuple[str, list[Span]]:
    """`codec.tokenize(text)`, and the span that each of its characters comes from.

    A space has the span of the next character. Tokenisers insert spaces and drop characters, so
    the tokenised text is searched for in the cleaned text, from left to right.
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
    """The characters of the cleaned text without white space, and their spans in `text`."""
    origins = []
    for start, end in word_spans(text):
        word, spans = _characters(config, text[start:end])
        cleaned = UNICODE[config.unicode](word)
        blocks = [(0, len(word), 0, len(cleaned))]
        if cleaned == word:
            blocks = [(i, i + 1, i, i + 1) for i in range(len(word))]
        elif len(word) <= LONGEST_MATCHED:
            blocks = _blocks(word, cleaned)
        for a, b, c, d in blocks:
            # Characters that were inserted come from their neighbours.
            first, last = _cover(spans[a:b] or spans[max(a - 1, 0) : a + 1])
            span = (start + first, start + last)
            origins += [(char, span) for char in cleaned[c:d] if not char.isspace()]
    return "".join(char for char, _ in origins), [span for _, span in origins]


def _characters(config: DataConfig, word: str) -> tuple[str, list[Span]]:
    """The word as `unescape` leaves it, and the span in `word` of each of its characters."""
    spans = [(i, i + 1) for i in range(len(word))]
    if not config.unescape:
        return word, spans
    written, origins, at = "", [], 0
    for match in re.finditer(REFERENCE, word):
        whole, (start, stop) = html.unescape(match[0]), match.span()
        if whole != match[0]:
            # A name without `;` may end before the match does: the shortest part that explains it.
            ends = range(start + 2, stop + 1)
            end = next(e for e in ends if html.unescape(word[start:e]) + word[e:stop] == whole)
            characters = html.unescape(word[start:end])
            written += word[at:start] + characters
            origins += spans[at:start] + [(start, end)] * len(characters)
            at = end
    return written + word[at:], origins + spans[at:]


def _blocks(word: str, cleaned: str) -> list[tuple[int, int, int, int]]:
    """(start, end) in `word` and in `cleaned` of corresponding parts.

    Unchanged parts are single characters.
    """
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


def check_level(level: str, languages: Sequence[str]) -> None:
    """Raise ValueError where the words at a level of LEVELS need other languages."""
    if level == "hansards":
        for language in languages:
            check_language(language)


# Level of alignment -> function of the codec, the language and a line that cuts the line in words.
LEVELS: Mapping[str, Callable[[Codec, str, str], Segmented]] = MappingProxyType(
    {
        "word": lambda codec, language, line: _cut(line, word_spans(line)),
        "token": lambda codec, language, line: _cut(line, token_spans(codec, line)),
        "piece": _pieces,
        "hansards": _hansards,
    }
)
