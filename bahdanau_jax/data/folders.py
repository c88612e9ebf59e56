"""Folders: where the data lies, and those that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bahdanau_jax.config import DataConfig

UNFINISHED = ".unfinished-"


def data_root(config: DataConfig) -> Path:
    """Where relative names of data lie."""
    return Path(config.root or os.environ.get("BAHDANAU_DATA") or "data")


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of `folder` when the block ends without an error.

    What a killed process left beside it is removed: only one may write there at a time.

    >>> with replacing(Path("store")) as new:
    ...     (new / "source.npy").write_bytes(data)
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in folder.parent.glob(f"{UNFINISHED}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
    try:
        yield new
        new.chmod(0o755)  # mkdtemp's is private
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
