"""Ctrl-C and SIGTERM during training: the run is saved before it ends."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from bahdanau_jax.distributed import is_distributed, preempted

Result = TypeVar("Result")


class _Abandoned(BaseException):
    """A signal arrived during interruptible work."""


class Signals:
    """While it is open, SIGINT and SIGTERM set a flag. A second Ctrl-C goes to the old handler."""

    def __init__(self):
        self.received = False
        self._can_abandon = False
        self._before: dict[int, Any] = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            if is_distributed():  # JAX handles SIGTERM and tells the other processes
                forward = lambda number, frame: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
                handlers = {signal.SIGINT: forward}
            else:
                handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM), self._raise_flag)
            for number, handler in handlers.items():
                if signal.getsignal(number) is not signal.SIG_IGN:  # as of a job in the background
                    self._before[number] = signal.signal(number, handler)
        return self

    def at(self, step: int) -> bool:
        """Whether to stop before this step. All processes must ask, and get the same answer."""
        if is_distributed():
            return preempted(step)
        return self.received

    def unless_received(self, work: Callable[[], Result]) -> Result | None:
        """Return `work()`; None where a signal came before it, or ended it."""
        try:  # the outer `try` catches a signal during the inner `finally`
            try:
                self._can_abandon = True
                return None if self.received else work()
            finally:
                self._can_abandon = False
        except _Abandoned:
            return None

    def _raise_flag(self, number, frame) -> None:
        self.received = True
        if number == signal.SIGINT:  # another one leaves at once
            signal.signal(signal.SIGINT, self._again)
        if self._can_abandon:
            self._can_abandon = False  # abandon the work only once
            raise _Abandoned

    def _again(self, number, frame) -> None:
        before = self._before[signal.SIGINT]
        (before if callable(before) else signal.default_int_handler)(number, frame)

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
