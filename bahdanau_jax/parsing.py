"""JSON: parsing of untrusted files, and values without NaN and infinity."""

import json
import math
from collections.abc import Mapping
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """`json.loads` that raises ValueError also for text with too many nested brackets.

    >>> parse_json('{"step": 3}')
    {'step': 3}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def json_text(value: Any) -> str:
    """JSON on one line, with null in place of NaN and infinity.

    >>> json_text({"a": [math.nan, "é"]})
    '{"a": [null, "é"]}'
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """The value with None in place of NaN and infinity, which JSON does not have.

    >>> finite({"a": [math.nan, 1.0]})
    {'a': [None, 1.0]}
    """
    if isinstance(value, Mapping):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, int | str) or value is None:
        return value
    return float(value) if math.isfinite(value) else None
