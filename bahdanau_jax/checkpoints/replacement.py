"""A checkpoint that is saved again: the old one steps aside, and goes when the new one is whole."""

import shutil
from pathlib import Path

from bahdanau_jax.checkpoints.state_digest import Flat
from bahdanau_jax.distributed import barrier, is_main_process

REPLACED = "replaced-"  # before the step, in the name of a folder that stepped aside


def make_room(folder: Path, flat: Flat) -> None:
    """Raise OSError now, rather than when a part is written, where the disk is too full."""
    needed = sum(leaf.size * leaf.dtype.itemsize for leaf in flat.values())
    if not folder.exists():
        raise OSError(
            f"cannot keep checkpoints in {folder}: the folder is gone; "
            "put it back, or its disk, and start again"
        )
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"cannot keep checkpoints in {folder}: one needs {needed / 1e6:,.1f} MB, and "
            f"{free / 1e6:,.1f} MB are free; free some space or choose another folder"
        )


def rename(path: Path, new: Path) -> None:
    """Of a checkpoint's folder, by the first process; the others wait."""
    if is_main_process():
        shutil.rmtree(new, ignore_errors=True)
        path.rename(new)
    barrier()


def bring_back(folder: Path) -> None:
    """Checkpoints that were being replaced when the process died."""
    for aside in folder.glob(f"{REPLACED}*") if is_main_process() else ():
        whole = folder / aside.name.removeprefix(REPLACED)
        if whole.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(whole)
    barrier()


def forget(folder: Path) -> None:
    """All that stepped aside, once what replaced it is whole."""
    if is_main_process():
        for aside in folder.glob(f"{REPLACED}*"):
            shutil.rmtree(aside, ignore_errors=True)
