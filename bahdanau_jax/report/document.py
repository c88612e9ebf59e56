"""The parts of a report, independent of Markdown and HTML: sections, tables and pictures."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from bahdanau_jax.report.examples import Example

NOTHING = "–"  # stands for an undefined number


class Table(NamedTuple):
    """Rows of formatted cells. The first column contains names, the others numbers."""

    header: tuple[str, ...]  # names of the columns
    rows: list[tuple[str, ...]]  # as many cells as the header has


class Picture(NamedTuple):
    """A figure of a report."""

    name: str  # the name of its files, without suffix
    figure: Figure  # of matplotlib
    caption: str  # one line below it


class Section(NamedTuple):
    """A part of a report under a title."""

    title: str  # the heading
    text: str = ""  # one paragraph
    tables: tuple[Table, ...] = ()  # shown after the pictures
    pictures: tuple[Picture, ...] = ()  # shown after the text
    examples: tuple[Example, ...] = ()  # shown last


def number(value: float | None, form: str = ".1f") -> str:
    """Format a number, or NOTHING for None, NaN and infinity.

    >>> number(0.1234, ".1%"), number(None), number(float("nan"))
    ('12.3%', '–', '–')
    """
    return NOTHING if value is None or not math.isfinite(value) else format(value, form)


def span(interval: Sequence[float] | None, form: str = ".1f") -> str:
    """Format the two ends of an interval."""
    if interval is None:
        return NOTHING
    return f"{number(interval[0], form)} to {number(interval[1], form)}"
