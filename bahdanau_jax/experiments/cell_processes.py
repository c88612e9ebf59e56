"""Trains and scores cells of a sweep at the same time, each in a process with a share of the cores.

A small model does not keep many cores busy. Several processes do, also while they compile and
score.
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.data import ends_with_parent
from bahdanau_jax.experiments.cell_runs import CellRuns
from bahdanau_jax.reporting import SILENT, Prefixed, Reporter
from bahdanau_jax.training import Interrupted, Signals

POLL = 0.2  # seconds between two looks at the signals


class Outcome(NamedTuple):
    """What became of the runs of a cell."""

    scores: Mapping[int, dict[str, Any]]  # by seed
    failed: Mapping[str, str]  # the error of a run, by "CELL/seed-N"


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
) -> Iterator[tuple[str, Outcome]]:
    """Train and score the cells in this number of processes; yield each cell when it has ended.

    A process that dies loses its own cell only. Ctrl-C and SIGTERM save all trainings and raise
    `training.Interrupted`. `vmapped`: see `sweep`.
    """
    processes = min(processes, len(cells))
    waiting, free = [*cells], _shares(processes)
    working: dict[Future, _Working] = {}
    told = False
    stage = reporter.stage("training and scoring the cells", len(cells), "cells")
    with Signals() as signals, contextlib.ExitStack() as pools:
        while working or (waiting and not signals.received):
            while waiting and free and not signals.received:
                name, cores = waiting.pop(0), free.pop(0)
                cells[name].reporter = SILENT if reporter.live else Prefixed(name)
                pool = pools.enter_context(_pool())
                future = pool.submit(_work, cells[name], vmapped, cores)
                working[future] = _Working(name, cores, pool)
            for future in wait(working, POLL, FIRST_COMPLETED).done:
                name, cores, pool = working.pop(future)
                pool.shutdown()
                free.append(cores)
                if not signals.received:
                    stage.advance()
                    yield name, _outcome(cells[name], future)
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


def _work(runs: CellRuns, vmapped: bool | None, cores: list[int]) -> Outcome:
    """Train and score a cell in this process, before JAX has counted the cores."""
    if cores:
        os.sched_setaffinity(0, cores)
    runs.train(vmapped)
    return Outcome(runs.score(), runs.failed)


def _outcome(runs: CellRuns, future: Future) -> Outcome:
    """The outcome of a cell, or the same error for all its runs if its process has died."""
    try:
        return future.result()
    except Exception as error:
        text = f"its process ended: {str(error).strip().splitlines()[0]}"
        seeds = [seed for group in runs.groups for seed in group]
        return Outcome({}, {f"{runs.name}/seed-{seed}": text for seed in seeds})


def _terminate(working: Any) -> None:
    """Let the trainings save and end. A process that does not train ends at once."""
    for each in working:
        for process in [*(each.pool._processes or {}).values()]:
            with contextlib.suppress(OSError):
                os.kill(process.pid, signal.SIGTERM)
