"""A batch whose gradient was not finite, kept for whoever wants to know why."""

from pathlib import Path
from typing import Any

import numpy as np

from bahdanau_jax.batch import Batch
from bahdanau_jax.distributed import is_distributed, process_index


def save_batch(folder: Path, step: int, batch: Batch) -> Path:
    """The arrays of the batch of a step, by name, in NumPy's .npz, of which the path is returned.

    Of several processes each keeps the rows that it has, for any of them may be the one.
    """
    share = f"-{process_index()}" if is_distributed() else ""
    path = folder / f"nonfinite-{step}{share}.npz"
    arrays: dict[str, Any] = {name: np.asarray(x) for name, x in batch._asdict().items()}
    np.savez(path, **arrays)
    return path


def load_batch(path: Path) -> Batch:
    """What `save_batch` wrote.

    >>> step_fn(state, load_batch(Path("runs/quickstart/nonfinite-120.npz")))
    """
    with np.load(path) as arrays:
        return Batch(**{name: arrays[name] for name in Batch._fields})
