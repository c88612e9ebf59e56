r"""Files that hold text: plain, compressed, WMT's .sgm, tables and JSON lines. Only \n ends a line.

Errors name file and line.
"""

import html
import itertools
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bahdanau_jax.compression import OPENERS, UNPACKING_ERRORS
from bahdanau_jax.parsing import parse_json

SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE)


def sentences(path: Path) -> Iterator[str]:
    """The sentences of one side: the lines of a text file or the segments of a .sgm file.

    In a .sgm file entities (`&amp;`) become characters.
    """
    if ".sgm" not in map(str.lower, path.suffixes):
        return lines(path)
    return _segments(path)


def aligned(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """The sentences of two files in pairs. Raises ValueError where one has more than the other."""
    sides = sentences(source), sentences(target)
    for number, pair in enumerate(itertools.zip_longest(*sides), start=1):
        if None in pair:
            shorter = pair.index(None)
            counts = [number, number]
            counts[shorter] -= 1
            counts[1 - shorter] += sum(1 for _ in sides[1 - shorter])
            raise ValueError(
                f"{source} has {counts[0]} lines, but {target} has {counts[1]}: line n of one "
                "should translate line n of the other"
            )
        yield pair


def _segments(path: Path) -> Iterator[str]:
    for number, line in enumerate(lines(path), start=1):
        segments = SEGMENT.findall(line)
        if len(segments) != line.lower().count("<seg"):
            raise ValueError(f"{path}, line {number}: a <seg> should end on the line it begins on")
        yield from (html.unescape(segment).strip() for segment in segments)


def lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, plain, .gz or .xz. Only \n ends a line.

    A \r before the \n is removed, and so is a byte-order mark at the beginning of the file.
    """
    number = mark = 0
    with OPENERS.get(path.suffix, open)(path, "rb") as file:
        try:
            for line in file:
                number += 1
                mark = len(BOM_UTF8) * (number == 1 and line.startswith(BOM_UTF8))
                yield line[mark:].removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            place = mark + error.start + 1
            raise ValueError(
                f"{path}, line {number}: not valid UTF-8 (byte {place} of the line)"
            ) from error
        except UNPACKING_ERRORS as error:
            raise ValueError(f"{path} is damaged after line {number}: {error}") from error


def table(path: Path, columns: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Two columns of a table whose cells are separated by tabs, without any quoting.

    A column is a number from 1, or a name from the first line.
    """
    rows = enumerate((line.split("\t") for line in lines(path)), start=1)
    header = None if all(column.isdecimal() for column in columns) else next(rows, (1, []))[1]
    places = [_column(path, column, header) for column in columns]
    for number, cells in rows:
        if len(cells) <= max(places):
            raise ValueError(
                f"{path}, line {number}: {len(cells)} columns, but column {max(places) + 1} is "
                "needed; cells should be separated by tabs"
            )
        yield cells[places[0]], cells[places[1]]


def _column(path: Path, column: str, header: list[str] | None) -> int:
    if column.isdecimal() and len(column) < 10 and int(column) > 0:
        return int(column) - 1
    if header is None or column not in header:
        known = f"there are {', '.join(header)}, and " if header else ""
        raise ValueError(f"{path}, line 1: no column {column!r}; {known}numbers count from 1")
    return header.index(column)


def records(path: Path, keys: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Two strings of each line's JSON object; a dot separates nested keys: `translation.en`."""
    for number, line in enumerate(lines(path), start=1):
        try:
            record = parse_json(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: no JSON object ({error})") from error
        source, target = (_value(f"{path}, line {number}", record, key) for key in keys)
        yield source, target


def _value(where: str, record: Any, key: str) -> str:
    value = record
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, str):
        known = ", ".join(record) if isinstance(record, dict) else f"a {type(record).__name__}"
        raise ValueError(f"{where}: no text at {key!r}; the line has {known}")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"{where}: half a surrogate pair in {key!r}, which is no character")
    return value
