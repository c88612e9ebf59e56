"""What a run does between its updates: write lines, evaluate, save, and end.

The sums of step n are fetched while step n + 1 runs, so the devices never wait for the host. The
progress of these phases is saved with the state. A resumed run therefore writes the same lines and
stops at the same step as an uninterrupted one, and keeps the same checkpoints, but for those of
interruptions.
"""

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax

from bahdanau_jax.batch import Batch
from bahdanau_jax.checkpoints import Checkpointer, Damaged
from bahdanau_jax.config import TrainingConfig
from bahdanau_jax.run_folder import DEV_SCORE
from bahdanau_jax.training.interruption import Signals
from bahdanau_jax.training.monitor import Monitor
from bahdanau_jax.training.nonfinite_batch import save_batch
from bahdanau_jax.training.step import StepSums, TrainState, are_finite
from bahdanau_jax.training.telemetry import Telemetry


class Outcome(enum.StrEnum):
    """The reason why a run ended."""

    FINISHED = "finished"  # all steps are done
    STOPPED_EARLY = "stopped early"  # the dev score did not improve for `patience` evaluations
    INTERRUPTED = "interrupted"  # a signal came; the run can be resumed


class Interrupted(KeyboardInterrupt):
    """A signal ended a run. It is saved and can be resumed."""


class Diverged(FloatingPointError):
    """Too many gradients in a row were not finite, or weights are not.

    A run on its own does not save such weights. One of several runs does, with this error, so that
    all have their checkpoints of one step.
    """


class Pending(NamedTuple):
    """The results of the last update, still on the device."""

    batch: Batch
    sums: StepSums
    telemetry: Mapping[str, Any]  # {} where no line is due


@dataclass
class Progress:
    """The state of the loop that is saved with each checkpoint: dev scores, and a divergence."""

    best: float | None = None  # the highest dev score
    best_step: int = 0
    stale: int = 0  # the number of evaluations since `best_step`
    evaluated: int = 0  # the step of the last evaluation
    score: float | None = None  # the dev score of the last evaluation
    diverged: str | None = None  # the error of a run whose vmapped program goes on without it

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


class Phases(Protocol):
    """What the loop asks of one run, or of several runs that share its updates."""

    steps: int  # updates in all

    def step(self, state: Any) -> int:
        """The number of updates that made a state."""
        ...

    def start(self, step: int) -> None:
        """Open all files at this step."""
        ...

    def check(self) -> None:
        """Raise OSError if a save in the background has failed by now."""
        ...

    def due(self, step: int, interrupted: bool) -> bool:
        """Whether an evaluation, a save or the end comes next, which needs all lines written."""
        ...

    def compiling(self, step: int, batch: Batch) -> None:
        """Tell the log of compilations what the next programs are for."""
        ...

    def measure(self, step: int, state: Any) -> Any:
        """The telemetry of the state after `step` updates, still on the device."""
        ...

    def write(self, step: int, pending: Pending) -> None:
        """Fetch the sums of `step` and write its line, where one is due. Raises Diverged."""
        ...

    def evaluate_when_due(self, step: int, state: Any, signals: Signals) -> bool:
        """Evaluate if it is due. Returns False where a signal came, and it is still due."""
        ...

    def outcome(self, step: int, interrupted: bool) -> Outcome | None:
        """The reason to end before the update after `step`; None to go on."""
        ...

    def save_when_due(self, step: int, state: Any, outcome: Outcome | None) -> None:
        """Begin to save a checkpoint if one is due."""
        ...

    def wait(self) -> None:
        """Wait until the last save is on disk."""
        ...

    def close(self) -> None:
        """Close all files."""
        ...


