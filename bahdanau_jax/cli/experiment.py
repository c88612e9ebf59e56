"""The configuration that a command line names: a file, or one that is shipped, with overrides.

A configuration file is a Python file that defines `config = Config(...)`.
"""

import ast
import re
import runpy
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

import tyro

import bahdanau_jax
from bahdanau_jax import config as settings
from bahdanau_jax import splits
from bahdanau_jax.cli import import_from_here, manual, options
from bahdanau_jax.config import Config
from bahdanau_jax.names import nearest, suggestion

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
        if any(re.match(r"--data.train(=|$)", argument) for argument in plain):
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


def shipped() -> Mapping[str, Path]:
    """The configurations that come with the package, by name.

    They lie in the package where it was installed, and beside it in a checkout.
    """
    package = Path(bahdanau_jax.__file__).parent
    for folder in (package / "configs", package.parent / "configs"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.py"))}
    return {}


def title(path: Path) -> str:
    """The first line of a configuration file's docstring; "" where there is none."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].rstrip(".")


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
    hints = [suggestion(nearest(path.stem, known)), f"shipped: {', '.join(known) or 'none'}"]
    raise ValueError(f"{name}: no such configuration file; {' '.join(filter(None, hints))}")


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
        hint = suggestion(nearest(name, fields), f"known: {', '.join(fields)}")
        return f"{section} has no field {name}; {hint}"
    return f"{type(error).__name__}: {message}"
