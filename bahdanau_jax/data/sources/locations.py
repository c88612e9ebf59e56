"""The folders in which the files of a corpus are looked up."""

import os
from collections.abc import Sequence
from pathlib import Path

from bahdanau_jax.config import DataConfig


def roots(config: DataConfig) -> list[Path]:
    """The folders in which relative names of data are looked up, in their order.

    If `data.root` is set, it is the only one. Otherwise they are the folder of the environment's
    BAHDANAU_DATA, the current folder, and data/ in it.
    """
    if config.root:
        return [Path(config.root)]
    shared = os.environ.get("BAHDANAU_DATA")
    return [*([Path(shared)] if shared else []), Path(), Path("data")]


def located(names: Sequence[str], config: DataConfig) -> list[Path]:
    """The files of one corpus, all in the first of `roots` that has every one of them.

    Raises FileNotFoundError that lists the folders tried, ValueError for a path that is no file.
    """
    tried = [[root / name for name in names] for root in roots(config)]
    for paths in tried:
        if all(path.is_file() for path in paths):
            return paths
    # The error is about the folder that has most of the files.
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
    """The folders that were tried, and the way to name another one."""
    if all(Path(name).is_absolute() for name in names):
        return ""
    if config.root:
        return " (data.root is set, so relative names are looked up there alone)"
    folders = ", ".join(str(root.absolute()) for root in roots(config))
    return (
        f" (the files of a corpus are looked for in {folders}, and should all lie in one of these "
        "folders; data.root or the environment variable BAHDANAU_DATA names another)"
    )