class OneRun:
    """The phases of one run.

    Args:
        evaluate: returns numbers and pictures by name. The number DEV_SCORE, higher is better,
            selects the best checkpoint and stops the run after `config.patience` evaluations
            without improvement.
        checkpointer: saves and restores the state.
        monitor: writes metrics.jsonl and curves.
        config: the intervals.
        steps: updates in all.
        max_nonfinite: so many gradients in a row that are not finite stop the run.
        telemetry: statistics of the optimiser for each line; None where they are unknown.
    """

    def __init__(
        self,
        evaluate: Callable[[TrainState], Mapping[str, Any]] | None,
        checkpointer: Checkpointer,
        monitor: Monitor,
        config: TrainingConfig,
        steps: int,
        max_nonfinite: int = 20,
        telemetry: Telemetry | None = None,
    ):
        self.evaluate, self.checkpointer, self.monitor = evaluate, checkpointer, monitor
        self.config, self.steps, self.max_nonfinite = config, steps, max_nonfinite
        self.telemetry = telemetry
        self.warned = False
        self.progress = Progress()
        self.saved = -1  # the step of the last checkpoint with the current `progress`

    def step(self, state: TrainState) -> int:
        return int(state.step)

    def check(self) -> None:
        self.checkpointer.check()

    def compiling(self, step: int, batch: Batch) -> None:
        self.monitor.compiling(step, batch)

    def wait(self) -> None:
        self.checkpointer.wait()

    def close(self) -> None:
        self.monitor.close()

    def has_ended(self, step: int) -> bool:
        """Whether a run that was saved at `step` has no update left to make."""
        try:
            progress = Progress(**self.checkpointer.progress(step).get("loop", {}))
        except Damaged:
            return False  # what to do about it is known when it is restored
        return step >= self.steps or self._is_stale(progress)

    def _is_stale(self, progress: Progress) -> bool:
        return 0 < self.config.patience <= progress.stale

    def start(self, step: int) -> None:
        saved = self.checkpointer.progress(step)
        self.progress = Progress(**saved.get("loop", {}))
        self.saved = step if saved else -1
        self.monitor.start(step, saved.get("monitor", {}))

    def _every(self, step: int, interval: int) -> bool:
        return step > 0 and ((interval > 0 and step % interval == 0) or step >= self.steps)

    def evaluation_due(self, step: int) -> bool:
        return (
            self.evaluate is not None
            and self.progress.evaluated != step
            and self._every(step, self.config.evaluate_every)
        )

    def due(self, step: int, interrupted: bool) -> bool:
        return (
            interrupted
            or self._every(step, self.config.checkpoint_every)
            or self.evaluation_due(step)
        )

    def measurement_due(self, step: int) -> bool:
        return self.telemetry is not None and self.monitor.line_due(step)

    def measure(self, step: int, state: TrainState) -> Mapping[str, Any]:
        due = self.measurement_due(step)
        return self.telemetry.measure(state) if due and self.telemetry else {}

    def write(self, step: int, pending: Pending) -> None:
        sums, telemetry = jax.device_get((pending.sums, pending.telemetry))
        self.record(step, sums, telemetry, pending.batch)

    def record(self, step: int, sums: StepSums, telemetry: Mapping[str, Any], batch: Batch) -> None:
        """Write the line of `step`, where one is due. Raises Diverged, and saves the batch."""
        fields = {name: float(value) for name, value in sums._asdict().items()}
        in_a_row = int(fields.pop("nonfinite"))
        line = self.monitor.update(step, fields, {n: float(x) for n, x in telemetry.items()})
        warning = self.telemetry.warning(line) if self.telemetry and line else None
        if warning and not self.warned:
            self.monitor.note(f"step {step}: {warning}")
            self.warned = True
        if in_a_row >= self.max_nonfinite:
            try:
                kept = f"is saved in {save_batch(self.monitor.workdir, step, batch)}"
            except OSError as error:
                kept = f"cannot be saved ({error.strerror or error})"
            raise Diverged(
                f"the gradient was not finite {in_a_row} times in a row, up to step {step}, whose "
                f"batch {kept}: lower optimizer.learning_rate or set "
                "optimizer.clip_norm; these updates changed no weights"
            )

    def evaluate_when_due(self, step: int, state: TrainState, signals: Signals) -> bool:
        evaluate = self.evaluate
        if evaluate is None or not self.evaluation_due(step):
            return True
        self.monitor.compiling(step)
        with self.monitor.paused():
            scores = signals.unless_received(lambda: evaluate(state))
        if scores is None:
            return False
        self.monitor.evaluation(step, scores)
        self.progress.record(step, scores.get(DEV_SCORE))
        self.saved = -1
        return True

    def outcome(self, step: int, interrupted: bool) -> Outcome | None:
        unevaluated = self.evaluation_due(step)  # True only after a signal
        if step >= self.steps and not unevaluated:
            return Outcome.FINISHED
        if self._is_stale(self.progress):
            return Outcome.STOPPED_EARLY
        return Outcome.INTERRUPTED if interrupted else None

    def save_due(self, step: int, outcome: Outcome | None) -> bool:
        # A run that is interrupted before its first step has nothing worth saving.
        leaving = outcome is not None and (step > 0 or outcome is not Outcome.INTERRUPTED)
        due = leaving or self._is_evaluated(step) or self._every(step, self.config.checkpoint_every)
        return due and self.saved != step

    def _is_evaluated(self, step: int) -> bool:
        return self.progress.evaluated == step and step > 0

    def save_when_due(self, step: int, state: TrainState, outcome: Outcome | None) -> None:
        if self.save_due(step, outcome):
            self.check_weights(step, state)
            self.save(step, state)

    def check_weights(self, step: int, state: TrainState) -> None:
        """Raise Diverged where a weight is not finite. All processes must call it."""
        if not are_finite((state.params, state.ema)):
            raise Diverged(
                f"weights are not finite after step {step}: lower optimizer.learning_rate, or "
                "mend the optimiser if it is your own"
            )

    def save(self, step: int, state: TrainState) -> None:
        """Begin to save a checkpoint."""
        progress = {"loop": dataclasses.asdict(self.progress), "monitor": self.monitor.state()}
        with self.monitor.paused():
            score = self.progress.score if self._is_evaluated(step) else None
            self.checkpointer.save(step, state, score, progress)
        self.saved = step
