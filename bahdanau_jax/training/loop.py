"""The training loop: evaluate, save, get the next batch, update, write."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from bahdanau_jax.batch import Batch
from bahdanau_jax.training.interruption import Signals
from bahdanau_jax.training.phases import Outcome, Pending, Phases
from bahdanau_jax.training.profiling import Profile
from bahdanau_jax.training.step import StepSums

State = TypeVar("State")  # of one run, or of several


def run(
    state: State,
    *,
    phases: Phases,
    next_batches: Iterator[Batch],
    step_fn: Callable[[State, Batch], tuple[State, StepSums]],
    profile: Profile | None = None,
    ready: Callable[[Batch], object] = lambda batch: None,
) -> tuple[State, Outcome]:
    """Train from the step of `state` to the end. `next_batches` starts with the batch of this step.

    `ready` waits for the program of a batch. A signal ends an evaluation and this wait at once. A
    restored state continues exactly as the run that saved it. Raises Diverged, ValueError where the
    batches end early, and OSError as soon as saving fails.
    """
    step = phases.step(state)
    if profile is not None:
        profile.begin(step)
    with Signals() as signals, contextlib.closing(phases), _stopping(profile):
        phases.start(step)
        pending: Pending | None = None
        while True:
            interrupted = signals.at(step)  # once a step: all its phases need the same answer
            phases.check()
            if pending is not None and phases.due(step, interrupted):
                phases.write(step, pending)
                pending = None
            if not interrupted:
                interrupted = not phases.evaluate_when_due(step, state, signals)
            outcome = phases.outcome(step, interrupted)
            phases.save_when_due(step, state, outcome)
            if outcome is not None:
                phases.wait()
                # A signal during the last phases ends the caller's work too.
                return state, Outcome.INTERRUPTED if signals.received else outcome
            if profile is not None:
                profile.at(step, state)
            batch = _next(next_batches, step, phases.steps)
            phases.compiling(step, batch)
            if signals.unless_received(lambda batch=batch: (ready(batch),)) is None:
                continue
            state, sums = step_fn(state, batch)
            telemetry = phases.measure(step + 1, state)
            if pending is not None:
                phases.write(step, pending)
            step, pending = step + 1, Pending(batch, sums, telemetry)


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
