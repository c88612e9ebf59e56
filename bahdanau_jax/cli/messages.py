"""Warnings of this package on the command line: `bahdanau: warning: ...` on stderr.

Programs that import the package keep the standard logging and warnings.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

from bahdanau_jax.reporting import say

PACKAGE = __name__.partition(".")[0]


def line(level: str, message: str) -> str:
    """A message in one line.

    >>> line("WARNING", "the checkpoint\\nis damaged")
    'bahdanau: warning: the checkpoint is damaged'
    """
    return f"bahdanau: {level.lower()}: {' '.join(message.split())}"


class Handler(logging.Handler):
    """A logging handler that writes to the current sys.stderr, a traceback below its message."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)  # sets exc_text
        message = line(record.levelname, record.getMessage())
        say("\n".join(filter(None, (message, record.exc_text))))


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """A context in which log records and warnings of the package become lines on stderr."""
    logger, handler, before = logging.getLogger(PACKAGE), Handler(), warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category.__module__.partition(".")[0] == PACKAGE:
            say(line("warning", str(message)))
        else:
            before(message, category, *where, **more)

    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate, warnings.showwarning = False, show
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate, warnings.showwarning = propagates, before
