"""A value of a table by the name a user wrote; an unknown name's error lists the known ones."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar("Value")


def choose(table: Mapping[str, Value], name: str, what: str) -> Value:
    """`table[name]`, or a ValueError with all known names and the nearest one.

    >>> choose({"moses": 1, "none": 2}, "mose", "data.tokenizer")
    ValueError: no data.tokenizer 'mose'; known: moses, none (did you mean 'moses'?)
    """
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"no {what} {name!r}; known: {', '.join(sorted(table))}{hint}")
