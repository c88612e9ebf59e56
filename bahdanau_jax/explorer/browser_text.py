"""What the page needs to turn text into units as this package does, as JSON values.

The page has the tokenisers and vocabularies again, in JavaScript. Their tables (classes of
characters, abbreviations, entries) come from the libraries that Python uses.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from bahdanau_jax.data import Codec, moses_tables

# Languages whose detokeniser has rules of its own that the page does not have.
OWN_DETOKENIZERS = ("cs",)


def codec_data(codec: Codec, language: str) -> dict[str, Any]:
    """Return the rules and the vocabulary of one side.

    >>> codec_data(run.codecs[0], run.config.data.source_language)["vocabulary"]["type"]
    'words'
    """
    config = codec.config
    return {
        "rules": RULES[config.tokenizer](language),
        "unicode": config.unicode,
        "lowercase": config.lowercase,
        "vocabulary": {"type": config.vocabulary} | _VOCABULARIES[config.vocabulary](codec),
    }


def remarks(codecs: tuple[Codec, Codec]) -> list[str]:
    """Return what the page does otherwise than Python with text, one sentence each."""
    config = codecs[0].config
    lines = []
    if config.unescape:
        lines.append(
            "Python turns entities such as &amp; into characters before it tokenises, and this "
            "page does not: type the characters themselves."
        )
    if config.tokenizer == "moses" and config.target_language in OWN_DETOKENIZERS:
        lines.append(
            "The page has no detokeniser for this language, so translations are shown as tokens."
        )
    return lines


def _moses(language: str) -> dict[str, Any]:
    tables = moses_tables(language)
    return {
        "language": language,
        "tokenizes": True,
        "detokenizes": language not in OWN_DETOKENIZERS,
        "prefixes": tables.prefixes,
        "numericPrefixes": tables.numeric_prefixes,
        "cjk": tables.cjk,
        "classes": {name: character_class(runs) for name, runs in tables.classes.items()},
    }


# Value of `data.tokenizer` -> its rules for a language.
RULES: Mapping[str, Callable[[str], dict[str, Any]]] = MappingProxyType(
    {
        "moses": _moses,
        "none": lambda language: {"language": language, "tokenizes": False, "detokenizes": False},
    }
)


def character_class(runs: Sequence[tuple[int, int]]) -> str:
    r"""Return the inside of a class of a JavaScript regular expression with the flag u.

    >>> character_class(((97, 99), (120, 120)))
    '\\u{61}-\\u{63}\\u{78}'
    """
    return "".join(
        f"\\u{{{first:x}}}" if first == last else f"\\u{{{first:x}}}-\\u{{{last:x}}}"
        for first, last in runs
    )


def _entries(codec: Codec) -> dict[str, Any]:
    return {"entries": list(codec.tokens(range(len(codec.vocabulary))))}


def _pieces(codec: Codec) -> dict[str, Any]:
    pieces = codec.vocabulary.pieces()  # pyright: ignore[reportAttributeAccessIssue]
    entries = list(codec.tokens(range(len(codec.vocabulary))))
    scores = [pieces.scores.get(entry, 0.0) for entry in entries]
    return {
        "entries": entries,
        "scores": scores,
        "bytes": list(pieces.bytes),
        "kind": codec.config.subwords,
    }


# Value of `data.vocabulary` -> the data of a vocabulary of this type.
_VOCABULARIES: Mapping[str, Callable[[Codec], dict[str, Any]]] = MappingProxyType(
    {"words": _entries, "characters": _entries, "sentencepiece": _pieces}
)
