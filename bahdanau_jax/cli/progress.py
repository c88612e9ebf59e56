"""How far a long translation is, on stderr."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def wanted(asked: bool | None, to_terminal: bool) -> bool:
    """Whether to show it: as asked; else where stderr is a terminal that the output is not on."""
    return sys.stderr is not None and (
        asked if asked is not None else sys.stderr.isatty() and not to_terminal
    )


@contextlib.contextmanager
def counting(shown: bool) -> Iterator[Callable[[int], None]]:
    """A function to be told of lines that are done; the last count stays on the screen."""
    if not shown:
        yield lambda lines: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} lines, {task.fields[rate]} lines/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None, rate="?")

        def done(lines: int) -> None:
            bar.advance(task, lines)
            rate = bar.tasks[0].completed / max(bar.tasks[0].elapsed or 0, 1e-3)
            bar.update(task, rate=f"{rate:,.1f}")

        yield done
