"""Stages of a command on stderr: bars on a terminal, and lines elsewhere."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.text import Text

from bahdanau_jax.cli import leaving
from bahdanau_jax.reporting import PLAIN, SILENT, Plain, Reporter, Stage

PROMPT = 2.0  # seconds after which a stage is named where there is no terminal
WORTH_A_LINE = 2.0  # seconds of a stage that leaves a line on the terminal
WIDTH = 16  # columns of a bar
RESTORE = b"\r\x1b[2K\x1b[?25h"  # an empty line and a visible cursor, for a terminal


def wanted(asked: bool | None, to_terminal: bool) -> bool:
    """Whether to show it: as asked; else where stderr is a terminal that the output is not on."""
    return sys.stderr is not None and (
        asked if asked is not None else sys.stderr.isatty() and not to_terminal
    )


def on_terminal() -> bool:
    """Whether stderr is a terminal that can draw a line again."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def reporter(shown: bool = True, keep: bool = True, counts: bool = False) -> Iterator[Reporter]:
    """Whoever shows the stages of a command.

    Args:
        shown: False: nothing is said of stages.
        keep: a line stays on the terminal for each stage that took long.
        counts: elsewhere, too, a line says at the end of a stage what was done.
    """
    if sys.stderr is None or not shown:
        yield SILENT if sys.stderr is None else PLAIN
        return
    stages = Bars(keep) if on_terminal() else Lines(counts)
    restore = (lambda: os.write(2, RESTORE)) if stages.live else stages.close
    with leaving.cleanup(restore):
        try:
            yield stages
            stages.finish()
        finally:
            stages.close()


class Lines(Plain):
    """A line for each stage that lasts a moment, without control characters."""

    def __init__(self, counts: bool):
        self._counts, self._current = counts, None
        self._timer = threading.Timer(0, lambda: None)

    def stage(self, name: str, total: int | None = None, unit: str = "", done: int = 0) -> Stage:
        self.finish()
        self._timer = threading.Timer(PROMPT, self.note, (f"{name} ...",))
        self._timer.daemon = True
        self._timer.start()
        self._current = _Counted(name, unit)
        return self._current

    def finish(self) -> None:
        """End the current stage."""
        self.close()
        if self._counts and self._current is not None:
            self.note(self._current.summary()[0])
        self._current = None

    def close(self) -> None:
        self._timer.cancel()


class Bars:
    """One line that is drawn again and again: the stage, its bar, the rate and the time left."""

    live = True

    def __init__(self, keep: bool):
        self._keep = keep
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _Bar(bar_width=WIDTH),
            _Count(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # results go to stdout, whatever is drawn on stderr
        )
        self._current: _Shown | None = None
        self._bars.start()

    def stage(self, name: str, total: int | None = None, unit: str = "", done: int = 0) -> Stage:
        self.finish()
        task = self._bars.add_task(name, total=total, completed=done, unit=unit)
        self._current = _Shown(self._bars, task, name, unit)
        return self._current

    def note(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()

    def finish(self) -> None:
        """End the current stage; one that took long leaves a line."""
        if self._current is None:
            return
        said, seconds = self._current.summary()
        self._bars.remove_task(self._current.task)
        self._current = None
        if self._keep and seconds >= WORTH_A_LINE:
            self.note(said)

    def close(self) -> None:
        self._bars.stop()


class _Counted:
    """A stage that knows how long it took, and how much was done in it."""

    def __init__(self, name: str, unit: str):
        self._name, self._unit = name, unit
        self._began, self._done = time.monotonic(), 0

    def advance(self, amount: int = 1) -> None:
        self._done += amount

    def describe(self, text: str) -> None:
        pass

    def summary(self) -> tuple[str, float]:
        """What is left to say of it, and the seconds that it took."""
        seconds = time.monotonic() - self._began
        said = f"{self._name}: {seconds:,.0f} s"
        if self._unit and self._done:
            rate = self._done / max(seconds, 1e-3)
            said += f", {self._done:,} {self._unit}, {rate:,.1f} a second"
        return said, seconds


class _Shown(_Counted):
    """A stage with a line on the terminal."""

    def __init__(self, bars: Progress, task: TaskID, name: str, unit: str):
        super().__init__(name, unit)
        self._bars, self.task = bars, task

    # A thread may still report on a stage after the next one began, whose bar is then gone.

    def advance(self, amount: int = 1) -> None:
        super().advance(amount)
        with contextlib.suppress(KeyError):
            self._bars.advance(self.task, amount)

    def describe(self, text: str) -> None:
        with contextlib.suppress(KeyError):
            self._bars.update(self.task, description=text)


class _Bar(BarColumn):
    """Nothing for a stage whose end is not known."""

    def render(self, task: Task):
        return Text("") if task.total is None else super().render(task)


class _Count(ProgressColumn):
    """How much is done, how fast, and the time left; or the time so far."""

    def render(self, task: Task) -> Text:
        done, unit = f"{task.completed:,.0f}", task.fields["unit"]
        parts = []
        if task.total is not None:
            parts.append(f"{done}/{task.total:,.0f} {unit}".strip())
        elif unit and task.completed:
            parts.append(f"{done} {unit}")
        if unit and task.speed:
            parts.append(f"{task.speed:,.1f}/s")
        if task.time_remaining is not None and task.speed and not task.finished:
            parts.append(f"{_clock(task.time_remaining)} left")
        else:
            parts.append(_clock(task.elapsed or 0))
        return Text(", ".join(parts))


def _clock(seconds: float) -> str:
    """
    >>> _clock(75)
    '1:15'
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
