"""JSON of files that anybody may have written."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """`json.loads`, which raises ValueError also for text that is nested too deeply to be read.

    >>> parse_json('{"step": 3}')
    {'step': 3}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
