"""Options of a command from a dataclass, by tyro, with errors of one line.

Every option takes one value (`--model.gate-bias False`), so a command line reads the same way
whatever the fields' types.
"""

import contextlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import tyro

from bahdanau_jax.cli import fields, manual
from bahdanau_jax.names import nearest, suggestion

Options = TypeVar("Options")

FRAME = "│╭╮╰╯─|+- "  # what tyro draws around its messages, also where there is only ASCII
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def parse(
    cls: type[Options], arguments: Sequence[str], command: str, default: Options | None = None
) -> Options:
    """The command line as a `cls`; its docstring and its fields' comments are the help.

    Fields not given come from `default`. Raises ValueError, in one line, for what cannot be read;
    leaves through SystemExit(0) after --help.

    >>> parse(Translate, ["--run", "runs/quickstart"], "bahdanau translate").n_best
    1
    """
    topic = help_asked(cls, arguments)[1]
    if topic is not None:
        print(manual.text(cls, command, topic, default), end="")
        raise SystemExit(0)
    _reject_unknown(cls, arguments, command)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                cls,
                args=list(arguments),
                prog=command,
                config=(tyro.conf.FlagConversionOff,),
                default=tyro.MISSING_NONPROP if default is None else default,
            )
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            raise
        raise ValueError(f"{one_line(said.getvalue())} ({command} --help)") from None


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


def help_asked(cls: type, arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """The command line without -h or --help, and the topic behind it: "" for none.

    The topic is None where no help is asked for.

    >>> help_asked(Train, ["quickstart", "--help", "model"])
    (['quickstart'], 'model')
    """
    asked = next((at for at, one in enumerate(arguments) if one in ("-h", "--help")), None)
    if asked is None:
        return list(arguments), None
    before, after = list(arguments[:asked]), list(arguments[asked + 1 :])
    topic = after.pop(0) if after and after[0] in manual.topics(cls) else ""
    return before + after, topic


def _reject_unknown(cls: type, arguments: Sequence[str], command: str) -> None:
    """Before tyro looks: it reports a missing option first, though a misspelt one is the cause."""
    known = [one.name for one in fields.options(cls) if one.name.startswith("-")]
    for argument in arguments:
        if argument == "--":
            break
        given = argument.partition("=")[0]
        name = given.replace("_", "-")
        if name.startswith("--") and name not in known:
            hint = suggestion(meant(name, known), f"see {command} --help")
            raise ValueError(f"no option {given}; {hint}")


# Names from other programs -> what the option is called here.
ALIASES: Mapping[str, str] = MappingProxyType(
    {"attn": "attention", "epochs": "steps", "iterations": "steps", "updates": "steps"}
)
MOST = 3  # options that one question names
SHORTEST = 3  # letters that the beginning of a word should have


def meant(name: str, known: Sequence[str]) -> list[str]:
    """The options that an unknown one may stand for, the likeliest kind alone; none if none is.

    In this order: the last part of a dotted name, its initials, a section whose field is called
    name, beginnings of its words, and a similar spelling.

    >>> meant("--lr", ["--workdir", "--optimizer.learning-rate"])
    ['--optimizer.learning-rate']
    """
    said = ALIASES.get(name[2:], name[2:])
    leaves = {option: option[2:].rpartition(".")[2] for option in known}
    spelt = nearest(name, known) or nearest(said, leaves.values())
    kinds: tuple[Callable[[str, str], bool], ...] = (
        lambda option, leaf: leaf == said,
        lambda option, leaf: "-" in leaf and "".join(w[0] for w in leaf.split("-")) == said,
        lambda option, leaf: option == f"--{said}.name",
        lambda option, leaf: _begin(said.split("-"), leaf.split("-")),
        lambda option, leaf: option in spelt or leaf in spelt,
    )
    found = ([o for o, leaf in leaves.items() if kind(o, leaf)] for kind in kinds)
    return next(filter(None, found), [])[:MOST]


def _begin(asked: Sequence[str], words: Sequence[str]) -> bool:
    """Whether each word asked for is long enough and begins one of these."""
    return all(len(a) >= SHORTEST and any(w.startswith(a) for w in words) for a in asked)
