"""The help of a command, for a terminal of 80 columns; quick to make, since JAX is not imported.

A dataclass of options says what its help shows: its docstring, its comments, and the attributes
EXAMPLES (command lines), COMMON (the settings that are shown at first), BEHIND (what follows the
options).
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tyro

from bahdanau_jax.cli import fields
from bahdanau_jax.cli.fields import Option

WIDTH = 80
COLUMN = 30  # where the words of an option begin
ALL = "all"


def topics(cls: type) -> list[str]:
    """What may follow --help: the sections of the settings, and `all`."""
    sections = dict.fromkeys(one.section for one in fields.options(cls) if one.section)
    return [*sections, ALL]


def text(cls: type, command: str, topic: str = "", default: Any = None) -> str:
    """The help of a command: all of it, or for a command with sections, what comes first.

    Args:
        topic: one of `topics(cls)` to show those settings; "" for the first page.
        default: whose values are shown as the defaults.
    """
    found = fields.options(cls, command, default)
    sections = topics(cls)[:-1]
    chosen = sections if topic == ALL else [topic] if topic else []
    parts = [] if topic in sections else [*_first(cls, command, found)]
    for section in chosen:
        listed = [one for one in found if one.section == section]
        parts.append(_listed(f"settings of {section}:", listed))
    if sections and not topic:
        parts.append(_more(command, found, sections))
    return "\n\n".join(parts) + "\n"


def _first(cls: type, command: str, found: Sequence[Option]) -> Iterator[str]:
    needed = [one for one in found if one.default is tyro.MISSING]
    given = " ".join(f"{one.name} {one.value}".strip() for one in needed)
    paragraphs = (inspect.getdoc(cls) or "").split("\n\n")
    extra: Callable[[], str] = getattr(cls, "listing", str)
    common: Sequence[str] = getattr(cls, "COMMON", ())
    own = [one for one in found if not one.section]
    settings = {one.name: one for one in found}
    usage = ("usage:", command, given, "[OPTIONS]", getattr(cls, "BEHIND", ""))
    yield " ".join(filter(None, usage))
    yield filled(summary(cls))
    yield examples(getattr(cls, "EXAMPLES", ()))
    yield from filter(None, [extra()])
    yield from map(filled, paragraphs[1:])
    yield _listed("options:", own)
    if common:
        yield _listed("settings used most:", [settings[name] for name in common])


def summary(cls: type) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


def _more(command: str, found: Sequence[Option], sections: Sequence[str]) -> str:
    count = sum(bool(one.section) for one in found)
    return filled(
        f"All {count} settings: {command} --help SECTION, where SECTION is "
        f"{', '.join(sections)} or {ALL}. After a CONFIG, the help shows its values."
    )


def examples(lines: Sequence[str]) -> str:
    """Command lines under their title, each whole, so that it can be copied."""
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


def table(title: str, rows: Mapping[str, str]) -> str:
    """Names and what they mean, under a title."""
    return "\n".join([title, *_rows(rows, 2)])


def filled(paragraph: str) -> str:
    return textwrap.fill(" ".join(paragraph.split()), WIDTH, **KEPT)


# Neither options nor addresses are cut at their hyphens.
KEPT: Mapping[str, Any] = {"break_on_hyphens": False, "break_long_words": False}


def _listed(title: str, options: Sequence[Option]) -> str:
    return "\n".join([title, *(line for one in options for line in _described(one))])


def _described(one: Option) -> Iterator[str]:
    """An option's lines: its name beside its words, and its choices below."""
    name, margin = f"  {one.name} {one.value}".rstrip(), " " * COLUMN
    words = " ".join(filter(None, [one.words, _default(one.default)]))
    lines = textwrap.wrap(words, WIDTH - COLUMN, **KEPT)
    if len(name) + 2 > COLUMN or not lines:
        yield name
    else:
        yield f"{name:<{COLUMN}}{lines.pop(0)}"
    yield from (margin + line for line in lines)
    yield from _rows(one.choices, 6)


def _rows(rows: Mapping[str, str], indent: int) -> Iterator[str]:
    column = indent + max(map(len, rows), default=0) + 2
    for name, words in rows.items():
        head = f"{' ' * indent}{name}"
        yield textwrap.fill(
            words,
            WIDTH,
            initial_indent=f"{head:<{column}}",
            subsequent_indent=" " * column,
            **KEPT,
        )


def _default(value: Any) -> str:
    if value is tyro.MISSING:
        return "(required)"
    return "" if value in ("", None, ()) else f"(default: {value})"
