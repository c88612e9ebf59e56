"""A run folder: the names of what it holds, whether it holds a run at all, and its lock.

One trainer at a time holds the lock, and readers can see whether there is one.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

CONFIG = "config.json"
CHECKPOINTS = "checkpoints"
METRICS = "metrics.jsonl"
COMPILATIONS = "compilations.jsonl"
RECORD = "record.json"
LOCK = ".lock"
ATTEMPTS, PAUSE_SECONDS = 3, 0.05  # `is_locked` of another process holds the lock for a moment


def require(folder: Path) -> None:
    """Raise FileNotFoundError where a folder holds no run. Commands ask before they import JAX."""
    if not (folder / CONFIG).exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {CONFIG} in it")


@contextlib.contextmanager
def lock(workdir: Path) -> Iterator[None]:
    """Hold a folder for one trainer. The kernel lets go when the process dies, however it dies.

    Raises OSError where another process trains there, or where there can be no such folder.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        opened = (workdir / LOCK).open("a+")
    except OSError as error:
        raise OSError(
            f"{workdir} cannot be a run folder ({error.strerror}): choose another folder"
        ) from error
    with opened as file:
        # A forked child would hold the lock beyond its parent's death.
        os.register_at_fork(after_in_child=file.close)
        try:
            _acquire(file)
        except BlockingIOError as error:
            file.seek(0)
            raise OSError(
                f"{workdir} is in use by another training run (process {file.read().strip()}): "
                "wait for it, stop it, or choose another folder"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _acquire(file: IO[str]) -> None:
    for attempt in range(ATTEMPTS):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(PAUSE_SECONDS)


def is_locked(workdir: Path) -> bool:
    """Whether a process trains in the folder now. False where that cannot be found out."""
    try:
        with (workdir / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
