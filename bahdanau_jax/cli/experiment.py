"""The configuration that a command line names: a file, or one that is shipped, with overrides.

A configuration file is a Python file that defines `config = Config(...)`.
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
    """What to run and where its files go."""

    config: Annotated[  # a configuration file, or the name of a shipped one
        tyro.conf.Positional[str], tyro.conf.arg(metavar="CONFIG")
    ]
    workdir: Path  # the run folder: made where it is missing, gone on with where it is there
    settings: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)

    COMMON: ClassVar[Sequence[str]] = ()  # settings that the help shows at first

    @staticmethod
    def listing() -> str:
        """The shipped configurations, for the help."""
        return manual.table("shipped configurations:", {n: title(p) for n, p in shipped().items()})


Kind = TypeVar("Kind", bound=Experiment)


def parse(cls: type[Kind], arguments: Sequence[str], command: str) -> Kind:
    """CONFIG --workdir DIR and overrides of any field of the configuration by its dotted name.

    Read twice: what CONFIG says becomes the default of the options beside it, also in --help. Where
    --data.train names other corpora, CONFIG's dev and test pairs are no longer the default.
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
    """The same experiment on another training corpus, with dev and test pairs that belong to it."""
    data, named = config.data, {}
    for split in ("dev", "test"):
        named[split] = splits.after(train, data.train, getattr(data, split), split)
    return replace(config, data=replace(data, train=train, **named))


def load(name: str) -> Config:
    """`configurations.configuration`, whose file may name code in the current folder."""
    import_from_here()
    return configuration(name)
