"""The training loop: evaluate, save, get the next batch, update, write.

The sums of step n are fetched while step n + 1 runs, so the devices never wait for the host. The
memory of the loop is saved with the state. A resumed run therefore writes the same lines, keeps the
same checkpoints and stops at the same step as an uninterrupted one.
"""

import contextlib
import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from bahdanau_jax.batch import Batch
from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.config import TrainingConfig
from bahdanau_jax.training.interruption import Signals
from bahdanau_jax.training.monitor import Monitor
from bahdanau_jax.training.nonfinite_batch import save_batch
from bahdanau_jax.training.profiling import Profile
from bahdanau_jax.training.step import StepSums, TrainState
from bahdanau_jax.training.telemetry import Telemetry

SCORE = "dev_score"  # the evaluated number that selects the best checkpoint


class Outcome(enum.StrEnum):
    """The reason why a run ended."""

    FINISHED = "finished"  # all steps are done
    STOPPED_EARLY = "stopped early"  # the dev score did not improve for `patience` evaluations
    INTERRUPTED = "interrupted"  # a signal came; the run can be resumed


class Interrupted(KeyboardInterrupt):
    """A signal ended a run. It is saved and can be resumed."""


class Diverged(FloatingPointError):
    """Too many gradients in a row were not finite. No non-finite value was saved."""


class Pending(NamedTuple):
    """The results of the last update, still on the device."""

    batch: Batch
    sums: StepSums
    telemetry: Mapping[str, Any]  # {} where no line is due


@dataclass
class Progress:
    """The memory of the loop between evaluations."""

    best: float | None = None  # the highest dev score
    best_step: int = 0
    stale: int = 0  # the number of evaluations since `best_step`
    evaluated: int = 0  # the step of the last evaluation
    score: float | None = None  # the dev score of the last evaluation

    def record(self, step: int, score: float | None) -> None:
        """Record an evaluation at `step`. Without a score, the best one stays as it is."""
        self.evaluated, self.score = step, None
        if score is None:
            return
        if math.isfinite(score):
            self.score = score
        if self.score is not None and (self.best is None or score > self.best):
            self.best, self.best_step, self.stale = score, step, 0
        else:
            self.stale += 1


def run(
    state: TrainState,
    *,
    steps: int,
    next_batches: Iterator[Batch],
    step_fn: Callable[[TrainState, Batch], tuple[TrainState, StepSums]],
    evaluate: Callable[[TrainState], Mapping[str, Any]] | None,
    checkpointer: Checkpointer,
    monitor: Monitor,
    config: TrainingConfig,
    max_nonfinite: int = 20,
    telemetry: Telemetry | None = None,
    profile: Profile | None = None,
    ready: Callable[[Batch], object] = lambda batch: None,
) -> tuple[TrainState, Outcome]:
    """Train from state.step to `steps`. `next_batches` starts with the batch of state.step.

    `evaluate` returns numbers and pictures by name. The number SCORE, higher is better, selects the
    best checkpoint and stops the run after `config.patience` evaluations without improvement.
    `ready` waits for the program of a batch. A signal ends an evaluation and this wait at once. A
    restored state continues exactly as the run that saved it. Raises Diverged, ValueError where the
    batches end early, and OSError as soon as saving fails.
    """
    training = _Training(evaluate, checkpointer, monitor, config, steps, telemetry)
    step = int(state.step)
    if profile is not None:
        profile.begin(step)
    with Signals() as signals, contextlib.closing(monitor), _stopping(profile):
        training.start(step)
        pending: Pending | None = None
        while True:
            interrupted = signals.at(step)  # once a step: all its phases need the same answer
            checkpointer.check()
            if pending is not None and training.due(step, interrupted):
                training.write(step, pending, max_nonfinite)
                pending = None
            if not interrupted:
                interrupted = not training.evaluate_when_due(step, state, signals)
            outcome = training.outcome(step, interrupted)
            training.save_when_due(step, state, outcome)
            if outcome is not None:
                checkpointer.wait()
                return state, outcome
            if profile is not None:
                profile.at(step, state)
            batch = _next(next_batches, step, steps)
            monitor.compiling(step, batch)
            if signals.unless_received(lambda batch=batch: (ready(batch),)) is None:
                continue
            state, sums = step_fn(state, batch)
            telemetry_now = training.measure(step + 1, state)
            if pending is not None:
                training.write(step, pending, max_nonfinite)
            step, pending = step + 1, Pending(batch, sums, telemetry_now)


