"""What Orbax raises and logs where a checkpoint cannot be read or written, made one exception."""

import contextlib
import errno
import gc
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from orbax.checkpoint import v1 as orbax

from bahdanau_jax.distributed import holds_everywhere

Value = TypeVar("Value")
FULL = errno.ENOSPC, errno.EDQUOT


class Damaged(Exception):
    """A checkpoint that cannot be read back as it was written; the message says what is wrong."""


def advice(error: Exception) -> str:
    """What to do about it. TensorStore tells the reason in words alone."""
    full = any(os.strerror(number).lower() in str(error).lower() for number in FULL)
    return (
        "free some space or choose another folder" if full else "mend it or choose another folder"
    )


def is_news(record: logging.LogRecord) -> bool:
    """Not so the tracebacks that Orbax's threads log: the error comes out of the next `save` or
    `wait` as well.
    """
    return record.levelno < logging.ERROR


def hush() -> None:
    """Keep off stderr what Orbax's threads say of a failure that also comes out of a call."""
    logging.getLogger("absl").addFilter(is_news)
    if not isinstance(sys.unraisablehook, partial):
        sys.unraisablehook = partial(_unraisable, sys.unraisablehook)


def _unraisable(before: Callable, stray: Any) -> None:
    """Threads that answer to a save that was given up find its loop closed."""
    if str(stray.exc_value) != "Event loop is closed":
        before(stray)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the pages that Orbax logs of an error that it also raises."""
    levels = {logger: logger.level for logger in map(logging.getLogger, ("absl", "asyncio"))}
    try:
        for logger in levels:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def reading(what: str, read: Callable[[], Value]) -> Value:
    """`read()`; whatever Orbax raises becomes Damaged, and the pages that it logs are dropped."""
    with quiet():
        try:
            return read()
        except Exception as error:  # by the kind of damage, Orbax raises almost anything
            reason = type(error).__name__
        gc.collect()  # here, where the complaints of its unfinished tasks are not heard
    raise Damaged(f"{what} cannot be read ({reason})")


class ReadableSteps:
    """Orbax's standard names of checkpoint folders, without those whose metadata it cannot read.

    Otherwise one such folder shuts all the others: Orbax reads the times of all when it begins.
    """

    def __init__(self):
        self._names = orbax.path.step.standard_name_format()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._names, name)

    def find_all(self, base_path: Any) -> Iterator[Any]:
        for step in steps_in(Path(base_path)):
            with contextlib.suppress(Damaged):
                found = reading("it", lambda step=step: self._names.find_step(base_path, step))
                if found.commit_timestamp is not None:
                    yield found


def steps_in(folder: Path) -> list[int]:
    """The steps that folders are named after, whatever is in them."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def read_by_all(read: Callable[[], Value]) -> Value:
    """`read()` on every process: where one finds damage, all of them raise Damaged."""
    value, fault = None, None
    try:
        value = read()
    except Damaged as error:
        fault = error
    if not holds_everywhere(fault is None):
        raise fault or Damaged("another process cannot read it")
    return value  # pyright: ignore[reportReturnType]
