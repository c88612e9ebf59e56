"""Turns what Orbax raises and logs into exceptions of this package, of one line each."""

import contextlib
import errno
import gc
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from orbax import checkpoint

from bahdanau_jax.distributed import Lost, is_lost
from bahdanau_jax.user_errors import is_without_device

Value = TypeVar("Value")
ORBAX = Path(str(checkpoint.__file__)).parent
FULL = errno.ENOSPC, errno.EDQUOT
# Reasons why an intact checkpoint cannot be read: permission, open files, memory, a lost server.
ELSEWHERE = errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE


class Damaged(Exception):
    """A checkpoint cannot be read back as it was written. The message is the fault."""


def all_damaged(folder: Path) -> OSError:
    """The error of a folder without any intact checkpoint."""
    return OSError(
        f"every checkpoint in {folder} is damaged: restore the folder from a copy, or remove it to "
        "start again"
    )


def advice(error: Exception) -> str:
    """Tell the user what to do about an error. TensorStore gives its reason in the text only."""
    full = _has_number(error, FULL)
    return (
        "free some space or choose another folder" if full else "repair it or choose another folder"
    )


def _has_number(error: BaseException, numbers: Sequence[int]) -> bool:
    """Whether an error has one of these numbers, or its text their meaning."""
    text = str(error).lower()
    return getattr(error, "errno", None) in numbers or any(
        os.strerror(number).lower() in text for number in numbers
    )


def is_news(record: logging.LogRecord) -> bool:
    """Whether a log record is no error: the next `save` or `wait` raises the errors of Orbax."""
    return record.levelno < logging.ERROR


def is_of_others(record: logging.LogRecord) -> bool:
    """Whether a log record of asyncio is not about a file that Orbax failed to read.

    `reading` reports that error. The other tasks of the same read may end much later.
    """
    message = record.getMessage()
    return not ("exception was never retrieved" in message and "tensorstore" in message)


def hush() -> None:
    """Stop Orbax's threads from printing tracebacks of errors that a later call raises again."""
    logging.getLogger("absl").addFilter(is_news)
    logging.getLogger("asyncio").addFilter(is_of_others)
    if not isinstance(sys.unraisablehook, partial):
        sys.unraisablehook = partial(_unraisable, sys.unraisablehook)


def _unraisable(default: Callable, unraisable: Any) -> None:
    """Ignore errors of what nobody waits for: saves whose event loop is closed, and other reads.

    When one read of a file fails, Orbax leaves the others. Python ends those coroutines later.
    """
    code = getattr(unraisable.object, "cr_code", None)
    of_orbax = code is not None and Path(code.co_filename).is_relative_to(ORBAX)
    if not of_orbax and str(unraisable.exc_value) != "Event loop is closed":
        default(unraisable)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the long logs and warnings of errors that Orbax also raises."""
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


@contextlib.contextmanager
def on_disk(folder: Path, task: str) -> Iterator[None]:
    """Turn any failure of a folder of checkpoints into an error of one line: OSError or Lost."""
    try:
        with quiet():
            yield
    except (OSError, ValueError, RuntimeError) as error:
        if is_without_device(error):  # JAX looks for devices at the first use
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        message = f"cannot {task} checkpoints in {folder}: {reason}"
        if is_lost(error):
            raise Lost.while_running(message) from error
        raise OSError(f"{message}; {advice(error)}") from error


def reading(what: str, read: Callable[[], Value], folder: Path) -> Value:
    """Return `read()`, which reads the checkpoint `folder`.

    Whatever Orbax raises becomes Damaged, without its logs. Errors that say nothing about the
    checkpoint stay: missing memory, missing permission, too many open files, a lost file server.
    """
    with quiet():
        try:
            return read()
        except Exception as error:  # Orbax raises errors of almost any class
            reason, other = type(error).__name__, _error_of_machine(error, folder)
        gc.collect()  # while the warnings of unfinished tasks are suppressed
    raise other or Damaged(f"{what} cannot be read ({reason})")


def _error_of_machine(error: BaseException, folder: Path) -> Exception | None:
    """The error to raise where a checkpoint may be intact; None where it is damaged."""
    own = os.access in os.supports_effective_ids
    inside = (os.path.join(at, name) for at, *names in os.walk(folder) for name in sum(names, []))
    for path in (str(folder), *inside):
        if os.path.exists(path) and not os.access(path, os.R_OK, effective_ids=own):
            return PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    cause: BaseException | None = error
    while cause is not None:
        if _has_number(cause, ELSEWHERE):
            return OSError(f"{folder} cannot be read: {str(cause).splitlines()[0]}")
        if isinstance(cause, MemoryError) or "RESOURCE_EXHAUSTED" in str(cause):
            return MemoryError(str(cause))
        cause = cause.__cause__ or cause.__context__
    return None
