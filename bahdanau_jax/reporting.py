"""Progress of long work: the stage that has begun, and its completed part.

Functions of the library report to a `Reporter` if the caller passes one. The command line passes
one that shows bars on a terminal, and lines elsewhere.
"""

import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol, TextIO


def say(text: str) -> None:
    """Write a line to stderr, if it is open and writable."""
    say_to(sys.stderr, text)


def say_to(stream: TextIO | None, text: str) -> None:
    """Write a line to a stream, if it is open and writable; None is a closed stream."""
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.write(f"{text}\n")  # one call, so that no other thread writes inside the line
            stream.flush()


def duration(seconds: float) -> str:
    """Seconds in hours and minutes, or in minutes and seconds.

    >>> duration(158.6), duration(9000)
    ('2 min 39 s', '2 h 30 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def ignore(amount: int) -> None:
    """A callback for progress that does nothing."""


class Stage(Protocol):
    """A stage of the work that has begun. It ends when the next one begins."""

    def advance(self, amount: int = 1) -> None:
        """Add to the completed part of the total."""
        ...

    def describe(self, text: str) -> None:
        """Show a text instead of the stage's name."""
        ...


class Reporter(Protocol):
    """A receiver of stages and messages."""

    live: bool  # whether it shows a bar, which makes lines about progress unnecessary

    def stage(self, name: str, total: int | None = None, unit: str = "", done: int = 0) -> Stage:
        """Begin a stage, such as `stage("translating", 500, "lines")`, with `done` lines done."""
        ...

    def note(self, text: str) -> None:
        """Show a message of one line."""
        ...

    def aside(self) -> AbstractContextManager[object]:
        """A context without bars, in which results can be written to the same terminal."""
        ...


class _Unseen:
    def advance(self, amount: int = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class Silent:
    """A reporter that shows nothing."""

    live = False

    def stage(self, name: str, total: int | None = None, unit: str = "", done: int = 0) -> Stage:
        return _Unseen()

    def note(self, text: str) -> None:
        pass

    def aside(self) -> AbstractContextManager[object]:
        return nullcontext()


class Plain(Silent):
    """A reporter that shows only messages, as lines on stderr."""

    def note(self, text: str) -> None:
        say(text)


class Prefixed(Plain):
    """A reporter that shows only messages, as lines that begin with a name."""

    def __init__(self, name: str):
        self.name = name

    def note(self, text: str) -> None:
        say(f"{self.name}: {text}")


SILENT, PLAIN = Silent(), Plain()
