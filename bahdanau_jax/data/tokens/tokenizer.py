"""Conversion between text and a string of tokens with single spaces between them.

No token contains a character that Python or Unicode calls a space. Therefore a tokenised sentence
is one line, and every program splits it in the same way.
"""

import functools
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from bahdanau_jax.batch import UNK_SYMBOL

# Words whose tokens do not depend on their neighbours: digits, or letters with hyphens or
# apostrophes between them, and a comma after either; a question or exclamation mark alone.
_LETTER = "A-Za-zÀ-ÖØ-öø-ÿŒœ"
INDEPENDENT = re.compile(rf"(?:[0-9]+|[{_LETTER}]+(?:['-][{_LETTER}]+)*),?|[?!]")
MOST_WORDS = 1 << 16  # words in the cache

# UNK in a text, also with control characters in it, which the rules remove.
UNKNOWN = re.compile(r"[\0-\b\x0e-\x1b]*".join(UNK_SYMBOL), re.IGNORECASE)
MOST_UNKNOWN = 1_000  # in one text that sacremoses tokenises


class Tokenizer(Protocol):
    """The conversion of a language's text to tokens, and back."""

    def tokenize(self, text: str) -> str:
        """One line of tokens with single spaces between them, and none at the ends."""
        ...

    def detokenize(self, tokenised: str) -> str:
        """Ordinary text of one line."""
        ...


class Moses:
    """The rules of the Moses tokeniser for a language; an unknown language gets the English ones.

    There is no escaping (`&` stays `&`) and no split at hyphens. Control characters are removed, as
    in Moses. `<unk>` is one token, so a translation can be tokenised again.

    >>> Moses("fr").tokenize("L'homme n'a pas vu, hier.")
    "L' homme n' a pas vu , hier ."
    """

    def __init__(self, language: str):
        from sacremoses import MosesDetokenizer, MosesTokenizer  # which not every run needs

        self._language = language
        self._tokenizer = MosesTokenizer(language)
        self._detokenizer = MosesDetokenizer(language)
        self._inner = functools.lru_cache(MOST_WORDS)(self._inner_word)
        self._last = functools.lru_cache(MOST_WORDS)(self._last_word)

    def __reduce__(self):  # pickled without its caches
        return Moses, (self._language,)

    def tokenize(self, text: str) -> str:
        words = text.split()
        last = words.pop() if words else ""
        tokens = [*map(self._inner, words), self._last(last)]
        try:
            return " ".join(tokens)  # pyright: ignore[reportCallIssue, reportArgumentType]
        except TypeError:  # a word is None; to look for it would take longer than all the rest
            return self._by_rules(text)

    def _inner_word(self, word: str) -> str | None:
        """The tokens of a word inside a sentence; None where they depend on its neighbours."""
        return self._by_rules(word) if INDEPENDENT.fullmatch(word) else None

    def _last_word(self, word: str) -> str | None:
        """The tokens of the last word of a sentence, which may end in punctuation."""
        inner = word.rstrip(".?!") or word
        return self._by_rules(word) if INDEPENDENT.fullmatch(inner) else None

    def _by_rules(self, text: str) -> str:
        """The tokens of any text. One with many UNK is cut into pieces, which share an UNK."""
        protected = [UNK_SYMBOL] if UNK_SYMBOL in text else None
        step = MOST_UNKNOWN - 1
        cuts = [*UNKNOWN.finditer(text)][step:-1:step] if protected else []
        starts = [0, *(cut.start() for cut in cuts)]
        ends = [*(cut.end() for cut in cuts), len(text)]
        rules = functools.partial(
            self._tokenizer.tokenize, escape=False, protected_patterns=protected
        )
        pieces = [" ".join(rules(text[a:b])) for a, b in zip(starts, ends, strict=True)]
        return "".join([*(piece[: -len(UNK_SYMBOL)] for piece in pieces[:-1]), pieces[-1]])

    def detokenize(self, tokenised: str) -> str:
        return str(self._detokenizer.detokenize(tokenised.split(), unescape=False))


class Whitespace:
    """For text that is tokenised already: only white space becomes single spaces."""

    def __init__(self, language: str):
        del language  # not needed

    def tokenize(self, text: str) -> str:
        return " ".join(text.split())

    def detokenize(self, tokenised: str) -> str:
        return " ".join(tokenised.split())


# Value of `data.tokenizer` -> function that builds the tokeniser of a language code.
TOKENIZERS: Mapping[str, Callable[[str], Tokenizer]] = MappingProxyType(
    {"moses": Moses, "none": Whitespace}
)
