"""The options that a dataclass stands for: their names, values and the words of their comments."""

import ast
import dataclasses
import functools
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from bahdanau_jax.cli.choices import CHOICES
from bahdanau_jax.config import Config

# Type -> what stands for a value of it in the help.
VALUES: Mapping[Any, str] = types.MappingProxyType(
    {bool: "True|False", int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}
)
# Class of settings -> the section of a configuration, which is how CHOICES names it.
SECTIONS = {type(getattr(Config(), one.name)): one.name for one in dataclasses.fields(Config)}


class Option(NamedTuple):
    """One option of a command, or its positional argument."""

    name: str  # --model.cell, or CONFIG
    section: str  # model; "" for an option of the command itself
    value: str  # what stands for its value
    words: str  # what it means: the comment of its field
    choices: Mapping[str, str]  # what it may be, each in a few words
    default: Any  # tyro.MISSING where it has to be given


def options(
    cls: type, command: str = "", default: Any = None, section: str = "", prefix: str = ""
) -> list[Option]:
    """Every option of a dataclass; those of nested ones have dotted names.

    A nested field `settings` adds nothing to the names. A field that may not be called as its
    option, such as import_, has a _ behind it. Defaults are those of `default`, if it is given.
    """
    hints, comments = typing.get_type_hints(cls, include_extras=True), _comments(cls)
    found = []
    for field in dataclasses.fields(cls):
        kind, value = hints[field.name], _default(field, default)
        if dataclasses.is_dataclass(bare := _bare(kind)):
            named = field.name != "settings"
            inner = f"{prefix}{field.name}." if named else ""
            kept = None if value is tyro.MISSING else value
            name = field.name if named else ""
            found += options(typing.cast(type, bare), command, kept, name, inner)
        else:
            named = SECTIONS.get(cls) or command.rpartition(" ")[2]
            choices = CHOICES.get(f"{named}.{field.name}", {})
            name = _metavar(kind) or f"--{prefix}{field.name}".rstrip("_").replace("_", "-")
            shown = _shown(_bare(kind), choices) if name.startswith("-") else ""
            words = comments.get(field.name, "")
            found.append(Option(name, section, shown, words, choices, value))
    return found


def _shown(kind: Any, choices: Mapping[str, str]) -> str:
    """What stands for a value. Where every choice is KIND:WHERE, it is an address."""
    if not choices:
        return VALUES.get(kind, "TEXT")
    return "ADDRESS" if all(":" in name for name in choices) else "NAME"


def _default(field: dataclasses.Field, default: Any) -> Any:
    if default is not None:
        return getattr(default, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return tyro.MISSING if field.default is dataclasses.MISSING else field.default


def _metavar(kind: Any) -> str:
    """The name of a positional argument; "" for an option."""
    for each in getattr(kind, "__metadata__", ()):
        if getattr(each, "metavar", None):
            return each.metavar
    return ""


def _bare(kind: Any) -> Any:
    """A type without what may stand around it: annotations, None, a tuple of any length."""
    while True:
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Annotated, tuple):
            kind = inside[0]
        elif origin in (types.UnionType, typing.Union):
            kind = next(one for one in inside if one is not type(None))
        else:
            return kind


@functools.cache
def _comments(cls: type) -> Mapping[str, str]:
    """The comment of each field, beside it or above it, of a dataclass and those it extends."""
    found = {}
    for each in reversed(cls.__mro__):
        if dataclasses.is_dataclass(each):
            found |= _read(textwrap.dedent(inspect.getsource(each)))
    return found


def _read(source: str) -> Iterator[tuple[str, str]]:
    lines = source.splitlines()
    (body,) = ast.parse(source).body
    for node in typing.cast(ast.ClassDef, body).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            beside = lines[node.lineno - 1 : node.end_lineno]
            above = node.lineno - 1
            while lines[above - 1].lstrip().startswith("#"):
                above -= 1
            said = [line.partition("  # ")[2] for line in beside if "  # " in line]
            said = said or [line.strip(" #") for line in lines[above : node.lineno - 1]]
            yield node.target.id, " ".join(said)
