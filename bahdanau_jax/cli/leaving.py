"""The end of a command's process after Ctrl-C or SIGTERM: at once, with one line.

A signal raises an exception in the main thread, which releases files and worker processes. Python
runs a signal's handler only between two instructions of the main thread, which may be inside the
compiler for a minute. Therefore another thread receives each signal too, and ends the process if
the exception has not ended it.
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

DEAF = ("_xla_gc_callback", "__del__")  # functions in which Python ignores exceptions
PATIENCE = 1.0  # seconds that the main thread has to release files and processes
SAVING = "bahdanau: saving; Ctrl-C again leaves at once"


class Terminated(BaseException):
    """SIGTERM as an exception, whose handling removes drafts and stops processes."""


_lock = threading.Lock()  # only one thread ends the process
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
    """A context in which `action` runs if the process ends."""
    _cleanups.append(action)
    try:
        yield
    finally:
        _cleanups.remove(action)


def received() -> int:
    """The signal that ends this process; 0 if there is none."""
    return _received[0] if _received else 0


def _receive(number: int, frame: FrameType | None) -> None:
    """Raise an exception for the first signal; `_watch` ends the process if that is not enough."""
    if _received:
        return
    while frame is not None:
        if frame.f_code.co_name in DEAF:  # try again later
            threading.Timer(0.01, signal.raise_signal, (number,)).start()
            return
        frame = frame.f_back
    _received.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _watch(reading: int) -> None:
    """End the process if a signal has not ended it in time.

    If another handler is installed, as in training, it answers the signal, and only a second Ctrl-C
    ends the process. This thread writes the handler's `message`, or else the line SAVING, because
    the main thread may be busy.
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
                say(getattr(handler, "message", SAVING))


def end(number: int) -> NoReturn:
    """Clean up and exit with the code of a signal; write a line for Ctrl-C."""
    with _lock:
        for action in (*reversed(_cleanups), _end_workers):
            with contextlib.suppress(Exception):
                action()
        if number == signal.SIGINT:
            say_to(sys.__stderr__, "bahdanau: interrupted")
        leave(128 + number)


def _end_workers() -> None:
    """Kill worker processes and remove their semaphores, about which Python would warn."""
    for process in multiprocessing.active_children():
        process.kill()
    util._run_finalizers(0)  # pyright: ignore[reportAttributeAccessIssue]


def leave(code: int) -> NoReturn:
    """Exit without waiting for threads, and for processes as JAX does at Python's exit."""
    for stream in (sys.stdout, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    os._exit(code)
