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


def run(config: Config, length: int, steps: int, pairs: int) -> dict[str, Any]:
    """Time `pairs` pairs of segments of `steps` updates, one bare and one as `train` runs it.

    The second writes metrics.jsonl and TensorBoard with telemetry at every training.log_every, and
    saves asynchronously at every training.checkpoint_every updates; dev scores are in neither.
    Returns seconds and CPU seconds an update of both, and the median over the pairs of with /
    without. A segment ends when its last save is on the disk.
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

    def bare() -> Spent:
        state = jax.block_until_ready(copy(first))
        begun, sums = Spent.now(), None
        for at in range(steps):
            state, sums = update(state, batches[at % len(batches)])
        jax.block_until_ready((state, sums))
        return begun.since()

    def watched() -> Spent:
        state = jax.block_until_ready(copy(first))
        with tempfile.TemporaryDirectory() as folder:
            begun = Spent.now()
            _train(config, Path(folder), state, steps, update, itertools.cycle(batches))
            return begun.since()

    for side in (bare, watched):  # compile, and fill the caches
        side()
    found = []
    for number in range(pairs):
        order = (bare, watched) if number % 2 == 0 else (watched, bare)
        spent = {one.__name__: one() for one in order}
        found.append((spent["bare"], spent["watched"]))
    return {
        "machine": machine.describe(["jax", "jaxlib", "orbax-checkpoint"]),
        "parameters": model.count(params),
        "batch": [rows, length],
        "updates": steps,
        "log_every": config.training.log_every,
        "checkpoint_every": config.training.checkpoint_every,
        **{clock: _compared(found, clock, steps) for clock in Spent._fields},
    }


def _compared(found: Sequence[tuple[Spent, Spent]], clock: str, steps: int) -> dict[str, Any]:
    """Seconds an update without and with, and how many times as many."""
    pairs = [(getattr(without, clock), getattr(with_, clock)) for without, with_ in found]
    ratios = [with_ / without for without, with_ in pairs]
    return {
        "without": statistics.median(without for without, _ in pairs) / steps,
        "with": statistics.median(with_ for _, with_ in pairs) / steps,
        "ratios": [round(ratio, 4) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 4),
    }


def _train(config: Config, folder: Path, state, steps: int, update, batches) -> None:
    settings: TrainingConfig = dataclasses.replace(config.training, steps=steps)
    checkpoints = training.Checkpointer(folder / "checkpoints", settings.keep_checkpoints)
    try:
        training.run(
            state,
            steps=steps,
            next_batches=batches,
            step_fn=update,
            evaluate=None,
            checkpointer=checkpoints,
            monitor=training.Monitor(folder, steps, log_every=settings.log_every),
            config=settings,
            telemetry=training.Telemetry(config.optimizer, steps),
        )
    finally:
        checkpoints.close()
