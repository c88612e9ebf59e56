"""Several runs that differ in their seeds and train by the same vmapped programs.

Each run has its own folder, in which it writes the same files as a run that trains alone.
"""

import contextlib
import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bahdanau_jax import data
from bahdanau_jax.batch import Batch
from bahdanau_jax.checkpoints import Checkpointer, Damaged
from bahdanau_jax.reporting import PLAIN, SILENT, Reporter
from bahdanau_jax.training.interruption import Signals
from bahdanau_jax.training.loop import run
from bahdanau_jax.training.phases import Diverged, OneRun, Outcome, Pending
from bahdanau_jax.training.precompilation import once_a_shape
from bahdanau_jax.training.run_record import append_record
from bahdanau_jax.training.step import TrainState
from bahdanau_jax.training.trainer import Evaluator, Trainer, compiled_ahead, phases_of
from bahdanau_jax.training.vmapped_update import OWN, States, VmappedUpdate, row

log = logging.getLogger(__name__)


class ManyRuns:
    """The phases of several runs, as `OneRun` is those of one run.

    A run that diverges is left out from then on, also after a restart; `failed` has its error by
    the index of the run.
    `groups` are the groups of runs of the update (`VmappedUpdate.groups`).
    """

    def __init__(self, runs: Sequence[OneRun], groups: Sequence[Sequence[int]]):
        self.runs, self.steps = list(runs), runs[0].steps
        self._place = {i: (g, k) for g, group in enumerate(groups) for k, i in enumerate(group)}
        self.failed: dict[int, Diverged] = {}

    def _active(self) -> Iterator[tuple[int, OneRun]]:
        return ((i, each) for i, each in enumerate(self.runs) if i not in self.failed)

    def _member(self, states: States, index: int) -> TrainState:
        group, place = self._place[index]
        return row(states[group], place)

    def step(self, state: States) -> int:
        return int(state[0].step[0])

    def start(self, step: int) -> None:
        for i, each in enumerate(self.runs):
            each.start(step)
            if each.progress.diverged is not None:
                self._fail(i, Diverged(each.progress.diverged))

    def _fail(self, index: int, error: Diverged) -> None:
        """Leave out a run. If it shows the progress, another one shows it from now on."""
        self.failed[index] = error
        self.runs[index].progress.diverged = str(error)
        monitor = self.runs[index].monitor
        for each in self.runs:  # of which one shows it
            each.monitor.note(f"{monitor.workdir} diverged, and is left out")
        if (other := next(self._active(), None)) is not None:
            monitor.hand_over(other[1].monitor)

    def check(self) -> None:
        for each in self.runs:
            each.check()

    def due(self, step: int, interrupted: bool) -> bool:
        return any(each.due(step, interrupted) for _, each in self._active())

    def compiling(self, step: int, batch: Batch) -> None:
        for _, each in itertools.islice(self._active(), 1):
            each.compiling(step, batch)

    def measure(self, step: int, state: States) -> dict[int, Any]:
        return {
            i: each.measure(step, self._member(state, i))
            for i, each in self._active()
            if each.measurement_due(step)
        }

    def write(self, step: int, pending: Pending) -> None:
        sums, telemetry = jax.device_get((pending.sums, pending.telemetry))
        for i, each in self._active():
            own = jax.tree.map(lambda leaf, i=i: leaf[i], sums)
            batch = pending.batch
            if np.ndim(batch.weight) > 1:
                batch = jax.tree.map(lambda leaf, i=i: leaf[i], batch)
            try:
                each.record(step, own, telemetry.get(i, {}), batch)
            except Diverged as error:
                self._fail(i, error)

    def evaluate_when_due(self, step: int, state: States, signals: Signals) -> bool:
        for i, each in self._active():
            if each.evaluation_due(step):
                with self._others_paused(each):
                    if not each.evaluate_when_due(step, self._member(state, i), signals):
                        return False
        return True

    def outcome(self, step: int, interrupted: bool) -> Outcome | None:
        outcomes = {each.outcome(step, interrupted) for _, each in self._active()}
        if not outcomes:
            return Outcome.FINISHED  # every run has diverged
        return Outcome.INTERRUPTED if Outcome.INTERRUPTED in outcomes else outcomes.pop()

    def save_when_due(self, step: int, state: States, outcome: Outcome | None) -> None:
        """Save every run where one is due, also runs that diverged: all resume from one step."""
        if not any(each.save_due(step, outcome) for each in self.runs):
            return
        self.wait()  # else a kill could leave runs whose newest checkpoints have no common step
        for i, each in enumerate(self.runs):
            if each.saved != step:
                member = self._member(state, i)
                try:
                    if i not in self.failed:
                        each.check_weights(step, member)
                except Diverged as error:
                    self._fail(i, error)
                with self._others_paused(each):
                    each.save(step, member)

    @contextlib.contextmanager
    def _others_paused(self, own: OneRun) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for each in self.runs:
                if each is not own:
                    stack.enter_context(each.monitor.paused())
            yield

    def wait(self) -> None:
        for each in self.runs:
            each.wait()

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for each in self.runs:
                stack.callback(each.close)


