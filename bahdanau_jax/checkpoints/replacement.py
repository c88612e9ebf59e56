"""Replaces a checkpoint: the old one is renamed, and removed when the new one is complete.

Also removes one, such that no reader finds half of it.
"""

import itertools
import shutil
from pathlib import Path

from bahdanau_jax.checkpoints.state_digest import Flat
from bahdanau_jax.distributed import barrier, is_main_process

REPLACED = "replaced-"  # the prefix of the step in the name of a folder that is being replaced
PRUNED = "pruned-"  # the prefix of the step in the name of a folder that is being removed


def check_space(folder: Path, flat: Flat) -> None:
    """Raise OSError where the disk has too little space for these arrays, or the folder is gone."""
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
    """Rename the folder of a checkpoint on the main process, while the others wait."""
    if is_main_process():
        shutil.rmtree(new, ignore_errors=True)
        path.rename(new)
    barrier()


def unused(folder: Path, name: str) -> str:
    """`name`, or the first of `name`-2, `name`-3 and so on that the folder does not have."""
    names = itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))
    return next(each for each in names if not (folder / each).exists())


def nothing_in(folder: Path) -> FileNotFoundError:
    """The error of a folder without checkpoints, which may have one that was being replaced."""
    if aside := sorted(path.name for path in folder.glob(f"{REPLACED}*")):
        return FileNotFoundError(
            f"{folder} holds only {aside[0]}, since the last save was interrupted: start the "
            "training again, which restores it"
        )
    return FileNotFoundError(f"{folder} is empty: train the run first")


def bring_back(folder: Path) -> None:
    """Restore the checkpoints that were being replaced when a process died.

    The rest of those that were being removed is removed.
    """
    if is_main_process():
        remove_unfinished(folder)
    for aside in folder.glob(f"{REPLACED}*") if is_main_process() else ():
        new = folder / aside.name.removeprefix(REPLACED)
        if new.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(new)
    barrier()


def forget(folder: Path) -> None:
    """Remove the checkpoints that were replaced, once the new ones are complete."""
    if is_main_process():
        for aside in folder.glob(f"{REPLACED}*"):
            shutil.rmtree(aside, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove the folder of a checkpoint on the main process; the name disappears at once.

    What a reader still holds on a network disk stays, until `remove_unfinished` removes it.
    """
    if is_main_process():
        pruned = path.with_name(unused(path.parent, f"{PRUNED}{path.name}"))
        path.rename(pruned)
        shutil.rmtree(pruned, ignore_errors=True)
    barrier()


def remove_unfinished(folder: Path) -> None:
    """Remove what is left of checkpoints that were being removed when a process died."""
    for pruned in folder.glob(f"{PRUNED}*"):
        shutil.rmtree(pruned, ignore_errors=True)
