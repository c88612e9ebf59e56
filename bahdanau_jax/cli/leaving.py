"""How the process of a command ends after Ctrl-C or SIGTERM: at once, with one line.

A signal raises an exception in the main thread, so that files and worker processes are released on
the way out. Python runs a signal's handler only between two instructions of the main thread, which
may be inside the compiler for a minute. So another thread learns of each signal, too, and ends the
process where the exception has not done so.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import util
from types import FrameType
from typing import NoReturn

from bahdanau_jax.reporting import say, say_to

DEAF = ("_xla_gc_callback", "__del__")  # functions that Python itself calls
PATIENCE = 1.0  # seconds that the main thread has to release what it holds
SAVING = "bahdanau: saving; Ctrl-C again leaves at once"


class Terminated(BaseException):
    """SIGTERM, as an exception, so that drafts are removed and processes stopped on the way out."""


_lock = threading.Lock()  # one thread alone ends the process, and says so
_received: list[int] = []  # signals that `_receive` has handled
_cleanups: list[Callable[[], object]] = []


def watch() -> None:
    """From now on SIGINT and SIGTERM end this process. Call it once, in the main thread."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as in the background of a script
            signal.signal(number, _receive)


@contextlib.contextmanager
def cleanup(action: Callable[[], object]) -> Iterator[None]:
    """`action` also runs where the process ends before this block does."""
    _cleanups.append(action)
    try:
        yield
    finally:
        _cleanups.remove(action)


def received() -> int:
    """The signal that ends this process; 0 where none came."""
    return _received[0] if _received else 0


def _receive(number: int, frame: FrameType | None) -> None:
    """The first signal unwinds the main thread; `_watch` sees to it that no second is needed."""
    if _received:
        return
    while frame is not None:
        if frame.f_code.co_name in DEAF:  # an exception would be printed there, and forgotten
            threading.Timer(0.01, signal.raise_signal, (number,)).start()
            return
        frame = frame.f_back
    _received.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _watch(reading: int) -> None:
    """End the process where a signal has not ended it in time.

    Whoever has installed another handler, as training does to save, answers the signal itself; but
    for a second Ctrl-C. This thread says so, since the main thread may be inside the compiler.
    """
    interrupts = 0
    while numbers := os.read(reading, 64):
        for number in numbers:
            handler = signal.getsignal(number)
            if handler is signal.SIG_IGN:
                continue
            interrupts += number == signal.SIGINT
            if handler is _receive or interrupts > 1:
                time.sleep(PATIENCE)
                end(number)
            if number == signal.SIGINT:
                say(SAVING)


def end(number: int) -> NoReturn:
    """Leave with the exit code of a signal; Ctrl-C is said in one line."""
    with _lock:
        for action in (*reversed(_cleanups), _end_workers):
            with contextlib.suppress(Exception):
                action()
        if number == signal.SIGINT:
            say_to(sys.__stderr__, "bahdanau: interrupted")
        leave(128 + number)


def _end_workers() -> None:
    """Kill worker processes, and remove their semaphores, which Python would warn about."""
    for process in multiprocessing.active_children():
        process.kill()
    util._run_finalizers(0)  # pyright: ignore[reportAttributeAccessIssue]


def leave(code: int) -> NoReturn:
    """Leave without waiting, as JAX does at Python's end for processes, and Python for threads."""
    for stream in (sys.stdout, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    os._exit(code)
