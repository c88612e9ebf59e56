"""JSON of untrusted files."""

import json
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
