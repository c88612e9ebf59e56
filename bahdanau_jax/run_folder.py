"""A run folder: the names of its files, whether it holds a run, and its lock.

One trainer at a time holds the lock. Readers can test whether it is held.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO

CONFIG = "config.json"
CHECKPOINTS = "checkpoints"
METRICS = "metrics.jsonl"
DEV_SCORE = "dev_score"  # in a line of METRICS; the highest one selects the best checkpoint
COMPILATIONS = "compilations.jsonl"
RECORD = "record.json"
VOCABULARY = "vocabulary"
STORE = "store"
EXPORTED = "model.safetensors"  # the weights in an exported folder, which is no run
TENSORBOARD = "tensorboard"
PROFILE = "profile"  # the folder of a trace
REPORT = "report"  # a folder, as in the folder of a sweep
SCORES = "scores.json"  # in REPORT
SAMPLES = "samples.jsonl"  # in REPORT: the translations of the test pairs
SWEEP = "sweep.json"  # in the folder of a sweep, whose runs have folders of their own
LOCK = ".lock"
ATTEMPTS, PAUSE_SECONDS = 3, 0.05  # `is_locked` in another process holds the lock briefly


def check_run(folder: Path) -> None:
    """Raise FileNotFoundError where a folder holds no run; a fast check before JAX is imported.

    Raises ValueError for an exported model, and as `check_text`.
    """
    check_text(folder)
    if (folder / EXPORTED).exists() and not (folder / CHECKPOINTS).exists():
        raise ValueError(
            f"{folder} is an exported model, not a run: make a run of it by bahdanau checkpoints "
            f"--run NEW --import {folder / EXPORTED}"
        )
    if not (folder / CONFIG).exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {CONFIG} in it")


def check_text(path: Path) -> None:
    """Raise ValueError where a path is no UTF-8, since Orbax and JSON need text."""
    try:
        os.path.realpath(path).encode()
    except UnicodeEncodeError:
        raise ValueError(f"the path {path} is no UTF-8: rename it, or choose another") from None


def split(given: Path) -> tuple[Path, str]:
    """Return the folder and the checkpoint of DIR@CHECKPOINT; without it, the best checkpoint.

    A path that exists is a folder, also with @ in its name.

    >>> split(Path("runs/quickstart@650")), split(Path("runs/quickstart"))
    ((PosixPath('runs/quickstart'), '650'), (PosixPath('runs/quickstart'), 'best'))
    """
    folder, _, checkpoint = str(given).rpartition("@")
    if "@" not in given.name or not folder or given.exists():
        return given, "best"
    return Path(folder), checkpoint


def names(folders: Sequence[Path]) -> list[str]:
    """Return the shortest end of each path that no other of the folders has.

    Raises ValueError where a folder is given twice.

    >>> names([Path("a/seed-1"), Path("b/seed-1"), Path("c")])
    ['a/seed-1', 'b/seed-1', 'c']
    """
    paths = [folder.absolute() for folder in folders]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise ValueError(f"the run {folders[number]} is given twice")
    return ends(paths)


def ends(paths: Sequence[Path]) -> list[str]:
    """Return the shortest end of each absolute path that no other path has; equal ones share it."""
    return [_shortest_end(path, {*paths} - {path}) for path in paths]


def _shortest_end(path: Path, others: Collection[Path]) -> str:
    ends = ("/".join(path.parts[-n:]) for n in range(1, len(path.parts)))
    unique = (end for end in ends if not any(f"{other}".endswith(f"/{end}") for other in others))
    return next(unique, str(path))


def check_can_hold_run(workdir: Path) -> None:
    """Raise ValueError in the folder of a sweep, and for checkpoints without their configuration.

    An import that was killed may leave a checkpoint of step 0.
    """
    if (workdir / SWEEP).exists():
        raise ValueError(f"{workdir} holds a sweep: choose another folder for a run")
    if not (workdir / CONFIG).exists() and any(steps_in(workdir / CHECKPOINTS)):
        raise ValueError(
            f"{workdir} has the checkpoints of a run, but no {CONFIG}: put it back, or choose "
            "another folder"
        )


def forget_import(workdir: Path) -> None:
    """Remove the weights of an import that was killed before it wrote the configuration."""
    if not (workdir / CONFIG).exists():
        shutil.rmtree(workdir / CHECKPOINTS / "0", ignore_errors=True)


def updates_made(workdir: Path) -> int:
    """The newest step in the names of checkpoint folders; -1 where there is no run."""
    if not (workdir / CONFIG).exists():
        return -1
    return max(steps_in(workdir / CHECKPOINTS), default=-1)


def steps_in(folder: Path) -> list[int]:
    """The steps in the names of a folder's checkpoints, sorted, whatever the checkpoints contain.

    Other names are left out. Without the folder there is no step.
    """
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def check(workdir: Path) -> None:
    """Raise an error where the path cannot be that of a run folder; create nothing.

    Raises OSError for a file, and for a path in a file. Raises ValueError for a path with "[",
    which Orbax takes for a pattern: it would save nothing. Raises it as `check_text`, too.
    """
    check_text(workdir)
    if "[" in os.path.realpath(workdir):
        raise ValueError(f"{workdir} has a [ in its path: choose another folder")
    nearest = next(each for each in (workdir, *workdir.parents) if os.path.lexists(each))
    if not nearest.is_dir():
        raise OSError(
            f"{workdir} cannot be a run folder ({nearest} is a file): choose another folder"
        )


@contextlib.contextmanager
def lock(workdir: Path) -> Iterator[None]:
    """Lock a folder for one trainer. The kernel releases the lock when the process dies.

    Raises OSError where another process trains there, and where the folder cannot be created or
    locked. Raises ValueError as `check`.
    """
    check(workdir)
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        lock_file = (workdir / LOCK).open("a+")
    except OSError as error:
        raise OSError(
            f"{workdir} cannot be a run folder ({error.strerror}): choose another folder"
        ) from error
    with lock_file as file:
        # A forked child would keep the lock after its parent's death.
        os.register_at_fork(after_in_child=file.close)
        try:
            _acquire(file)
        except BlockingIOError as error:
            file.seek(0)
            raise OSError(
                f"{workdir} is in use by another training run (process {file.read().strip()}): "
                "wait for it, stop it, or choose another folder"
            ) from error
        except OSError as error:
            raise OSError(
                f"{workdir} cannot be locked ({error.strerror}): choose a folder on a file system "
                "with locks (flock)"
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
    """Whether a process trains in the folder now; False where the lock cannot be read."""
    try:
        with (workdir / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
