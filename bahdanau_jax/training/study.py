"""A batch whose gradient was not finite, kept for whoever wants to know why."""

from pathlib import Path
from typing import Any

import numpy as np

from bahdanau_jax.batch import Batch


def save_batch(path: Path, batch: Batch) -> None:
    """The arrays of a batch by name, in NumPy's .npz."""
    arrays: dict[str, Any] = {name: np.asarray(x) for name, x in batch._asdict().items()}
    np.savez(path, **arrays)


def load_batch(path: Path) -> Batch:
    """What `save_batch` wrote.

    >>> step_fn(state, load_batch(Path("runs/quickstart/nonfinite-120.npz")))
    """
    with np.load(path) as arrays:
        return Batch(**{name: arrays[name] for name in Batch._fields})
