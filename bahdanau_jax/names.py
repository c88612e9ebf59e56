"""Names that users write: the value of a table or of a module, and what a misspelt one may mean."""

import difflib
import importlib
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")


def choose(table: Mapping[str, Value], name: str, what: str) -> Value:
    """`table[name]`, or a ValueError with all known names and the nearest one.

    >>> choose({"moses": 1, "none": 2}, "mose", "data.tokenizer")
    ValueError: no data.tokenizer 'mose'; known: moses, none (did you mean 'moses'?)
    """
    if name in table:
        return table[name]
    near = suggestion([repr(each) for each in nearest(name, table)])
    hint = f" ({near})" if near else ""
    raise ValueError(f"no {what} {name!r}; known: {', '.join(sorted(table))}{hint}")


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are spelt most like this one, the nearest first; none where none is.

    >>> nearest("trian", ["train", "translate"])
    ['train']
    """
    return difflib.get_close_matches(name, list(known), n=most)


def suggestion(names: Sequence[str], otherwise: str = "") -> str:
    """The question whether one of these names was meant; `otherwise` where there are none.

    >>> suggestion(["train"]), suggestion([], "see --help")
    ('did you mean train?', 'see --help')
    """
    return f"did you mean {' or '.join(names)}?" if names else otherwise


def is_code(name: str) -> bool:
    """Whether a name is `module:attribute`, which names code of the user's own."""
    return ":" in name


def imported(name: str, field: str) -> Any:
    """What `module:attribute` names; the module is imported, and so runs.

    Raises ValueError, in one line with the setting's name, where there is no such module or
    attribute, or where the module fails.

    >>> imported("math:pi", "model.attention")
    3.141592653589793
    """
    module, attribute = name.split(":", 1)
    if not module or not attribute:
        raise ValueError(f"{field} is {name!r}; expected module:attribute, such as my_code:mine")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:
        why = reason(error, module)
        raise ValueError(f"{field} is {name!r}, but {why}") from error


def reason(error: BaseException, module: str) -> str:
    """An exception in one line: its kind, its message, and the last line of the module it left.

    >>> reason(error, "my_scores")
    'ZeroDivisionError: division by zero (/home/me/my_scores.py:12)'
    """
    message = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    message = f"{type(error).__name__}: {message}".removesuffix(": ")
    if isinstance(error, SyntaxError):
        return f"{message} ({error.filename}:{error.lineno})"
    spec = getattr(sys.modules.get(module), "__file__", None) or f"{module.replace('.', '/')}.py"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename.endswith(spec)]
    return f"{message} ({inside[-1].filename}:{inside[-1].lineno})" if inside else message
