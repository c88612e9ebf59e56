"""Writes a report as a folder: scores.json, report.md, index.html, and pictures as SVG and PNG."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax.atomic import write_text
from bahdanau_jax.figures import save
from bahdanau_jax.parsing import finite
from bahdanau_jax.report.document import Section, Table
from bahdanau_jax.report.examples import Part
from bahdanau_jax.report.page import page
from bahdanau_jax.run_folder import SCORES

FORMATS = ("svg", "png")
MARKDOWN, PAGE = "report.md", "index.html"
FILES = SCORES, MARKDOWN, PAGE


def publish(
    folder: Path,
    title: str,
    subtitle: str,
    scores: Mapping[str, Any],
    parts: Sequence[Section],
    headline: Sequence[tuple[str, str, str]] = (),
) -> None:
    """Write the folder. Pictures of an earlier report are removed, and other files stay.

    `headline` has a name, a number and its meaning for each main score. Raises OSError where the
    folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [picture for part in parts for picture in part.pictures]
    for stale in _pictures_of(folder) - {picture.name for picture in pictures}:
        for kind in FORMATS:
            (folder / f"{stale}.{kind}").unlink(missing_ok=True)
    for picture in pictures:
        for kind in FORMATS:
            save(picture.figure, folder / f"{picture.name}.{kind}")
    _write(folder / SCORES, as_json(scores))
    _write(folder / MARKDOWN, "\n".join(markdown(title, subtitle, parts)))
    _write(folder / PAGE, page(title, subtitle, headline, parts))


def _pictures_of(folder: Path) -> set[str]:
    """The pictures that the report in a folder shows; none where a file of a report lacks."""
    if not all((folder / name).exists() for name in FILES):
        return set()
    text = (folder / MARKDOWN).read_text(encoding="utf-8", errors="replace")
    return set(re.findall(r"^!\[.*\]\(([\w-]+)\.svg\)$", text, re.MULTILINE))


def as_json(scores: Mapping[str, Any]) -> str:
    """All scores as one JSON object, with null for undefined numbers."""
    return json.dumps(finite(scores), indent=2, allow_nan=False) + "\n"


def markdown(title: str, subtitle: str, parts: Sequence[Section]) -> Iterator[str]:
    """The lines of the report in Markdown."""
    yield from (f"# {_plain(title)}", "", _plain(subtitle), "")
    for part in parts:
        yield from (f"## {part.title}", "")
        if part.text:
            yield from (_plain(part.text), "")
        for picture in part.pictures:
            yield from (f"![{_plain(picture.caption)}]({picture.name}.svg)", "")
        for table in part.tables:
            yield from (*rows(table), "")
        for example in part.examples:
            yield from (f"**{_plain(example.title)}**", "")
            for line in example.lines:
                yield f"- {line.name}: {''.join(map(_part, line.parts))}"
            yield ""


def rows(table: Table) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield f"| {' | '.join(map(_plain, table.header))} |"
    yield f"|---|{'---:|' * (len(table.header) - 1)}"
    for row in table.rows:
        cells = [re.sub(r"[\r\n]+", " ", _plain(cell)) for cell in row]
        yield f"| {' | '.join(cells)} |"


def _part(part: Part) -> str:
    return f"**{_plain(part.text)}**" if part.differs else _plain(part.text)


def _plain(text: str) -> str:
    """The text with the special characters of Markdown, and the & of HTML entities, escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#~$]|&(?=#?\w+;))", r"\\\1", text)


def _write(path: Path, text: str) -> None:
    """Write a file, which appears whole. Lone surrogates, which UTF-8 has not, become "?"."""
    write_text(path, text.encode("utf-8", errors="replace").decode("utf-8"))
