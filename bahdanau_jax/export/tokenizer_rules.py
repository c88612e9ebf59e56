"""The data of the Moses rules for `runtime/moses.py`: character classes, prefixes, ranges."""

import re
from collections.abc import Sequence
from typing import Any

from bahdanau_jax.data import moses_tables


def rules(language: str) -> dict[str, Any]:
    """Return an entry of moses.json as JSON values; a class is the inside of a regex's [...].

    >>> rules("fr")["prefixes"][:3]
    ['A', 'B', 'C']
    """
    tables = moses_tables(language)
    return {
        "language": language,
        "classes": {name: character_class(runs) for name, runs in tables.classes.items()},
        "prefixes": tables.prefixes,
        "numeric_prefixes": tables.numeric_prefixes,
        "cjk": tables.cjk,
    }


def character_class(runs: Sequence[tuple[int, int]]) -> str:
    """Return the inside of a class of a Python regular expression.

    >>> character_class(((97, 99), (120, 120)))
    'a-cx'
    """
    ends = [[re.escape(chr(code)) for code in run] for run in runs]
    return "".join(first if first == last else f"{first}-{last}" for first, last in ends)
