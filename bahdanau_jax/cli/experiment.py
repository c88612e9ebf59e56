"""The configuration that a command line names: a file, or one that is shipped, with overrides.

A configuration file is a Python file that defines `config = Config(...)`.
"""

import difflib
import re
import runpy
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

import tyro

import bahdanau_jax
from bahdanau_jax import config as settings
from bahdanau_jax.cli import import_from_here, options
from bahdanau_jax.config import Config

# What Python says of ModelConfig(hiden_size=3).
UNKNOWN_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


@dataclass(frozen=True)
class Experiment:
    """What to run and where its files go."""

    config: Annotated[  # a configuration file, or the name of a shipped one
        tyro.conf.Positional[str], tyro.conf.arg(metavar="CONFIG")
    ]
    workdir: Path  # the run folder: made where it is missing, gone on with where it is there
    settings: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


Kind = TypeVar("Kind", bound=Experiment)


def parse(cls: type[Kind], arguments: Sequence[str], command: str) -> Kind:
    """CONFIG --workdir DIR and overrides of any field of the configuration by its dotted name.

    Read twice: what CONFIG says becomes the default of the options beside it, also in --help.
    """
    plain = [argument for argument in arguments if argument not in ("-h", "--help")]
    asked_for_help = len(plain) < len(arguments)
    try:
        first = options.parse(cls, [*plain, "--workdir", "."] if asked_for_help else plain, command)
        settings = load(first.config)
        default = cls(config=tyro.MISSING, workdir=tyro.MISSING, settings=settings)
    except ValueError:
        if not asked_for_help:
            raise
        default = None  # no readable CONFIG: the help shows the built-in defaults
    return options.parse(cls, ["--help"] if asked_for_help else arguments, command, default)


def shipped() -> Mapping[str, Path]:
    """The configurations that come with the package, by name.

    They lie in the package where it was installed, and beside it in a checkout.
    """
    package = Path(bahdanau_jax.__file__).parent
    for folder in (package / "configs", package.parent / "configs"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.py"))}
    return {}


def locate(name: str) -> Path:
    """The file that CONFIG means: a path, or, from anywhere, `quickstart`, `configs/quickstart.py`.

    Raises ValueError listing the shipped names.
    """
    path = Path(name)
    if path.is_file():
        return path
    known = shipped()
    by_name = path.parent in (Path(), Path("configs")) and path.suffix in ("", ".py")
    if by_name and path.stem in known:
        return known[path.stem]
    near = difflib.get_close_matches(path.stem, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ValueError(
        f"{name}: no such configuration file; {hint}shipped: {', '.join(known) or 'none'}"
    )


def load(name: str) -> Config:
    """Run a configuration file and take its `config`.

    Raises ValueError with file and line where the file itself fails, or with the field of a value
    of the wrong type.
    """
    path = locate(name)
    import_from_here()
    try:
        found = runpy.run_path(str(path)).get("config")
    except SyntaxError as error:
        raise ValueError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(sys.exc_info()[2])
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = lines[-1] if lines else 1
        raise ValueError(f"{path}:{line}: {_reason(error)}") from error
    if not isinstance(found, Config):
        got = "nothing" if found is None else f"a {type(found).__name__}"
        raise ValueError(
            f"{path} defines {got} of the name config; expected config = Config(...),"
            " with Config from bahdanau_jax.config"
        )
    try:
        return Config.from_json(found.to_json())  # where the types of all values are checked
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _reason(error: BaseException) -> str:
    """In one line; a misspelt field with what may have been meant."""
    message = " ".join(str(error).split())
    if wrong := UNKNOWN_FIELD.match(message):
        section, name = wrong.groups()
        fields = getattr(getattr(settings, section, None), "__dataclass_fields__", {})
        near = difflib.get_close_matches(name, fields, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(fields)}"
        return f"{section} has no field {name}; {hint}"
    return f"{type(error).__name__}: {message}"
