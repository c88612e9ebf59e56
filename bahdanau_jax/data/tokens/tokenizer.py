"""Text to a string of tokens with one space between, and back; before any vocabulary.

No token contains what Python or Unicode calls a space, so that a tokenised sentence is one line and
splits the same way everywhere.
"""

import functools
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from sacremoses import MosesDetokenizer, MosesTokenizer

from bahdanau_jax.batch import UNK_SYMBOL

# Words whose tokens are the same in every sentence, because no rule that applies to them looks
# beyond them: letters and digits, with hyphens or apostrophes between letters, and a comma after a
# letter.
_LETTER = "A-Za-zÀ-ÖØ-öø-ÿŒœ"
ALONE = re.compile(rf"[0-9]+|(?:[{_LETTER}]+(?:['-][{_LETTER}]+)*,?)")
MOST_WORDS = 1 << 16  # kept with their tokens


class Tokenizer(Protocol):
    def tokenize(self, text: str) -> str:
        """One line of tokens, a single space between two of them, none at the ends."""
        ...

    def detokenize(self, tokenised: str) -> str:
        """Ordinary text of one line."""
        ...


class Moses:
    """The rules of the Moses tokeniser for a language; one it does not know gets the English ones.

    No escaping (`&` stays `&`), no splitting at hyphens. Control characters vanish, as in Moses.
    `<unk>` is one token, so that a translation can be read again.

    >>> Moses("fr").tokenize("L'homme n'a pas vu, hier.")
    "L' homme n' a pas vu , hier ."
    """

    def __init__(self, language: str):
        self._language = language
        self._tokenizer = MosesTokenizer(language)
        self._detokenizer = MosesDetokenizer(language)
        self._word = functools.lru_cache(MOST_WORDS)(self._alone)
        self._last = functools.lru_cache(MOST_WORDS)(self._closing)

    def __reduce__(self):  # pickled without what it remembers of words
        return Moses, (self._language,)

    def tokenize(self, text: str) -> str:
        *words, last = text.split() or [""]
        known = [*map(self._word, words), self._last(last)]
        return self._by_rules(text) if None in known else " ".join(known)  # pyright: ignore

    def _alone(self, word: str) -> str | None:
        """The tokens of a word wherever it stands; None where they depend on its neighbours."""
        return self._by_rules(word) if ALONE.fullmatch(word) else None

    def _closing(self, word: str) -> str | None:
        """The same for the last word of a sentence, whose end is the sentence's own."""
        return self._by_rules(word) if ALONE.fullmatch(word.rstrip(".?!")) else None

    def _by_rules(self, text: str) -> str:
        whole = [UNK_SYMBOL] if UNK_SYMBOL in text else None
        return " ".join(self._tokenizer.tokenize(text, escape=False, protected_patterns=whole))

    def detokenize(self, tokenised: str) -> str:
        return str(self._detokenizer.detokenize(tokenised.split(), unescape=False))


class Whitespace:
    """Text that is tokenised already, or needs no tokens: only its spaces are made single."""

    def __init__(self, language: str):
        del language  # every language has the same spaces

    def tokenize(self, text: str) -> str:
        return " ".join(text.split())

    def detokenize(self, tokenised: str) -> str:
        return " ".join(tokenised.split())


# Values of `data.tokenizer`, each built from a language code.
TOKENIZERS: Mapping[str, Callable[[str], Tokenizer]] = MappingProxyType(
    {"moses": Moses, "none": Whitespace}
)
