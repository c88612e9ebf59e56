"""Text to a string of tokens with one space between, and back; before any vocabulary.

No token contains what Python or Unicode calls a space, so that a tokenised sentence is one line and
splits the same way everywhere.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from sacremoses import MosesDetokenizer, MosesTokenizer

from bahdanau_jax.batch import UNK_SYMBOL


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
        self._tokenizer = MosesTokenizer(language)
        self._detokenizer = MosesDetokenizer(language)

    def tokenize(self, text: str) -> str:
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
