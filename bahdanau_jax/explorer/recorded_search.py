"""A search by the model in Python, recorded with all that the explorer shows of it."""

from typing import Any

from bahdanau_jax.trained import Run


def record(run: Run, line: str) -> dict[str, Any]:
    raise NotImplementedError
