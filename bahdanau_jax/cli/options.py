"""Options of a command from a dataclass, by tyro, with errors of one line.

Every option takes one value (`--model.gate-bias False`), so a command line reads the same way
whatever the fields' types.
"""

import contextlib
import dataclasses
import difflib
import io
import re
import typing
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tyro

Options = TypeVar("Options")

FRAME = "│╭╮╰╯─|+- "  # what tyro draws around its messages, also where there is only ASCII
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def parse(
    cls: type[Options], arguments: Sequence[str], command: str, default: Options | None = None
) -> Options:
    """The command line as a `cls`; its docstring and its fields' comments are the help.

    Fields not given come from `default`. Raises ValueError, in one line, for what cannot be read;
    leaves through SystemExit(0) after --help.

    >>> parse(Translate, ["--run", "runs/quickstart"], "translate").n_best
    1
    """
    _reject_unknown(cls, arguments, command)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                cls,
                args=list(arguments),
                prog=f"bahdanau {command}",
                config=(tyro.conf.FlagConversionOff,),
                default=tyro.MISSING_NONPROP if default is None else default,
            )
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            raise
        raise ValueError(f"{one_line(said.getvalue())} (bahdanau {command} --help)") from None


def one_line(message: str) -> str:
    """tyro's framed message without frame, title, colours and help texts.

    >>> one_line("╭─ Value error ─╮\\n│ Error parsing --x: not an INT │\\n╰───────────────╯")
    'Error parsing --x: not an INT'
    """
    sections: list[list[str]] = [[]]
    for line in COLOUR.sub("", message).splitlines()[1:]:
        text = line.strip("│| ")
        if not text.strip(FRAME):
            sections.append([])
        else:
            sections[-1].append(text)
    words = " ".join(sections[0]) or " ".join(message.split())
    missing = re.findall(r"(--[\w.-]+|[A-Z]{2,}) [^()]*\(required\)", words)
    if words.startswith("Missing from") and missing:
        named = ["CONFIG" if name.isupper() else name for name in missing]
        return f"missing: {', '.join(named)}"
    return words


def _reject_unknown(cls: type, arguments: Sequence[str], command: str) -> None:
    """Before tyro looks: it reports a missing option first, though a misspelt one is the cause."""
    known = {"--help", *_names(cls, "")}
    for argument in arguments:
        if argument == "--":
            break
        name = argument.partition("=")[0].replace("_", "-")
        if not name.startswith("--") or name in known:
            continue
        near = difflib.get_close_matches(name, sorted(known), n=1)
        leaf = sorted(option for option in known if option.endswith(f".{name[2:]}"))
        hints = (leaf or near)[:1]
        hint = f"did you mean {hints[0]}?" if hints else f"see bahdanau {command} --help"
        raise ValueError(f"no option {argument.partition('=')[0]}; {hint}")


def _names(cls: type, prefix: str) -> Iterator[str]:
    """Every option of a dataclass, nested ones by their dotted names; `settings` adds no name.

    A field that may not be called as its option, such as import_, has a _ behind it.
    """
    types: dict[str, Any] = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(types[field.name]):
            inner = "" if field.name == "settings" else f"{prefix}{field.name}."
            yield from _names(types[field.name], inner)
        else:
            yield f"--{prefix}{field.name}".rstrip("_").replace("_", "-")
