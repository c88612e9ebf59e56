"""Trains and scores cells of a sweep at the same time, each in a process with a share of the cores.

A small model does not keep many cores busy. Several processes do, also while they compile and
score.
"""

import contextlib
import logging
import os
import re
import signal
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.data import ends_with_parent
from bahdanau_jax.experiments.cell_runs import CellOutcome, CellRuns
from bahdanau_jax.reporting import SILENT, Plain, Prefixed, Reporter
from bahdanau_jax.training import Interrupted, Signals

POLL = 0.2  # seconds between two looks at the signals


class _Message(NamedTuple):
    """A log record of a cell's process, which the process of the sweep handles."""

    logger: str
    level: int
    text: str
    traceback: str | None

    def log(self) -> None:
        logger = logging.getLogger(self.logger)
        if logger.isEnabledFor(self.level):
            record = logger.makeRecord(self.logger, self.level, "", 0, "%s", (self.text,), None)
            record.exc_text = self.traceback
            logger.handle(record)


class _Working(NamedTuple):
    name: str
    cores: list[int]
    pool: Any  # loky's ProcessPoolExecutor of one process


def outcomes(
    cells: Mapping[str, CellRuns],
    vmapped: bool | None,
    processes: int,
    workdir: Path,
    reporter: Reporter,
) -> Generator[tuple[str, CellOutcome], None, None]:
    """Train and score the cells in this number of processes; yield each cell when it has ended.

    A process that dies, or that a signal stops, loses its own cell only: the runs that have scores
    keep them, and the others have failed. Ctrl-C and SIGTERM save all trainings and raise
    `training.Interrupted`; closing the generator saves them too. `vmapped`: see `sweep`.
    """
    processes = min(processes, len(cells))
    waiting, free = [*cells], _shares(processes)
    working: dict[Future, _Working] = {}
    told = False
    stage = reporter.stage("training and scoring the cells", len(cells), "cells")
    shows_notes = isinstance(reporter, Plain)
    with Signals() as signals, contextlib.ExitStack() as pools:
        while working or (waiting and not signals.received):
            while waiting and free and not signals.received:
                reporter.note(f"cell {len(cells) - len(waiting) + 1} of {len(cells)}: {waiting[0]}")
                name, cores = waiting.pop(0), free.pop(0)
                cells[name].reporter = Prefixed(name) if shows_notes else SILENT
                pool = pools.enter_context(_pool())
                with _without_ctrl_c():
                    future = pool.submit(_work, cells[name], vmapped, cores)
                working[future] = _Working(name, cores, pool)
            for future in wait(working, POLL, FIRST_COMPLETED).done:
                name, cores, pool = working.pop(future)
                pool.shutdown()
                free.append(cores)
                if signals.received:
                    continue
                stage.advance()
                try:
                    yield name, _outcome(cells[name], future)
                except GeneratorExit:
                    _terminate(working.values())
                    wait(working)
                    raise
            if signals.received and not told:
                _terminate(working.values())
                told = True
        if signals.received:
            raise Interrupted(f"{workdir} is saved: run it again to go on")


def _shares(processes: int) -> list[list[int]]:
    """The cores of each process; empty lists where the system cannot bind a process to cores."""
    if not hasattr(os, "sched_getaffinity"):
        return [[]] * processes
    cores = sorted(os.sched_getaffinity(0))
    return [cores[i::processes] or cores for i in range(processes)]


@contextlib.contextmanager
def _pool() -> Iterator[Any]:
    # Unlike the standard library's pool, loky's does not run the user's own script again.
    from loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(1, initializer=ends_with_parent, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        pool.shutdown(kill_workers=True)


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Block SIGINT. A process that starts meanwhile never gets it, and ends by `_terminate`."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # where Python starts it, it unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(
    runs: CellRuns, vmapped: bool | None, cores: list[int]
) -> tuple[CellOutcome, list[_Message]]:
    """Train and score a cell in this process, before JAX has counted the cores."""
    if cores:
        os.sched_setaffinity(0, cores)
    logger, handler = logging.getLogger(__name__.partition(".")[0]), _Kept()
    logger.addHandler(handler)
    logger.propagate = False
    runs.train(vmapped)
    return CellOutcome(runs.score(), runs.failed), handler.messages


class _Kept(logging.Handler):
    """A logging handler that keeps what the process of the sweep is to say."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages: list[_Message] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)  # sets exc_text
        message = _Message(record.name, record.levelno, record.getMessage(), record.exc_text)
        self.messages.append(message)


def _outcome(runs: CellRuns, future: Future) -> CellOutcome:
    """The outcome of a cell. If its process has died, the runs without stored scores failed."""
    error = future.exception()
    if error is None:
        outcome, messages = future.result()
        for message in messages:
            message.log()
        return outcome
    scores = runs.stored_scores()
    seeds = [seed for group in runs.groups for seed in group if seed not in scores]
    failed = {f"{runs.name}/seed-{seed}": _reason(error) for seed in seeds}
    return CellOutcome(scores, failed | runs.failed)  # those that diverged


def _reason(error: BaseException) -> str:
    """Why a process ended early, in one line."""
    if isinstance(error, Interrupted | SystemExit):
        return "a signal stopped its process"
    if isinstance(error, BrokenProcessPool):  # loky's text ends with {SIGKILL(-9)}
        codes = re.findall(r"\{([^{}]+)\}", str(error))
        return " ".join(["its process died", *(f"({code})" for code in codes)])
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


def _terminate(working: Iterable[_Working]) -> None:
    """Let the trainings save and end. A process that does not train ends at once."""
    for each in working:
        for process in [*(each.pool._processes or {}).values()]:
            with contextlib.suppress(OSError):
                os.kill(process.pid, signal.SIGTERM)