@contextlib.contextmanager
def _stopping(profile: Profile | None) -> Iterator[None]:
    """Write a trace that is unfinished when the run ends."""
    try:
        yield
    finally:
        if profile is not None:
            profile.stop()


def _next(batches: Iterator[Batch], step: int, steps: int) -> Batch:
    try:
        return next(batches)
    except StopIteration:
        raise ValueError(f"the batches ended at step {step} of {steps}: repeat them") from None


class _Training:
    """The phases of the loop, and the state that they share."""

    def __init__(self, evaluate, checkpointer, monitor, config: TrainingConfig, steps, telemetry):
        self.telemetry: Telemetry | None = telemetry
        self.evaluate, self.checkpointer, self.monitor = evaluate, checkpointer, monitor
        self.config, self.steps = config, steps
        self.warned = False
        self.saved = -1  # the step of the last checkpoint with the current `progress`

    def start(self, step: int) -> None:
        saved = self.checkpointer.progress(step)
        self.progress = Progress(**saved.get("loop", {}))
        self.saved = step if saved else -1
        self.monitor.start(step, saved.get("monitor", {}))

    def _every(self, step: int, interval: int) -> bool:
        return step > 0 and ((interval > 0 and step % interval == 0) or step >= self.steps)

    def _evaluation_due(self, step: int) -> bool:
        return (
            self.evaluate is not None
            and self.progress.evaluated != step
            and self._every(step, self.config.evaluate_every)
        )

    def due(self, step: int, interrupted: bool) -> bool:
        """Whether an evaluation, a save or the end comes next, which needs all lines written."""
        return (
            interrupted
            or self._every(step, self.config.checkpoint_every)
            or self._evaluation_due(step)
        )

    def measure(self, step: int, state: TrainState) -> Mapping[str, Any]:
        """The telemetry of the state after `step` updates; {} where no line is due."""
        due = self.telemetry is not None and self.monitor.line_due(step)
        return self.telemetry.measure(state) if due and self.telemetry else {}

    def write(self, step: int, pending: Pending, max_nonfinite: int) -> None:
        """Fetch the sums of `step` and write its line, where one is due. Raises Diverged."""
        arrays = jax.device_get((pending.sums._asdict(), pending.telemetry))
        sums, telemetry = ({n: float(x) for n, x in tree.items()} for tree in arrays)
        in_a_row = int(sums.pop("nonfinite"))
        line = self.monitor.update(step, sums, telemetry)
        warning = self.telemetry.warning(line) if self.telemetry and line else None
        if warning and not self.warned:
            self.monitor.note(f"step {step}: {warning}")
            self.warned = True
        if in_a_row >= max_nonfinite:
            path = save_batch(self.monitor.workdir, step, pending.batch)
            raise Diverged(
                f"the gradient was not finite {in_a_row} times in a row, up to step {step}, whose "
                f"batch is saved in {path}: lower optimizer.learning_rate or set "
                "optimizer.clip_norm; these updates changed no weights"
            )

    def evaluate_when_due(self, step: int, state: TrainState, signals: Signals) -> bool:
        """Evaluate if it is due. Returns False where a signal came, and it is still due."""
        evaluate = self.evaluate
        if evaluate is None or not self._evaluation_due(step):
            return True
        self.monitor.compiling(step)
        with self.monitor.paused():
            scores = signals.unless_received(lambda: evaluate(state))
        if scores is None:
            return False
        self.monitor.evaluation(step, scores)
        self.progress.record(step, scores.get(SCORE))
        self.saved = -1
        return True

    def outcome(self, step: int, interrupted: bool) -> Outcome | None:
        unevaluated = self._evaluation_due(step)  # True only after a signal
        if step >= self.steps and not unevaluated:
            return Outcome.FINISHED
        if self.config.patience and self.progress.stale >= self.config.patience:
            return Outcome.STOPPED_EARLY
        return Outcome.INTERRUPTED if interrupted else None

    def save_when_due(self, step: int, state: TrainState, outcome: Outcome | None) -> None:
        # A run that is interrupted before its first step has nothing worth saving.
        leaving = outcome is not None and (step > 0 or outcome is not Outcome.INTERRUPTED)
        fresh = self.progress.evaluated == step and step > 0
        due = leaving or fresh or self._every(step, self.config.checkpoint_every)
        if not due or self.saved == step:
            return
        progress = {"loop": dataclasses.asdict(self.progress), "monitor": self.monitor.state()}
        with self.monitor.paused():
            score = self.progress.score if fresh else None
            self.checkpointer.save(step, state, score, progress)
        self.saved = step
