"""Configuration files, shipped ones and the user's own: Python that sets `config = Config(...)`.

The config.json of a run folder is one, too.
"""

import ast
import operator
import re
import runpy
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from bahdanau_jax import config as settings
from bahdanau_jax.config import Config
from bahdanau_jax.names import did_you_mean
from bahdanau_jax.user_code import CODE, is_code

# Python's message for ModelConfig(hiden_size=3).
UNKNOWN_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def shipped() -> Mapping[str, Path]:
    """The files of the shipped configurations by name.

    An installed package contains the folder; in a checkout the folder is beside the package.
    """
    package = Path(__file__).parent
    for folder in (package / "configs", package.parent / "configs"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.py"))}
    return {}


def title(path: Path) -> str:
    """The first line of a configuration file's docstring; "" where there is none."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].rstrip(".")


def locate(name: str) -> Path:
    """The file of a configuration: `name` is a path or, in any folder, the name of a shipped one.

    `quickstart`, `quickstart.py` and `configs/quickstart.py` name the same shipped file. Raises
    ValueError that lists the shipped names where there is no such file.
    """
    path = Path(name)
    if path.is_file():
        return path
    known = shipped()
    by_name = path.parent in (Path(), Path("configs")) and path.suffix in ("", ".py")
    if by_name and path.stem in known:
        return known[path.stem]
    hints = [did_you_mean(path.stem, known), f"shipped: {', '.join(known) or 'none'}"]
    raise ValueError(f"{name}: no such configuration file; {' '.join(filter(None, hints))}")


def configuration(name: str) -> Config:
    """Run a configuration file, or a shipped one by its name, and return its Config.

    >>> config = configuration("quickstart")
    >>> dataclasses.replace(config, training=dataclasses.replace(config.training, steps=200))

    A .json file is the config.json of a run, whose settings a new run is to have. It may not name
    code.

    Raises ValueError: for an unknown name, with the shipped names; for a file that fails, with file
    and line; for a value of the wrong type, with its field.
    """
    path = locate(name)
    if path.suffix == ".json":
        config = Config.load(path)
        if code := [*filter(is_code, operator.attrgetter(*CODE)(config))]:
            raise ValueError(f"{path} names code, {code[0]!r}: name it in a Python file instead")
        return config.with_vocabularies(0, 0)  # which are those of its text
    try:
        config = runpy.run_path(str(path)).get("config")
    except SyntaxError as error:
        raise ValueError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(sys.exc_info()[2])
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = lines[-1] if lines else 1
        raise ValueError(f"{path}:{line}: {_reason(error)}") from error
    if not isinstance(config, Config):
        kind = "nothing" if config is None else f"a {type(config).__name__}"
        raise ValueError(
            f"{path} defines {kind} of the name config; expected config = Config(...),"
            " with Config from bahdanau_jax.config"
        )
    try:
        return Config.from_json(config.to_json())  # from_json checks the types of all values
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _reason(error: BaseException) -> str:
    """The message of an error in one line, with a suggestion for a misspelt field."""
    message = " ".join(str(error).split())
    if wrong := UNKNOWN_FIELD.match(message):
        section, name = wrong.groups()
        fields = getattr(getattr(settings, section, None), "__dataclass_fields__", {})
        hint = did_you_mean(name, fields, f"known: {', '.join(fields)}")
        return f"{section} has no field {name}; {hint}"
    return f"{type(error).__name__}: {message}"
