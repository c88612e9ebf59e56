"""Saves a batch whose gradient was not finite, so that the user can find out why."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bahdanau_jax.atomic import replaced_file
from bahdanau_jax.batch import Batch
from bahdanau_jax.distributed import is_distributed, process_index


def save_batch(folder: Path, step: int, batch: Batch) -> Path:
    """Save the arrays of a batch by name as NumPy's .npz; return the path. Raises OSError.

    Each process saves its own rows, because any row may be the cause.
    """
    suffix = f"-{process_index()}" if is_distributed() else ""
    path = folder / f"nonfinite-{step}{suffix}.npz"
    arrays: dict[str, Any] = {name: np.asarray(x) for name, x in batch._asdict().items()}
    with replaced_file(path) as draft:
        np.savez(draft, **arrays)
    return path


def load_batch(path: Path) -> Batch:
    """Read a batch that a run saved. Raises OSError, and ValueError for a file of other contents.

    >>> step_fn(state, load_batch(Path("runs/quickstart/nonfinite-120.npz")))
    """
    try:
        with np.load(path) as arrays:
            return Batch(**{name: arrays[name] for name in Batch._fields})
    except (ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no batch that a run saved") from error
