"""What a report consists of, before it is Markdown or HTML: titles, sentences, tables, pictures."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from bahdanau_jax.report.examples import Example

NOTHING = "–"  # for a number that does not exist


class Table(NamedTuple):
    """Rows of cells as they are shown; the first column has names, the others numbers."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Picture(NamedTuple):
    name: str  # of its files, without suffix
    figure: Figure
    caption: str


class Section(NamedTuple):
    """One part of a report."""

    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    examples: tuple[Example, ...] = ()


def number(value: float | None, form: str = ".1f") -> str:
    """
    >>> number(0.1234, ".1%"), number(None), number(float("nan"))
    ('12.3%', '–', '–')
    """
    return NOTHING if value is None or not math.isfinite(value) else format(value, form)


def span(interval: Sequence[float] | None, form: str = ".1f") -> str:
    """An interval's two ends."""
    if interval is None:
        return NOTHING
    return f"{number(interval[0], form)} to {number(interval[1], form)}"