def train_vmapped(
    trainers: Sequence[Trainer],
    store: data.Store,
    workdirs: Sequence[Path],
    evaluators: Sequence[Evaluator] = (),
    order: str = OWN,
    first_seed: int | None = None,
    began: float | None = None,
    reporter: Reporter = PLAIN,
) -> tuple[Outcome, dict[int, Diverged]]:
    """Train several runs from their newest common checkpoint to the configured steps.

    The configurations of the trainers differ in `training.seed` alone. With the order "own",
    every run gets the batches of its own seed, padded to the largest of a step. With "shared", all
    runs get the batches of `first_seed`, by default that of the first run, which is faster.
    `patience` and several processes are not supported.

    Runs with checkpoints, but none of a common step, begin again, and lose these checkpoints.
    Returns the outcome, and the error of each run that diverged by its index.
    """
    config, settings = trainers[0].config, trainers[0].config.training
    began = time.perf_counter() if began is None else began
    seeds = [each.config.training.seed for each in trainers]
    if order != OWN:
        seeds = [seeds[0] if first_seed is None else first_seed]
    plans = [data.Plan.of(store, config.data, seed) for seed in seeds]
    first = plans[0]
    plans = plans if order == OWN else first
    with contextlib.ExitStack() as stack:
        runs = []
        for trainer, workdir in zip(trainers, workdirs, strict=True):
            shown = SILENT if runs else reporter
            # The runs save one after the other. A kill between them leaves the step before as the
            # common one, which each run has to keep.
            runs.append(phases_of(trainer, workdir, evaluators, first.steps(), shown, least_kept=2))
            stack.callback(runs[-1].checkpointer.close)
            stack.callback(runs[-1].monitor.close)
        states = _restored(trainers, [each.checkpointer for each in runs])
        for trainer, workdir, state in zip(trainers, workdirs, states, strict=True):
            step = int(state.step)
            append_record(workdir, trainer.config, step, step >= settings.steps)
        start = int(states[0].step)
        update = stack.enter_context(
            contextlib.closing(VmappedUpdate(trainers[0], len(trainers), order))
        )
        many, state = ManyRuns(runs, update.groups), update.place(states)
        del states
        batches = data.train_batches(store, plans, start, multiple=settings.accumulate)
        steps = range(start, min(settings.steps, start + first.steps()))
        examples = [*data.each_shape(store, plans, steps, settings.accumulate)]
        monitors = [each.monitor for each in runs]
        for monitor in monitors:
            monitor.watch_programs()
        programs = stack.enter_context(
            contextlib.closing(
                compiled_ahead(update, state, examples, monitors, start, began, reporter)
            )
        )
        outcome = run(
            state,
            phases=many,
            next_batches=batches,
            step_fn=programs,
            ready=once_a_shape(programs.program),
        )[1]
        return outcome, many.failed


BEFORE_ALL = -1  # a step before that of any checkpoint


def _restored(
    trainers: Sequence[Trainer], checkpointers: Sequence[Checkpointer]
) -> list[TrainState]:
    """The states of all runs at the newest step at which every run has an intact checkpoint.

    Damaged checkpoints are set aside, and those of later steps removed. A call that is killed
    before it has removed all of them leaves the same common step to the next one. Without a common
    step the runs begin again, and lose all checkpoints. Raises OSError where that would be because
    some are damaged.
    """
    first = trainers[0]  # the others differ in their seeds alone
    template = jax.eval_shape(first.begin)
    surveys = [each.survey() for each in checkpointers]
    start, states = BEFORE_ALL, []
    for step in sorted(set.intersection(*(set(scores) for scores, _ in surveys)), reverse=True):
        intact = []
        for each, (_, faults) in zip(checkpointers, surveys, strict=True):
            try:
                intact.append(each.restore_at(template, step))
            except Damaged as error:
                faults[step] = str(error)
        if len(intact) == len(trainers):
            start, states = step, intact
            break
    for each, (_, faults) in zip(checkpointers, surveys, strict=True):
        if faults and start == BEFORE_ALL:
            raise OSError(
                f"no step has intact checkpoints of all runs, and some in {each.folder} are "
                "damaged: restore them from a copy, or remove those of all runs to begin again"
            )
    for each, (_, faults) in zip(checkpointers, surveys, strict=True):
        each.report_damaged(faults)
    if start == BEFORE_ALL and any(each.steps() for each in checkpointers):
        log.warning("the runs begin again, since no step has intact checkpoints of all of them")
    for each in checkpointers:
        each.remove_after(start)
    return states or [first.begin(seed=each.config.training.seed) for each in trainers]
