"""The cost of metrics and saves within one training, by comparison with neighbouring updates.

On a busy machine, two trainings one after the other differ by more than this cost. Neighbouring
updates differ less.
"""

import dataclasses
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from bahdanau_jax import model, training
from bahdanau_jax.batch import Batch, pad
from bahdanau_jax.config import Config
from bahdanau_jax.reporting import PLAIN
from benchmarks import machine, updates

WARM = 10  # the number of first updates that are ignored
AROUND = 20  # updates on either side of an event, to compare it with
# The number of updates that an event may slow down. A line is fetched one update later, and a save
# runs in the background for some seconds.
LINE, SAVE = 3, 10


class Spent(NamedTuple):
    """Wall-clock seconds, CPU seconds of all threads, and CPU seconds of the loop's thread."""

    seconds: float
    cpu_seconds: float
    loop_seconds: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.perf_counter(), time.process_time(), time.thread_time())


class Event(NamedTuple):
    """A line of metrics or a save: the updates that it may slow down."""

    first: int
    length: int

    def updates(self) -> range:
        return range(self.first, self.first + self.length)


def batch(config: Config, rows: int, length: int, seed: int) -> Batch:
    """A batch of random sentences without padding."""
    rng = np.random.default_rng(seed)
    sizes = config.model.source_vocabulary, config.model.target_vocabulary
    sides = [pad([rng.integers(2, size, length) for _ in range(rows)], length) for size in sizes]
    return Batch(*sides[0], *sides[1], np.ones(rows, np.float32))


def run(config: Config, length: int, steps: int, checkpoint_every: int) -> dict[str, Any]:
    """Train for `steps` updates on random sentences as `train` does, and time each update.

    Metrics, TensorBoard and telemetry are written every training.log_every updates, and a save
    starts every `checkpoint_every` updates. There are no dev scores. Returns, for each clock, the
    seconds of an ordinary update and those that each line and save added, and the resulting ratio
    for a save every training.checkpoint_every updates. Raises ValueError where every line
    coincides with a save, or the reverse.
    """
    lines = list(events(config.training.log_every, LINE, steps))
    saves = list(events(checkpoint_every, SAVE, steps))
    for some, others in ((lines, saves), (saves, lines)):
        apart(some, others, steps - 1)  # raises errors before the training
    rows = config.data.batch_size
    updates.as_a_training(config)
    settings = dataclasses.replace(config.training, steps=steps, checkpoint_every=checkpoint_every)
    trainer = training.Trainer(dataclasses.replace(config, training=settings))
    state = trainer.backend.place(trainer.begin())
    parameters = model.count(state.params)
    batches = [batch(config, rows, length, seed) for seed in range(4)]
    starts: list[Spent] = []

    def stamped(state, batch):
        starts.append(Spent.now())
        return trainer.update(state, batch)

    with tempfile.TemporaryDirectory() as name:
        phases = training.phases_of(trainer, Path(name), (), 0, PLAIN)
        try:
            _, outcome = training.run(
                state, phases=phases, next_batches=itertools.cycle(batches), step_fn=stamped
            )
        finally:
            phases.checkpointer.close()
    if outcome is training.Outcome.INTERRUPTED:
        raise training.Interrupted("the benchmark was interrupted, and has no result")
    durations = {
        clock: np.diff([getattr(spent, clock) for spent in starts]).tolist()
        for clock in Spent._fields
    }
    intervals = settings.log_every, config.training.checkpoint_every
    added = {clock: costs(seconds, lines, saves) for clock, seconds in durations.items()}
    return {
        "machine": machine.describe(["jax", "jaxlib", "orbax-checkpoint"]),
        "device": machine.device(),
        "parameters": parameters,
        "batch": [rows, length],
        "updates": steps,
        "log_every": settings.log_every,
        "checkpoint_every": checkpoint_every,
        "as_configured_every": config.training.checkpoint_every,
        **added,
        "as_configured_ratio": {
            clock: as_configured(added[clock], *intervals) for clock in ("seconds", "cpu_seconds")
        },
    }


def events(every: int, length: int, steps: int) -> Iterator[Event]:
    """The events after every `every` updates, without the last update."""
    for step in range(every, steps - 1, every):
        yield Event(step - 1, length)  # before the update of that number begins


def apart(some: Sequence[Event], others: Sequence[Event], updates: int) -> list[Event]:
    """The events that overlap with none of `others`, after the first updates.

    Raises ValueError where there are none.
    """
    taken = {i for event in others for i in event.updates()}
    separate = [
        event
        for event in some
        if event.first >= WARM
        and event.first + event.length <= updates
        and not taken & set(event.updates())
    ]
    if not separate:
        raise ValueError(
            "every line coincides with a save, or the reverse: give more --steps, or another "
            "--checkpoint-every"
        )
    return separate


def costs(
    seconds: Sequence[float], lines: Sequence[Event], saves: Sequence[Event]
) -> dict[str, Any]:
    """The seconds of an ordinary update, and those that each separate line and save added."""
    beside = {i for event in (*lines, *saves) for i in event.updates()}

    def added(event: Event) -> float:
        around = range(max(event.first - AROUND, WARM), event.first + event.length + AROUND)
        ordinary = [seconds[i] for i in around if i < len(seconds) and i not in beside]
        return sum(seconds[i] - statistics.median(ordinary) for i in event.updates())

    line = [added(event) for event in apart(lines, saves, len(seconds))]
    save = [added(event) for event in apart(saves, lines, len(seconds))]
    rest = [x for i, x in enumerate(seconds) if i >= WARM and i not in beside]
    return {
        "update": statistics.median(rest),
        "line": [round(x, 5) for x in line],
        "save": [round(x, 5) for x in save],
    }


def as_configured(cost: dict[str, Any], log_every: int, checkpoint_every: int) -> float:
    """The factor by which updates slow down with lines and saves at these intervals; 0: never."""
    events = (cost["line"], log_every), (cost["save"], checkpoint_every)
    share = sum(statistics.median(added) / every for added, every in events if every)
    return round(1 + share / cost["update"], 5)
