"""What long work says while it goes on: which stage has begun, and how much of it is done.

The functions of the library say nothing unless they are given a `Reporter`. The command line gives
one that shows bars on a terminal, and lines elsewhere.
"""

import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol, TextIO


def say(text: str) -> None:
    """Write a line to stderr. Nothing happens where stderr is closed or cannot be written."""
    say_to(sys.stderr, text)


def say_to(stream: TextIO | None, text: str) -> None:
    """Likewise, to another stream. Python has None for a stream that was closed at its start."""
    if stream is not None:  # print would take stdout for None
        with suppress(OSError, ValueError):
            print(text, file=stream, flush=True)


def ignore(amount: int) -> None:
    """What is done is told to nobody."""


class Stage(Protocol):
    """A stage of the work that has begun. It ends when the next one begins."""

    def advance(self, amount: int = 1) -> None:
        """So much more of the total is done."""
        ...

    def describe(self, text: str) -> None:
        """What is at work now, in place of the stage's name."""
        ...


class Reporter(Protocol):
    """Whoever is told of stages and messages."""

    live: bool  # a bar is shown, so that lines about progress are not needed

    def stage(self, name: str, total: int | None = None, unit: str = "", done: int = 0) -> Stage:
        """Begin a stage, for example `stage("translating", 500, "lines")`; `done` of it before."""
        ...

    def note(self, text: str) -> None:
        """Show a message of one line."""
        ...

    def aside(self) -> AbstractContextManager[object]:
        """While it is open, nothing is drawn: results may go to the same terminal."""
        ...


class _Unseen:
    def advance(self, amount: int = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class Silent:
    """Says nothing."""

    live = False

    def stage(self, name: str, total: int | None = None, unit: str = "", done: int = 0) -> Stage:
        return _Unseen()

    def note(self, text: str) -> None:
        pass

    def aside(self) -> AbstractContextManager[object]:
        return nullcontext()


class Plain(Silent):
    """Says messages alone, as lines on stderr."""

    def note(self, text: str) -> None:
        say(text)


SILENT, PLAIN = Silent(), Plain()
