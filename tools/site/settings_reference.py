"""The reference of the configuration: each field with type, default, meaning, bounds and choices.

All of it is read from the package: the comments beside the fields of `config.py`, the words of
`cli/choices.py`, and the bounds that `config.faults` checks.
"""

import dataclasses
import inspect
import typing
from collections.abc import Iterator

from bahdanau_jax import config
from bahdanau_jax.cli import fields
from bahdanau_jax.cli.fields import Option
from bahdanau_jax.config import Config
from tools.site.docstrings import escaped, sentence

PRESETS = {"model": ("PRESETS", config.PRESETS), "decoding": ("SEARCHES", config.SEARCHES)}


def markdown() -> str:
    """The sections of a configuration, to follow the introduction of the page."""
    return "\n".join(line for part in dataclasses.fields(Config) for line in _section(part.name))


def section(name: str) -> list[Option]:
    """The settings of a section."""
    return [option for option in fields.options(Config) if option.section == name]


def field(option: Option) -> str:
    """The dotted name of a setting in Python: model.hidden_size."""
    return option.name.removeprefix("--").replace("-", "_")


def _section(name: str) -> Iterator[str]:
    defaults = getattr(Config(), name)
    hints = typing.get_type_hints(type(defaults))
    yield f"\n## {name}\n"
    yield f"`{type(defaults).__name__}`. {escaped(inspect.getdoc(type(defaults)) or '')}\n"
    for option in section(name):
        leaf = field(option).partition(".")[2]
        yield f"\n### {field(option)} {{ #{field(option).replace('.', '-')} }}\n"
        yield f"{sentence(option.words)}\n"
        facts = (f"`{hints[leaf].__name__}`", f"default {_value(option.default)}", _bounds(option))
        written = f"{option.name} {option.value}".replace("|", "/")
        yield f"{', '.join(filter(None, facts))}. Option `{written}`{{ .option }}."
        yield from choices(option)
    yield from _presets(name)


def _value(value: object) -> str:
    return "empty" if value == "" else f"`{value}`"


def choices(option: Option) -> Iterator[str]:
    """A table of the named values of an option."""
    if option.choices:
        yield "\n| value | meaning |\n|---|---|"
        for name, words in option.choices.items():
            yield f"| `{name}` | {escaped(words)} |"


def _bounds(option: Option) -> str:
    """What `config.faults` demands of a value, in its own words; "" where it accepts any."""
    name = field(option)
    if isinstance(option.default, bool | str):
        return ""
    kind = type(option.default)
    probes = (kind(2**64), kind(-1), kind(0), kind(1), kind(2))
    words = dict.fromkeys(_fault(name, probe) for probe in probes)
    return escaped("; ".join(filter(None, words)))


def _fault(name: str, value: float) -> str:
    """The words after "should be" of the fault of a value; "" where there is none."""
    part, leaf = name.split(".")
    changed = dataclasses.replace(getattr(Config(), part), **{leaf: value})
    lines = config.faults(dataclasses.replace(Config(), **{part: changed}))
    matching = (line for line in lines if line.startswith(f"{name} is "))
    return next((line.partition("should be ")[2] for line in matching), "")


def _presets(name: str) -> Iterator[str]:
    """The named settings of a section, each with what differs from the defaults."""
    if name not in PRESETS:
        return
    table, presets = PRESETS[name]
    yield f"\n### {table}\n\nNamed settings of this section.\n"
    yield "| name | differs from the defaults |\n|---|---|"
    for preset, values in presets.items():
        default = type(values)()
        changed = (
            f"`{each.name}={getattr(values, each.name)!r}`"
            for each in dataclasses.fields(values)
            if getattr(values, each.name) != getattr(default, each.name)
        )
        yield f"| `{preset}` | {', '.join(changed) or 'nothing'} |"
