"""Code of the user's own, which settings name as `module:attribute`."""

import importlib
import operator
import os
import sys
import traceback
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from bahdanau_jax.config import Config

# Settings that may name code of the user's own, as module:attribute.
CODE = ("model.attention", "optimizer.name")


def is_code(name: str) -> bool:
    """Whether a name has the form `module:attribute`, which refers to the user's own code."""
    return ":" in name


def refuse_code(config: Config, origin: Path, trust_code: bool) -> None:
    """Raise ValueError where a configuration names code that the user does not trust.

    Call it for every configuration that was read from a file, `origin`, because another person may
    have written it. Call it before `check`, which imports the code.
    """
    for field in () if trust_code else CODE:
        value = operator.attrgetter(field)(config)
        if is_code(value):
            file = module_file(value.partition(":")[0])
            effect = f"would run {file}" if file else "is not found here"
            raise ValueError(
                f"{origin} names code: {field} is {value[:200]!r}, which {effect}; if you trust "
                "that code, add --trust-code True, or in Python trust_code=True"
            )


def module_file(name: str) -> str | None:
    """The file of a module, found without running any code of it or of its packages.

    The search path is Python's, then the current folder. Returns None where there is no such file.

    >>> module_file("json.decoder")
    '/usr/lib/python3.11/json/decoder.py'
    """
    folders, parts, spec = None, name.split("."), None
    for depth in range(1, len(parts) + 1):
        try:
            spec = _spec(".".join(parts[:depth]), folders)
            folders = list(spec.submodule_search_locations or ()) if spec else []
        except KeyError:  # a folder without __init__.py in a package that is not imported
            spec = ModuleSpec(name, None, is_package=True)
            folders = [os.path.join(folder, parts[depth - 1]) for folder in folders or ()]
        except (ImportError, ValueError, AttributeError, TypeError, OSError):
            return None
        if spec is None:
            return None
    return spec.origin or name if spec else None


def _spec(name: str, folders: list[str] | None) -> ModuleSpec | None:
    """The spec of a module by Python's finders. `folders` are those of its package."""
    for finder in sys.meta_path:
        if spec := finder.find_spec(name, folders):
            return spec
    return PathFinder.find_spec(name, [os.getcwd()]) if folders is None else None


def imported(name: str, field: str) -> Any:
    """Import the module of `module:attribute` and return the attribute.

    Raises ValueError, in one line that names the setting `field`, for a module or attribute that
    does not exist, and for a module that fails.

    >>> imported("math:pi", "model.attention")
    3.141592653589793
    """
    module, attribute = name.split(":", 1)
    if not module or not attribute:
        raise ValueError(f"{field} is {name!r}; expected module:attribute, such as my_code:mine")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{field} is {name!r}, but {reason(error, module)}") from error


def reason(error: BaseException, module: str) -> str:
    """Describe an exception in one line: class, message, and the last line run in `module`.

    >>> reason(error, "my_scores")
    'ZeroDivisionError: division by zero (/home/me/my_scores.py:12)'
    """
    message = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    message = f"{type(error).__name__}: {message}".removesuffix(": ")
    if isinstance(error, SyntaxError):
        return f"{message} ({error.filename}:{error.lineno})"
    file = getattr(sys.modules.get(module), "__file__", None) or f"{module.replace('.', '/')}.py"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename.endswith(file)]
    return f"{message} ({inside[-1].filename}:{inside[-1].lineno})" if inside else message
