"""The reference of the commands: usage, examples and options, from the dataclasses of `--help`."""

import inspect
from collections.abc import Iterator

import tyro

from bahdanau_jax.cli import experiment, fields, main
from bahdanau_jax.cli.fields import Option
from tools.site.docstrings import escaped


def markdown() -> str:
    """All commands, to follow the introduction of the page.

    Raises ValueError for an option without a comment.
    """
    lines = [*_overview(), *(line for name in main.COMMANDS for line in _command(name))]
    return "\n".join([*lines, *_exit_codes()])


def _overview() -> Iterator[str]:
    yield "\n| command | what it does |\n|---|---|"
    for name, words in main.COMMANDS.items():
        yield f"| [`bahdanau {name}`](#bahdanau-{name}) | {escaped(words)} |"
    for name, words in main.OPTIONS.items():
        yield f"| `{name}` | {escaped(words)} |"


def _command(name: str) -> Iterator[str]:
    cls = fields.options_of(name)
    command = f"bahdanau {name}"
    listed = [option for option in fields.options(cls, command) if not option.section]
    if silent := [option.name for option in listed if not option.words]:
        raise ValueError(f"{command}: {', '.join(silent)}: no comment says what the option does")
    required = [option for option in listed if option.default is tyro.MISSING]
    arguments = " ".join(f"{option.name} {option.value}".strip() for option in required)
    yield f"\n## {command}\n"
    yield from (escaped(inspect.getdoc(cls) or ""), "")
    usage = (command, arguments, "[OPTIONS]", getattr(cls, "BEHIND", ""))
    yield f"```text\n{' '.join(filter(None, usage))}\n```\n\nExamples:\n"
    yield from ("```sh", *getattr(cls, "EXAMPLES", ()), "```", "")
    if issubclass(cls, experiment.Experiment):
        yield (
            "Each setting of the [configuration](configuration.md) is an option too, such as "
            "`--model.cell tanh`.\n"
        )
        yield f"```text\n{cls.listing()}\n```\n"
    if listed:
        yield from _table(listed)


def _table(listed: list[Option]) -> Iterator[str]:
    yield "| option | meaning | default |\n|---|---|---|"
    for option in listed:
        values = "<br>".join(
            f"`{name}`: {escaped(words)}" for name, words in option.choices.items()
        )
        meaning = "<br>".join(filter(None, [escaped(option.words), values]))
        name = f"{option.name} {option.value}".strip().replace("|", "/")
        yield f"| `{name}` | {meaning} | {_default(option.default)} |"


def _default(value: object) -> str:
    if value is tyro.MISSING:
        return "required"
    return "" if value in ("", None, ()) else f"`{value}`"


def _exit_codes() -> Iterator[str]:
    yield "\n## Exit codes\n\n| code | meaning |\n|---|---|"
    for line in (inspect.getdoc(main) or "").partition("Exit codes:")[2].splitlines():
        if line.strip():
            code, _, words = line.strip().partition(" ")
            yield f"| {code} | {escaped(words.strip())} |"
