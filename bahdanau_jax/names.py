"""Names that users write: the value of a table, and what a misspelt name may have meant."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value")


def choose(table: Mapping[str, Value], name: str, what: str) -> Value:
    """`table[name]`, or a ValueError with all known names and the nearest one.

    >>> choose({"moses": 1, "none": 2}, "mose", "data.tokenizer")
    ValueError: no data.tokenizer 'mose'; known: moses, none (did you mean 'moses'?)
    """
    if name in table:
        return table[name]
    near = suggestion([repr(each) for each in nearest(name, table)])
    hint = f" ({near})" if near else ""
    raise ValueError(f"no {what} {name!r}; known: {', '.join(sorted(table))}{hint}")


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are spelt most like this one, the nearest first; none where none is.

    >>> nearest("trian", ["train", "translate"])
    ['train']
    """
    return difflib.get_close_matches(name, list(known), n=most)


def suggestion(names: Sequence[str], otherwise: str = "") -> str:
    """The question whether one of these names was meant; `otherwise` where there are none.

    >>> suggestion(["train"]), suggestion([], "see --help")
    ('did you mean train?', 'see --help')
    """
    return f"did you mean {' or '.join(names)}?" if names else otherwise
