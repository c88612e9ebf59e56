"""Names that users write: look-up in a table, and suggestions for unknown ones."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value")


def choose(table: Mapping[str, Value], name: str, what: str, others: str = "") -> Value:
    """Return `table[name]`, or raise a ValueError with all known names and the nearest one.

    `others` describes further values that are allowed, and ends the list of known names.

    >>> choose({"moses": 1, "none": 2}, "mose", "data.tokenizer")
    ValueError: no data.tokenizer 'mose'; known: moses, none (did you mean 'moses'?)
    """
    if not isinstance(name, str):
        raise ValueError(f"{what} should be a name, not {name!r}")
    if name in table:
        return table[name]
    question = did_you_mean(name, table, quote=True)
    hint = f" ({question})" if question else ""
    known = ", ".join([*sorted(table), *([f"or {others}"] if others else [])])
    raise ValueError(f"no {what} {name!r}; known: {known}{hint}")


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names with a similar spelling, at most `most`, the nearest first.

    >>> nearest("trian", ["train", "translate"])
    ['train']
    """
    return difflib.get_close_matches(name, list(known), n=most)


def did_you_mean(
    name: str,
    known: Iterable[str],
    otherwise: str = "",
    find: Callable[[str, list[str]], Sequence[str]] = nearest,
    quote: bool = False,
) -> str:
    """Ask whether one of the known names was meant by an unknown one; else return `otherwise`.

    `find` takes the unknown name and the known ones, and returns the candidates.

    >>> did_you_mean("trian", ["train"]), did_you_mean("x", ["train"], "see --help")
    ('did you mean train?', 'see --help')
    """
    candidates = find(name, list(known))
    if not candidates:
        return otherwise
    return f"did you mean {' or '.join(map(repr, candidates) if quote else candidates)}?"
