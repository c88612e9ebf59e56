"""A batch whose gradient was not finite, kept for whoever wants to know why."""

from pathlib import Path

import numpy as np

from bahdanau_jax.batch import Batch


def save_batch(path: Path, batch: Batch) -> None:
    """The arrays of a batch by name, in NumPy's .npz."""
    np.savez(path, **{name: np.asarray(array) for name, array in batch._asdict().items()})


def load_batch(path: Path) -> Batch:
    """What `save_batch` wrote.

    >>> step_fn(state, load_batch(Path("runs/quickstart/nonfinite-120.npz")))
    """
    with np.load(path) as arrays:
        return Batch(**{name: arrays[name] for name in Batch._fields})
