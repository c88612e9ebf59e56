"""Ctrl-C and SIGTERM during training: the run is saved before it ends."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from bahdanau_jax.distributed import is_distributed, preempted

Result = TypeVar("Result")


class _Abandoned(BaseException):
    """A signal came while interruptible work ran."""


class Signals:
    """SIGINT and SIGTERM raise a flag instead; a second Ctrl-C goes to whoever was asked before."""

    def __init__(self):
        self.received = False
        self._can_abandon = False
        self._before: dict[int, Any] = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            if is_distributed():  # JAX waits for SIGTERM and tells the other processes
                hand_on = lambda number, frame: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
                self._before[signal.SIGINT] = signal.signal(signal.SIGINT, hand_on)
                return self
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._raise_flag)
        return self

    def at(self, step: int) -> bool:
        """Whether to stop before this step; the same on every process that asks at every step."""
        if is_distributed():
            return preempted(step)
        return self.received

    def unless_received(self, work: Callable[[], Result]) -> Result | None:
        """What `work` returns; None where a signal came before or meanwhile, and ended it."""
        try:  # the outer one is for a signal on the way out of the inner one
            try:
                self._can_abandon = True
                return None if self.received else work()
            finally:
                self._can_abandon = False
        except _Abandoned:
            return None

    def _raise_flag(self, number, frame) -> None:
        self.received = True
        signal.signal(signal.SIGINT, self._again)
        if self._can_abandon:
            self._can_abandon = False  # once: a further signal finds the flag raised
            raise _Abandoned

    def _again(self, number, frame) -> None:
        before = self._before[signal.SIGINT]
        (before if callable(before) else signal.default_int_handler)(number, frame)

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
