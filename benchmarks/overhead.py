"""What saving and watching cost, within one training: updates beside them against their neighbours.

Two trainings after each other differ by more than the cost where other programs come and go;
an update and the ones around it do not.
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
from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.config import Config
from benchmarks import machine

WARM = 10  # updates at the beginning that are not looked at
AROUND = 20  # updates on either side of an event, of which the ordinary ones are its measure
# Updates that an event may slow down: a line is fetched one update late and written within it, a
# save goes on in the background for some seconds.
LINE, SAVE = 3, 10


class Spent(NamedTuple):
    """Seconds of a clock on the wall, of all threads of this process, and of the one that loops."""

    seconds: float
    cpu_seconds: float
    loop_seconds: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.perf_counter(), time.process_time(), time.thread_time())


class Event(NamedTuple):
    """Updates beside something that does not happen at every one."""

    first: int
    length: int

    def updates(self) -> range:
        return range(self.first, self.first + self.length)


def batch(config: Config, rows: int, length: int, seed: int) -> Batch:
    """Random sentences that fill the rectangle, as those of a bucket nearly do."""
    rng = np.random.default_rng(seed)
    sizes = config.model.source_vocabulary, config.model.target_vocabulary
    sides = [pad([rng.integers(2, size, length) for _ in range(rows)], length) for size in sizes]
    return Batch(*sides[0], *sides[1], np.ones(rows, np.float32))


def run(config: Config, length: int, steps: int, checkpoint_every: int) -> dict[str, Any]:
    """Train for `steps` updates on random sentences as `train` does, and look at each update.

    With metrics.jsonl, TensorBoard and telemetry at every training.log_every and an asynchronous
    save at every `checkpoint_every`; without dev scores. Returns, for each clock, seconds of an
    ordinary update and seconds that each line and save added; and the ratio that follows from their
    medians for saving every training.checkpoint_every updates. Raises ValueError where no line or
    no save would be apart from the others.
    """
    lines = list(events(config.training.log_every, LINE, steps))
    saves = list(events(checkpoint_every, SAVE, steps))
    for some, others in ((lines, saves), (saves, lines)):
        apart(some, others, steps - 1)  # now rather than after the training
    rows = config.data.batch_size
    settings = dataclasses.replace(config.training, steps=steps, checkpoint_every=checkpoint_every)
    trainer = training.Trainer(dataclasses.replace(config, training=settings))
    state = trainer.backend.place(trainer.begin())
    parameters = model.count(state.params)
    batches = [batch(config, rows, length, seed) for seed in range(4)]
    begun: list[Spent] = []

    def stamped(state, batch):
        begun.append(Spent.now())
        return trainer.update(state, batch)

    with tempfile.TemporaryDirectory() as name:
        checkpoints = Checkpointer(Path(name) / "saved", settings.keep_checkpoints)
        try:
            training.run(
                state,
                steps=steps,
                next_batches=itertools.cycle(batches),
                step_fn=stamped,
                evaluate=None,
                checkpointer=checkpoints,
                monitor=training.Monitor(Path(name), steps, log_every=settings.log_every),
                config=settings,
                telemetry=training.Telemetry(config.optimizer, steps),
            )
        finally:
            checkpoints.close()
    each = {
        clock: np.diff([getattr(spent, clock) for spent in begun]).tolist()
        for clock in Spent._fields
    }
    often = settings.log_every, config.training.checkpoint_every
    found = {clock: costs(spent, lines, saves) for clock, spent in each.items()}
    return {
        "machine": machine.describe(["jax", "jaxlib", "orbax-checkpoint"]),
        "device": machine.device(),
        "parameters": parameters,
        "batch": [rows, length],
        "updates": steps,
        "log_every": settings.log_every,
        "checkpoint_every": checkpoint_every,
        "as_configured_every": config.training.checkpoint_every,
        **found,
        "as_configured_ratio": {
            clock: as_configured(found[clock], *often) for clock in ("seconds", "cpu_seconds")
        },
    }


def events(every: int, length: int, steps: int) -> Iterator[Event]:
    """What happens after every so many updates, of which the last is never looked at."""
    for step in range(every, steps - 1, every):
        yield Event(step - 1, length)  # before the update of that number begins


def apart(some: Sequence[Event], others: Sequence[Event], updates: int) -> list[Event]:
    """Those that fall together with none of the others, after the beginning and before the end.

    Raises ValueError where there are none.
    """
    taken = {i for event in others for i in event.updates()}
    found = [
        event
        for event in some
        if event.first >= WARM
        and event.first + event.length <= updates
        and not taken & set(event.updates())
    ]
    if not found:
        raise ValueError(
            "no line or no save is apart from the others: give more --steps, or another "
            "--checkpoint-every"
        )
    return found


def costs(
    seconds: Sequence[float], lines: Sequence[Event], saves: Sequence[Event]
) -> dict[str, Any]:
    """What each line and save that is apart from others added to updates that took so long."""
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
    """How many times as long updates take with lines and saves so far apart; 0 is never."""
    each = (cost["line"], log_every), (cost["save"], checkpoint_every)
    share = sum(statistics.median(some) / every for some, every in each if every)
    return round(1 + share / cost["update"], 5)
