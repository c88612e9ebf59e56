"""Sections as one self-contained HTML page: inline pictures, no links to other files, no script.

The colours of the page and its pictures follow the reader's light or dark mode.
"""

import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from types import MappingProxyType

from matplotlib.figure import Figure

from bahdanau_jax import figures
from bahdanau_jax.report.document import Picture, Section, Table
from bahdanau_jax.report.examples import Example, Part

# Colours of the pictures -> their names in the page's style. Other colours stay.
COLOURS: Mapping[str, str] = MappingProxyType(
    {"#000000": "var(--ink)", **{code: f"var(--{name})" for name, code in figures.PALETTE.items()}}
)
NUMBERS = 24  # a column with a cell above this many characters is running text


def page(
    title: str,
    subtitle: str,
    headline: Iterable[tuple[str, str, str]],
    sections: Sequence[Section],
) -> str:
    """The HTML document of a report.

    >>> page("Evaluation", "500 sentences", headline(scores), sections(evaluated))
    """
    style = resources.files("bahdanau_jax.report").joinpath("page.css").read_text(encoding="utf-8")
    links = "".join(
        f'<li><a href="#{_anchor(section.title)}">{_text(section.title)}</a></li>'
        for section in sections
    )
    cards = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd><dd>{_text(meaning)}</dd></div>"
        for name, value, meaning in headline
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{_text(title)}</h1>\n<p>{_text(subtitle)}</p>\n"
        f'<dl class="headline">{cards}</dl>\n'
        f'<nav aria-label="Parts of this report"><ul>{links}</ul></nav>\n</header>\n<main>\n'
        f"{''.join(map(_section, sections))}</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    anchor = _anchor(section.title)
    parts = [
        f'<h2 id="{anchor}">{_text(section.title)}</h2>\n',
        f"<p>{_text(section.text)}</p>\n" if section.text else "",
        '<div class="beside">\n',
        *map(_picture, section.pictures),
        *(_table(table, section.title) for table in section.tables),
        "</div>\n",
        *map(_example, section.examples),
    ]
    return f'<section aria-labelledby="{anchor}">\n{"".join(parts)}</section>\n'


def _table(table: Table, title: str) -> str:
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.header)
    kinds = [_kind(column) for column in columns]
    head = "".join(
        f'<th scope="col"{kind}>{_text(cell)}</th>'
        for cell, kind in zip(table.header, kinds, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th>'
        + "".join(
            f"<td{kind}>{_text(cell)}</td>" for cell, kind in zip(cells, kinds[1:], strict=True)
        )
        + "</tr>\n"
        for name, *cells in table.rows
    )
    label = _text(f"{title}: {', '.join(filter(None, table.header))}")
    # A table that scrolls sideways must be reachable by keyboard.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )


def _kind(cells: Sequence[str]) -> str:
    """The HTML attribute of a column's cells: a class for running text, "" for numbers."""
    return ' class="text"' if any(len(cell) > NUMBERS for cell in cells) else ""


def _picture(picture: Picture) -> str:
    svg = inline(picture.figure, picture.name, picture.caption)
    return f"<figure>\n{svg}\n<figcaption>{_text(picture.caption)}</figcaption>\n</figure>\n"


def _example(example: Example) -> str:
    lines = "".join(
        f'<dt>{_text(name)}</dt><dd dir="auto">{"".join(map(_part, parts)) or "&nbsp;"}</dd>'
        for name, parts in example.lines
    )
    return f'<div class="example"><h3>{_text(example.title)}</h3><dl>{lines}</dl></div>\n'


def _part(part: Part) -> str:
    return f"<mark>{_text(part.text)}</mark>" if part.differs else _text(part.text)


def inline(figure: Figure, name: str, label: str) -> str:
    """A figure as an SVG element of a page, with unique ids and the colours of the page."""
    file = io.BytesIO()
    figure.savefig(file, format="svg", transparent=True)
    svg = file.getvalue().decode("utf-8")
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    box = re.search(r'viewBox="0 0 ([\d.]+) [\d.]+"', svg)
    widest = f"{float(box[1]) * 1.6 / 16:.1f}rem" if box else "100%"
    opening = (
        f'<svg viewBox="{box[0][9:-1] if box else ""}" role="img" '
        f'aria-label="{_text(label)}" style="max-width: {widest}">'
    )
    svg = re.sub(r"<[^>]*>", lambda tag: _renamed(tag[0], name), svg)  # text stays as it is
    return re.sub(r"<svg.*?>", lambda _: opening, svg, count=1, flags=re.S)


def _renamed(tag: str, name: str) -> str:
    """A tag of an SVG file with the ids and colours of the page."""
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = re.sub(r"url\(#", f"url(#{name}-", tag)
    tag = re.sub(r'xlink:href="#', f'href="#{name}-', tag).replace("xlink:href", "href")
    return re.sub("|".join(COLOURS), lambda match: COLOURS[match[0]], tag)


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower())


def _text(text: str) -> str:
    return html.escape(text)
