"""Folders: where the data lies, and those that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bahdanau_jax.config import DataConfig

UNFINISHED = ".unfinished-"


def roots(config: DataConfig) -> list[Path]:
    """The folders in which relative names of data are looked up, the first one first.

    `data.root` alone where it is set; else the folder of the environment's BAHDANAU_DATA, the
    current folder, and data/ in it.
    """
    if config.root:
        return [Path(config.root)]
    named = os.environ.get("BAHDANAU_DATA")
    return [*([Path(named)] if named else []), Path(), Path("data")]


def located(names: Sequence[str], config: DataConfig) -> list[Path]:
    """The files of one corpus, all from the first of `roots` that has every one of them.

    Raises FileNotFoundError that lists the folders tried, ValueError for what is there but is no
    file.
    """
    tried = [[root / name for name in names] for root in roots(config)]
    for paths in tried:
        if all(path.is_file() for path in paths):
            return paths
    # The folder that has most of them is the one that was meant.
    paths = max(tried, key=lambda paths: sum(path.exists() for path in paths))
    for path in paths:
        if path.exists() and not path.is_file():
            raise ValueError(
                f"{path} is {_kind(path)}, but a corpus should be a file, which is read several "
                "times"
            )
    missing = next(path for path in paths if not path.is_file())
    raise FileNotFoundError(f"no file {missing}{_where(names, config)}")


def _kind(path: Path) -> str:
    if path.is_dir():
        return "a folder"
    return "a pipe" if path.is_fifo() else "a device or socket"


def _where(names: Sequence[str], config: DataConfig) -> str:
    """What else was tried, and how to name another place."""
    if all(Path(name).is_absolute() for name in names):
        return ""
    if config.root:
        return " (--data.root is set, so relative names are looked up there alone)"
    folders = ", ".join(str(root.absolute()) for root in roots(config))
    return (
        f" (the files of a corpus are looked for in {folders}, and should all lie in one of these "
        "folders; --data.root or the environment variable BAHDANAU_DATA names another)"
    )


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
