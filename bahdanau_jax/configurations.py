"""Configuration files, shipped or the user's own: Python that defines `config = Config(...)`."""

import ast
import re
import runpy
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from bahdanau_jax import config as settings
from bahdanau_jax.config import Config
from bahdanau_jax.names import nearest, suggestion

# What Python says of ModelConfig(hiden_size=3).
UNKNOWN_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def shipped() -> Mapping[str, Path]:
    """The configurations that come with the package, by name.

    They lie in the package where it was installed, and beside it in a checkout.
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


def configuration(name: str) -> Config:
    """The Config of a configuration file, which is run, or of a shipped one by its name.

    >>> config = configuration("quickstart")
    >>> dataclasses.replace(config, training=dataclasses.replace(config.training, steps=200))

    Raises ValueError listing the shipped names where there is none, with file and line where the
    file itself fails, or with the field of a value of the wrong type.
    """
    path = locate(name)
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
