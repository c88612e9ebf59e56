"""Options of a command from a dataclass, by tyro, with errors of one line.

Every option takes one value, also a boolean one (`--model.gate-bias False`), which is True without.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import tyro

from bahdanau_jax.atomic import is_stream
from bahdanau_jax.cli import HelpShown, fields, manual
from bahdanau_jax.names import did_you_mean, nearest

Options = TypeVar("Options")

FRAME = "│╭╮╰╯─|+- "  # characters of the frame that tyro draws around a message, also in ASCII
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def parse(
    cls: type[Options], arguments: Sequence[str], command: str, default: Options | None = None
) -> Options:
    """Parse a command line into a `cls`, whose docstring and comments of fields are the help.

    Missing options have their values in `default`. Raises ValueError, in one line, for arguments
    that cannot be parsed, and HelpShown after --help.

    >>> parse(Translate, ["--run", "runs/quickstart"], "bahdanau translate").n_best
    1
    """
    topic = help_asked(cls, arguments)[1]
    if topic is not None:
        print(manual.text(cls, command, topic, default), end="")
        raise HelpShown(0)
    _reject_unknown(cls, arguments, command)
    _reject_empty_paths(cls, arguments)
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            chosen = tyro.cli(
                cls,
                args=_with_values(cls, arguments),
                prog=command,
                config=(tyro.conf.FlagConversionOff,),
                default=tyro.MISSING_NONPROP if default is None else default,
            )
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            raise HelpShown(0) from None
        raise ValueError(f"{one_line(message.getvalue())} ({command} --help)") from None
    _require_repeated(chosen, command)
    return chosen


def _require_repeated(chosen: object, command: str) -> None:
    """Raise ValueError for a required option that may be repeated, but is not given even once.

    tyro takes that as an empty tuple.
    """
    for field in dataclasses.fields(chosen):  # pyright: ignore[reportArgumentType]
        is_required = field.default is field.default_factory is dataclasses.MISSING
        if is_required and getattr(chosen, field.name) == ():
            raise ValueError(f"missing: --{field.name.replace('_', '-')} ({command} --help)")


def require(chosen: object, option: str, *needed: str) -> None:
    """Raise ValueError where an option is not the default of its class, but `needed` are all unset.

    >>> require(Prepare(name="my_pairs"), "name", "tfds")
    Traceback (most recent call last):
    ValueError: --name needs --tfds, which is missing
    """
    is_set = getattr(chosen, option) != getattr(type(chosen), option)
    if is_set and not any(getattr(chosen, name) for name in needed):
        option, *others = (f"--{name.strip('_').replace('_', '-')}" for name in (option, *needed))
        raise ValueError(f"{option} needs {' or '.join(others)}, which is missing")


def check_files(chosen: object, written: Sequence[str], read: Sequence[str]) -> None:
    """Raise ValueError where a file to write is one of the others, FileNotFoundError for none.

    `written` and `read` are names of options. Streams may be both written and read.
    """
    for name in read:
        path = getattr(chosen, name)
        if path is not None and not path.exists():
            raise FileNotFoundError(2, f"no such file (--{name})", str(path))
    seen: dict[str, str] = {}  # file -> option
    for name in (*written, *read):
        path = getattr(chosen, name)
        if path is None or is_stream(path):
            continue
        other = seen.setdefault(os.path.realpath(path), name)
        first, second = (f"--{each.replace('_', '-')}" for each in (other, name))
        if other != name and name in written:
            raise ValueError(f"{first} and {second} are both {path}: name two files")
        if other != name and other in written:
            raise ValueError(f"{first} would replace {path}, the file of {second}: name another")


def _reject_empty_paths(cls: type, arguments: Sequence[str]) -> None:
    """Raise ValueError for an empty path, which Python would take for the current folder."""
    paths = _of_type(cls, Path)
    words = [word for argument in arguments for word in argument.split("=", 1)]
    for name, value in itertools.pairwise(words):
        if name.replace("_", "-") in paths and not value:
            raise ValueError(f"{name} is empty, but should be a path; . is the current folder")


def _with_values(cls: type, arguments: Sequence[str]) -> list[str]:
    """`--dry-run` alone means `--dry-run True`."""
    switches = _of_type(cls, bool)
    pairs = itertools.zip_longest(arguments, arguments[1:], fillvalue="--")
    return [
        word
        for name, value in pairs
        for word in (
            (name, "True")
            if name.replace("_", "-") in switches and value.startswith("--")
            else (name,)
        )
    ]


def _of_type(cls: type, kind: type) -> set[str]:
    return {option.name for option in fields.options(cls) if option.value == fields.VALUES[kind]}


def one_line(message: str) -> str:
    """Remove frame, title, colours and help texts from a message of tyro.

    >>> one_line("╭─ Value error ─╮\\n│ Error parsing --x: not an INT │\\n╰───────────────╯")
    'Error parsing --x: not an INT'
    >>> one_line("╭─ E ─╮\\n│ Missing value for '--x'. Expected 1 values. │\\n╰─────╯")
    "Missing value for '--x'. Expected 1 value."
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
        return f"missing: {', '.join(missing)}"
    return words.replace("Expected 1 values", "Expected 1 value")


