"""The options of a dataclass: their names, values and explanations from comments."""

import ast
import dataclasses
import functools
import importlib
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

# Type -> placeholder of its values in the help.
VALUES: Mapping[Any, str] = types.MappingProxyType(
    {bool: "True|False", int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}
)
# Class of settings -> its section of a configuration, as in CHOICES.
SECTIONS = {type(getattr(Config(), part.name)): part.name for part in dataclasses.fields(Config)}


class Option(NamedTuple):
    """One option of a command, or its positional argument."""

    name: str  # --model.cell, or CONFIG
    section: str  # model; "" for an option of the command itself
    value: str  # the placeholder of its value
    words: str  # its explanation: the comment of its field
    choices: Mapping[str, str]  # named values and their explanations
    default: Any  # tyro.MISSING for a required option


def options_of(command: str) -> type:
    """The dataclass of a command's options.

    >>> options_of("train")
    <class 'bahdanau_jax.cli.train_command.Train'>
    """
    module = importlib.import_module(f"bahdanau_jax.cli.{command}_command")
    return getattr(module, command.capitalize())


def options(
    cls: type, command: str = "", default: Any = None, section: str = "", prefix: str = ""
) -> list[Option]:
    """Every option of a dataclass; the fields of nested dataclasses have dotted names.

    The name of a nested field `settings` is left out. A trailing _ of a name, such as import_, is
    removed. The defaults are the values of `default`, if it is given.
    """
    hints, comments = typing.get_type_hints(cls, include_extras=True), _comments(cls)
    listed = []
    for field in dataclasses.fields(cls):
        kind, value = hints[field.name], _default(field, default)
        if dataclasses.is_dataclass(bare := _bare(kind)):
            name = "" if field.name == "settings" else field.name
            inner = f"{prefix}{name}." if name else ""
            defaults = None if value is tyro.MISSING else value
            listed += options(typing.cast(type, bare), command, defaults, name, inner)
        else:
            owner = SECTIONS.get(cls) or command.rpartition(" ")[2]
            choices = CHOICES.get(f"{owner}.{field.name}", {})
            name = _metavar(kind) or f"--{prefix}{field.name}".rstrip("_").replace("_", "-")
            shown = _placeholder(_bare(kind), choices) if name.startswith("-") else ""
            words = comments.get(field.name, "")
            listed.append(Option(name, section, shown, words, choices, value))
    return listed


def _placeholder(kind: Any, choices: Mapping[str, str]) -> str:
    """The placeholder of a value; ADDRESS if every choice is KIND:WHERE."""
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
    names = (
        getattr(annotation, "metavar", None) for annotation in getattr(kind, "__metadata__", ())
    )
    return next(filter(None, names), "")


def _bare(kind: Any) -> Any:
    """A type without annotations, without None, and without a tuple around it."""
    while True:
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Annotated, tuple):
            kind = inside[0]
        elif origin in (types.UnionType, typing.Union):
            kind = next(part for part in inside if part is not type(None))
        else:
            return kind


@functools.cache
def _comments(cls: type) -> Mapping[str, str]:
    """The comment beside or above each field of a dataclass and of its base classes."""
    comments = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            comments |= _read(textwrap.dedent(inspect.getsource(base)))
    return comments


def _read(source: str) -> Iterator[tuple[str, str]]:
    lines = source.splitlines()
    (body,) = ast.parse(source).body
    for node in typing.cast(ast.ClassDef, body).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            beside = lines[node.lineno - 1 : node.end_lineno]
            above = node.lineno - 1
            while lines[above - 1].lstrip().startswith("#"):
                above -= 1
            words = [line.partition("  # ")[2] for line in beside if "  # " in line]
            words = words or [line.strip(" #") for line in lines[above : node.lineno - 1]]
            yield node.target.id, " ".join(words)
