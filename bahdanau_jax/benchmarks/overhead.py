"""What saving and watching cost: the same updates with and without them, in turns."""

import dataclasses
import itertools
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax import model, training
from bahdanau_jax.batch import Batch, pad
from bahdanau_jax.benchmarks import machine
from bahdanau_jax.config import Config, TrainingConfig


class Spent(NamedTuple):
    """Seconds of a clock on the wall, and of all threads of this process together.

    Where other programs come and go the second varies less; both cores being busy, an update takes
    as much longer as it takes more of it.
    """

    seconds: float
    cpu_seconds: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.perf_counter(), time.process_time())

    def since(self) -> Self:
        now = self.now()
        return type(self)(now.seconds - self.seconds, now.cpu_seconds - self.cpu_seconds)


def batch(config: Config, rows: int, length: int, seed: int) -> Batch:
    """Random sentences that fill the rectangle, as those of a bucket nearly do."""
    rng = np.random.default_rng(seed)
    sizes = config.model.source_vocabulary, config.model.target_vocabulary
    sides = [pad([rng.integers(2, size, length) for _ in range(rows)], length) for size in sizes]
    return Batch(*sides[0], *sides[1], np.ones(rows, np.float32))


class _NoCheckpoints:
    """A Checkpointer that keeps nothing."""

    def progress(self, step: int) -> dict:
        return {}

    def check(self, *_) -> None:
        pass

    wait = save = close = check


def run(
    config: Config, length: int, steps: int, rounds: int, checkpoint_every: int
) -> dict[str, Any]:
    """Time `rounds` rounds of three segments of `steps` updates: bare, watched, and saved too.

    Watched: metrics.jsonl and TensorBoard with telemetry at every training.log_every. Saved: also
    asynchronously at every `checkpoint_every` updates, until the last save is on the disk. Dev
    scores are in none. Returns, for each clock, seconds of a bare update, the ratios of both
    others to it, and the ratio that follows for saving every training.checkpoint_every updates.
    """
    network = model.Seq2Seq(config.model)
    smoothing, rows = config.optimizer.label_smoothing, config.data.batch_size

    def loss_fn(params, batch, key):
        return network.apply({"params": params}, batch, key, smoothing)

    tx = training.make(config.optimizer, steps)
    update = training.train_step(loss_fn, tx, config.optimizer, elementwise=True)
    batches = [batch(config, rows, length, seed) for seed in range(4)]
    params = jax.jit(network.init)(jax.random.key(0), batches[0])["params"]
    first = training.init_state(params, tx, jax.random.key(1), config.optimizer)
    copy = jax.jit(lambda state: jax.tree.map(jnp.copy, state))
    settings = dataclasses.replace(config.training, steps=steps, checkpoint_every=checkpoint_every)

    def bare(state: training.TrainState, folder: Path) -> None:
        sums = None
        for at in range(steps):
            state, sums = update(state, batches[at % len(batches)])
        jax.block_until_ready((state, sums))

    def watched(state: training.TrainState, folder: Path) -> None:
        _train(config, settings, folder, state, update, batches, _NoCheckpoints())

    def saved(state: training.TrainState, folder: Path) -> None:
        checkpoints = training.Checkpointer(folder / "checkpoints", settings.keep_checkpoints)
        try:
            _train(config, settings, folder, state, update, batches, checkpoints)
        finally:
            checkpoints.close()

    def spent(side) -> Spent:
        state = jax.block_until_ready(copy(first))
        with tempfile.TemporaryDirectory() as folder:
            begun = Spent.now()
            side(state, Path(folder))
            return begun.since()

    sides = (bare, watched, saved)
    for side in sides:  # compile, and fill the caches
        spent(side)
    found = []
    for number in range(rounds):
        order = [sides[(number + i) % len(sides)] for i in range(len(sides))]
        found.append({side.__name__: spent(side) for side in order})
    often = checkpoint_every / config.training.checkpoint_every
    return {
        "machine": machine.describe(["jax", "jaxlib", "orbax-checkpoint"]),
        "parameters": model.count(params),
        "batch": [rows, length],
        "updates": steps,
        "log_every": settings.log_every,
        "checkpoint_every": checkpoint_every,
        "as_configured_every": config.training.checkpoint_every,
        **{clock: _compared(found, clock, steps, often) for clock in Spent._fields},
    }


def _compared(
    found: Sequence[dict[str, Spent]], clock: str, steps: int, often: float
) -> dict[str, Any]:
    """Seconds of a bare update, and how many times as many it takes watched, and saved too.

    `often` is how often the configuration saves, as a part of how often was saved here.
    """
    bare, watched, saved = (
        [getattr(spent[side], clock) for spent in found] for side in ("bare", "watched", "saved")
    )
    cost_of_saving = statistics.median(b - a for a, b in zip(watched, saved, strict=True))
    watching = [b / a for a, b in zip(bare, watched, strict=True)]
    saving = [b / a for a, b in zip(bare, saved, strict=True)]
    base = statistics.median(bare)
    return {
        "bare": base / steps,
        "watched": [round(ratio, 4) for ratio in watching],
        "watched_ratio": round(statistics.median(watching), 4),
        "saved": [round(ratio, 4) for ratio in saving],
        "saved_ratio": round(statistics.median(saving), 4),
        "as_configured_ratio": round(
            statistics.median(watching) + often * cost_of_saving / base, 4
        ),
    }


def _train(config, settings: TrainingConfig, folder: Path, state, update, batches, checkpoints):
    training.run(
        state,
        steps=settings.steps,
        next_batches=itertools.cycle(batches),
        step_fn=update,
        evaluate=None,
        checkpointer=checkpoints,
        monitor=training.Monitor(folder, settings.steps, log_every=settings.log_every),
        config=settings,
        telemetry=training.Telemetry(config.optimizer, settings.steps),
    )
