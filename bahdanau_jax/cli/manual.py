"""The help of a command for a terminal of 80 columns, without an import of JAX.

The help comes from a dataclass of options: its docstring, its comments, and its attributes EXAMPLES
(command lines), COMMON (settings on the first page) and BEHIND (arguments after the options).
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tyro

from bahdanau_jax.cli import fields
from bahdanau_jax.cli.fields import Option

WIDTH = 80
COLUMN = 30  # the first column of an option's explanation
ALL = "all"


def topics(cls: type) -> list[str]:
    """The words that may follow --help: the sections of the settings, and `all`."""
    sections = dict.fromkeys(option.section for option in fields.options(cls) if option.section)
    return [*sections, ALL]


def text(cls: type, command: str, topic: str = "", default: Any = None) -> str:
    """The help of a command, or a part of it.

    Args:
        topic: one of `topics(cls)` for these settings; "" for the first page.
        default: an instance whose values are shown as the defaults.
    """
    options = fields.options(cls, command, default)
    sections = topics(cls)[:-1]
    chosen = sections if topic == ALL else [topic] if topic else []
    parts = [] if topic in sections else [*_first_page(cls, command, options)]
    for section in chosen:
        settings = [option for option in options if option.section == section]
        parts.append(_listed(f"settings of {section}:", settings))
    if sections and not topic:
        parts.append(_more(command, options, sections))
    return "\n\n".join(parts) + "\n"


def _first_page(cls: type, command: str, options: Sequence[Option]) -> Iterator[str]:
    required = [option for option in options if option.default is tyro.MISSING]
    arguments = " ".join(f"{option.name} {option.value}".strip() for option in required)
    paragraphs = (inspect.getdoc(cls) or "").split("\n\n")
    extra: Callable[[], str] = getattr(cls, "listing", str)
    common: Sequence[str] = getattr(cls, "COMMON", ())
    own = [option for option in options if not option.section]
    settings = {option.name: option for option in options}
    usage = ("usage:", command, arguments, "[OPTIONS]", getattr(cls, "BEHIND", ""))
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


def _more(command: str, options: Sequence[Option], sections: Sequence[str]) -> str:
    count = sum(bool(option.section) for option in options)
    return filled(
        f"All {count} settings: {command} --help SECTION, where SECTION is "
        f"{', '.join(sections)} or {ALL}. After a CONFIG, the help shows its values."
    )


def examples(lines: Sequence[str]) -> str:
    """Command lines under a title; each is one line, which can be copied."""
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


def table(title: str, rows: Mapping[str, str]) -> str:
    """Names and their explanations under a title."""
    return "\n".join([title, *_rows(rows, 2)])


def filled(paragraph: str) -> str:
    """A paragraph in lines of at most WIDTH characters."""
    return textwrap.fill(" ".join(paragraph.split()), WIDTH, **KEPT)


# Options and addresses are not split at their hyphens.
KEPT: Mapping[str, Any] = {"break_on_hyphens": False, "break_long_words": False}


def _listed(title: str, options: Sequence[Option]) -> str:
    return "\n".join([title, *(line for option in options for line in _described(option))])


def _described(option: Option) -> Iterator[str]:
    """The lines of an option: its name beside its explanation, and its choices below."""
    name, margin = f"  {option.name} {option.value}".rstrip(), " " * COLUMN
    words = " ".join(filter(None, [option.words, _default(option.default)]))
    lines = textwrap.wrap(words, WIDTH - COLUMN, **KEPT)
    if len(name) + 2 > COLUMN or not lines:
        yield name
    else:
        yield f"{name:<{COLUMN}}{lines.pop(0)}"
    yield from (margin + line for line in lines)
    yield from _rows(option.choices, 6)


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
