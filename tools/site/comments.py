"""The comments that document constants and fields: those beside or above an assignment."""

import re
from collections.abc import Sequence

# Comments for programs, which document nothing.
DIRECTIVE = re.compile(r"\s*#\s*(pyright|type|noqa|fmt)\b.*")


def of_field(lines: Sequence[str], first: int, last: int) -> str:
    """The comment of a field whose assignment has the lines `first` to `last`, counted from 1."""
    beside = [_after(line) for line in lines[first - 1 : last]]
    return " ".join(filter(None, beside)) or _above(lines, first)


def of_constant(lines: Sequence[str], first: int, last: int) -> str:
    """The comment of a constant: above it, or beside it where it has one line.

    Comments within a value of several lines belong to its parts.
    """
    return _above(lines, first) or (_after(lines[first - 1]) if first == last else "")


def _after(line: str) -> str:
    code, mark, words = DIRECTIVE.sub("", line).partition("  # ")
    return words.strip() if mark and code.strip() else ""


def _above(lines: Sequence[str], first: int) -> str:
    above = first - 1
    while above > 0 and lines[above - 1].lstrip().startswith("#"):
        above -= 1
    words = (
        DIRECTIVE.sub("", line).strip().lstrip("#").strip() for line in lines[above : first - 1]
    )
    return " ".join(filter(None, words))