def help_asked(cls: type, arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Split a command line into the arguments without --help, and the topic after --help.

    The topic is "" where --help has none, and None where there is no --help.

    >>> help_asked(Train, ["quickstart", "--help", "model"])
    (['quickstart'], 'model')
    """
    place = next((i for i, word in enumerate(arguments) if word in ("-h", "--help")), None)
    if place is None:
        return list(arguments), None
    before, after = list(arguments[:place]), list(arguments[place + 1 :])
    topic = after.pop(0) if after and after[0] in manual.topics(cls) else ""
    return before + after, topic


def _reject_unknown(cls: type, arguments: Sequence[str], command: str) -> None:
    """Raise ValueError for an unknown option.

    tyro reports a missing required option first, even if a misspelt option is the cause.
    """
    known = [option.name for option in fields.options(cls) if option.name.startswith("-")]
    for argument in arguments:
        if argument == "--":
            break
        written = argument.partition("=")[0]
        name = written.replace("_", "-")
        if name.startswith("--") and name not in known:
            hint = did_you_mean(name, known, f"see {command} --help", find=candidates)
            raise ValueError(f"no option {written}; {hint}")


# Names of options in other programs -> the names of the same options here.
ALIASES: Mapping[str, str] = MappingProxyType(
    {"attn": "attention", "epochs": "steps", "iterations": "steps", "updates": "steps"}
)
MOST = 3  # options in one suggestion
SHORTEST = 3  # letters of an abbreviated word, at least


def candidates(name: str, known: Sequence[str]) -> list[str]:
    """The known options that an unknown one may stand for, by the first rule that has any.

    The rules in their order: the last part of a dotted name is equal; its initials are equal; the
    name is a section with a field `name`; its words are abbreviated; the spelling is similar.

    >>> candidates("--lr", ["--workdir", "--optimizer.learning-rate"])
    ['--optimizer.learning-rate']
    """
    word = ALIASES.get(name[2:], name[2:])
    leaves = {option: option[2:].rpartition(".")[2] for option in known}
    similar = nearest(name, known) or nearest(word, leaves.values())
    rules: tuple[Callable[[str, str], bool], ...] = (
        lambda option, leaf: leaf == word,
        lambda option, leaf: "-" in leaf and "".join(w[0] for w in leaf.split("-")) == word,
        lambda option, leaf: option == f"--{word}.name",
        lambda option, leaf: _abbreviates(word.split("-"), leaf.split("-")),
        lambda option, leaf: option in similar or leaf in similar,
    )
    matches = ([o for o, leaf in leaves.items() if rule(o, leaf)] for rule in rules)
    return next(filter(None, matches), [])[:MOST]


def _abbreviates(short: Sequence[str], words: Sequence[str]) -> bool:
    """Whether each short form is long enough and begins one of the words."""
    return all(len(s) >= SHORTEST and any(w.startswith(s) for w in words) for s in short)
