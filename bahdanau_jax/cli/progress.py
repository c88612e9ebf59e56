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

PROMPT = 2.0  # seconds after which a stage is named if there is no terminal
WORTH_A_LINE = 2.0  # seconds after which a finished stage keeps a line on the terminal
WIDTH = 16  # columns of a bar
RESTORE = b"\r\x1b[2K\x1b[?25h"  # terminal codes for an empty line and a visible cursor


def wanted(option: bool | None, to_terminal: bool) -> bool:
    """Whether to show progress: the value of the option, if it is set.

    Otherwise progress is shown if stderr is a terminal and the output goes elsewhere.
    """
    return sys.stderr is not None and (
        option if option is not None else sys.stderr.isatty() and not to_terminal
    )


def on_terminal() -> bool:
    """Whether stderr is a terminal that can redraw a line."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def reporter(shown: bool = True, keep: bool = True, counts: bool = False) -> Iterator[Reporter]:
    """The reporter of a command.

    Args:
        shown: whether stages are shown.
        keep: whether each long stage keeps a line on the terminal.
        counts: whether each stage ends with a line if stderr is no terminal.
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
    """A line for each stage that lasts longer than PROMPT, without control characters."""

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
    """One line that is redrawn: the stage, its bar, the rate and the time left."""

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
            redirect_stdout=False,  # stdout is for results
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
        """End the current stage; a long stage keeps a line."""
        if self._current is None:
            return
        summary, seconds = self._current.summary()
        self._bars.remove_task(self._current.task)
        self._current = None
        if self._keep and seconds >= WORTH_A_LINE:
            self.note(summary)

    def close(self) -> None:
        self._bars.stop()


class _Counted:
    """A stage that measures its time and counts its work."""

    def __init__(self, name: str, unit: str):
        self._name, self._unit = name, unit
        self._began, self._done = time.monotonic(), 0

    def advance(self, amount: int = 1) -> None:
        self._done += amount

    def describe(self, text: str) -> None:
        pass

    def summary(self) -> tuple[str, float]:
        """A line about the stage, and its time in seconds."""
        seconds = time.monotonic() - self._began
        line = f"{self._name}: {seconds:,.0f} s"
        if self._unit and self._done:
            rate = self._done / max(seconds, 1e-3)
            line += f", {self._done:,} {self._unit}, {rate:,.1f} a second"
        return line, seconds


class _Shown(_Counted):
    """A stage with a line on the terminal."""

    def __init__(self, bars: Progress, task: TaskID, name: str, unit: str):
        super().__init__(name, unit)
        self._bars, self.task = bars, task

    # A thread may still report on a stage whose bar was removed because the next one began.

    def advance(self, amount: int = 1) -> None:
        super().advance(amount)
        with contextlib.suppress(KeyError):
            self._bars.advance(self.task, amount)

    def describe(self, text: str) -> None:
        with contextlib.suppress(KeyError):
            self._bars.update(self.task, description=text)


class _Bar(BarColumn):
    """A bar, which is empty for a stage without a total."""

    def render(self, task: Task):
        return Text("") if task.total is None else super().render(task)


class _Count(ProgressColumn):
    """The completed part, the rate, and the time left, or the elapsed time if that is unknown."""

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
    """A time in minutes and seconds.

    >>> _clock(75)
    '1:15'
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
