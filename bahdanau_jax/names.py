"""Names that users write: look-up in a table or a module, and suggestions for unknown ones."""

import difflib
import importlib
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")


def choose(table: Mapping[str, Value], name: str, what: str, others: str = "") -> Value:
    """Return `table[name]`, or raise a ValueError with all known names and the nearest one.

    `others` describes further values that are allowed, and ends the list of known names.

    >>> choose({"moses": 1, "none": 2}, "mose", "data.tokenizer")
    ValueError: no data.tokenizer 'mose'; known: moses, none (did you mean 'moses'?)
    """
    if not isinstance(name, str):
        raise ValueError(f"{what} should be a name, not {name!r}")
    if name in table:
        return table[name]
    question = did_you_mean(name, table, quote=True)
    hint = f" ({question})" if question else ""
    known = ", ".join([*sorted(table), *([f"or {others}"] if others else [])])
    raise ValueError(f"no {what} {name!r}; known: {known}{hint}")


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names with a similar spelling, at most `most`, the nearest first.

    >>> nearest("trian", ["train", "translate"])
    ['train']
    """
    return difflib.get_close_matches(name, list(known), n=most)


def did_you_mean(
    name: str,
    known: Iterable[str],
    otherwise: str = "",
    find: Callable[[str, list[str]], Sequence[str]] = nearest,
    quote: bool = False,
) -> str:
    """Ask whether one of the known names was meant by an unknown one; else return `otherwise`.

    `find` takes the unknown name and the known ones, and returns the candidates.

    >>> did_you_mean("trian", ["train"]), did_you_mean("x", ["train"], "see --help")
    ('did you mean train?', 'see --help')
    """
    candidates = find(name, list(known))
    if not candidates:
        return otherwise
    return f"did you mean {' or '.join(map(repr, candidates) if quote else candidates)}?"


# Settings that may name code of the user's own, as module:attribute.
CODE = ("model.attention", "optimizer.name")


def is_code(name: str) -> bool:
    """Whether a name has the form `module:attribute`, which refers to the user's own code."""
    return ":" in name


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
