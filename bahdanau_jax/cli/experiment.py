"""The configuration of a command line: a file or a shipped configuration, with overrides.

A configuration file is a Python file that defines `config = Config(...)`, or a run's config.json.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

import tyro

from bahdanau_jax import splits
from bahdanau_jax.cli import import_from_here, manual, options
from bahdanau_jax.config import Config
from bahdanau_jax.configurations import configuration, shipped, title


@dataclass(frozen=True)
class Experiment:
    """A configuration and the folder of its files."""

    config: Annotated[  # a configuration file, or the name of a shipped one
        tyro.conf.Positional[str], tyro.conf.arg(metavar="CONFIG")
    ]
    workdir: Path  # the run folder, which is created, or whose run is resumed
    settings: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)

    COMMON: ClassVar[Sequence[str]] = ()  # settings on the first page of the help

    @staticmethod
    def listing() -> str:
        """The shipped configurations, for the help."""
        return manual.table("shipped configurations:", {n: title(p) for n, p in shipped().items()})


Kind = TypeVar("Kind", bound=Experiment)


def parse(cls: type[Kind], arguments: Sequence[str], command: str) -> Kind:
    """Parse CONFIG --workdir DIR and overrides of fields of the configuration by dotted names.

    The values of CONFIG are the defaults of the other options, also in --help. Therefore the
    command line is parsed twice. If --data.train names other corpora, the defaults of dev and test
    are not those of CONFIG.
    """
    plain, topic = options.help_asked(cls, arguments)
    asked_for_help = topic is not None
    try:
        first = options.parse(cls, [*plain, "--workdir", "."] if asked_for_help else plain, command)
        settings = load(first.config)
        if any(re.match(r"--data\.train(=|$)", argument) for argument in plain):
            settings = trained_on(settings, first.settings.data.train)
        default = cls(config=tyro.MISSING, workdir=tyro.MISSING, settings=settings)
    except ValueError:
        if not asked_for_help:
            raise
        default = None  # no readable CONFIG: the help shows the built-in defaults
    return options.parse(cls, arguments, command, default)


def trained_on(config: Config, train: str) -> Config:
    """The configuration with another training corpus, and with dev and test pairs of the same."""
    data, others = config.data, {}
    for split in ("dev", "test"):
        others[split] = splits.after(train, data.train, getattr(data, split), split)
    return replace(config, data=replace(data, train=train, **others))


def load(name: str) -> Config:
    """Load a configuration, which may name code in the current folder."""
    import_from_here()
    return configuration(name)
