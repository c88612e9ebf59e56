"""The data of the Moses rules for `runtime/moses.py`: character classes, prefixes, ranges."""

import itertools
import re
from collections.abc import Iterable
from typing import Any

from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.util import CJKChars


def rules(language: str) -> dict[str, Any]:
    """Return an entry of moses.json as JSON values; a class is the inside of a regex's [...].

    >>> rules("fr")["prefixes"][:3]
    ['A', 'B', 'C']
    """
    tokenizer, detokenizer = MosesTokenizer(language), MosesDetokenizer
    classes = {
        "alnum": tokenizer.IsAlnum,
        "alpha": tokenizer.IsAlpha,
        "number": tokenizer.IsN,
        "lower": tokenizer.IsLower,
        "currency": detokenizer.IsSc,
        "letter": detokenizer.IsAlpha,
    }
    return {
        "language": language,
        "classes": {name: ranges(characters) for name, characters in classes.items()},
        "prefixes": list(tokenizer.NONBREAKING_PREFIXES),
        "numeric_prefixes": list(tokenizer.NUMERIC_ONLY_PREFIXES),
        "cjk": [list(span) for span in CJKChars().ranges],
    }


def ranges(characters: Iterable[str]) -> str:
    """Return a regex class of these characters, without its brackets.

    >>> ranges("abcx")
    'a-cx'
    """
    codes = sorted(set(map(ord, characters)))
    spans = []
    for _, group in itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        members = [chr(code) for _, code in group]
        first, last = re.escape(members[0]), re.escape(members[-1])
        spans.append(first if len(members) == 1 else f"{first}-{last}")
    return "".join(spans)
