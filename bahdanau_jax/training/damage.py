"""What Orbax raises and logs where a checkpoint cannot be read or written, made one exception."""

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

Value = TypeVar("Value")


class Damaged(Exception):
    """A checkpoint that cannot be read back as it was written; the message says what is wrong."""


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


@contextmanager
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
