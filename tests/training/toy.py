"""A model, a task and a whole run, small enough to be killed at every step.

As a program: python toy.py WORKDIR [kill-step=N | kill-save=N | kill-evaluation=N | term-step=N]
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax import run_folder, training
from bahdanau_jax.batch import Batch, pad
from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.config import OptimizerConfig, TrainingConfig
from bahdanau_jax.training.optimizer import make
from bahdanau_jax.training.step import init_state, train_step

VOCABULARY, SIZE, ROWS, LENGTH = 11, 5, 8, 7
OPTIMIZER = OptimizerConfig(ema=0.9, schedule="cosine", warmup_steps=3)
CONFIG = TrainingConfig(
    steps=14, log_every=5, evaluate_every=4, checkpoint_every=3, keep_checkpoints=2
)


class Sums(NamedTuple):
    loss: jax.Array
    nll: jax.Array
    words: jax.Array
    correct: jax.Array
    sentences: jax.Array


def init(seed: int = 0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.normal(0, 0.3, shape).astype(dtype))  # noqa: E731
    return {"embedding": draw(VOCABULARY, SIZE), "out": {"W": draw(SIZE, VOCABULARY)}}


def loss_fn(params, batch: Batch, key) -> Sums:
    """Every target word is guessed from the mean of the source's embeddings."""
    embedded = params["embedding"][batch.source] * batch.source_mask[..., None]
    mean = embedded.sum(1) / jnp.maximum(batch.source_mask.sum(1), 1)[:, None]
    if key is not None:
        kept = jax.vmap(lambda key: jax.random.bernoulli(key, 0.8, (SIZE,)))(key)
        mean = mean * kept / 0.8
    logp = jax.nn.log_softmax(mean @ params["out"]["W"])
    counted = batch.target_mask * batch.weight[:, None]
    chosen = jnp.take_along_axis(logp, batch.target, axis=1)
    nll = -(chosen * counted).sum()
    correct = ((logp.argmax(-1)[:, None] == batch.target) * counted).sum()
    return Sums(nll, nll, counted.sum(), correct, batch.weight.sum())


def batch(step: int, rows: int = ROWS) -> Batch:
    """The batch of a step, which is a pure function of the step."""
    rng = np.random.default_rng((7, step))
    sides = []
    for _ in range(2):
        lengths = rng.integers(1, LENGTH + 1, rows)
        sides += pad([rng.integers(1, VOCABULARY, n) for n in lengths], LENGTH)
    return Batch(*sides, np.ones(rows, np.float32))


def batches(start: int):
    while True:
        yield batch(start)
        start += 1


def parts(optimizer: OptimizerConfig = OPTIMIZER, steps: int = CONFIG.steps):
    """(fresh state, jitted step)"""
    tx = make(optimizer, steps)
    state = init_state(init(), tx, jax.random.key(3), optimizer)
    return state, train_step(loss_fn, tx, optimizer, elementwise=True)


def score(state) -> dict[str, float]:
    sums = EVALUATE(state.weights, batch(10_000))
    return {"dev_score": -float(sums.nll), "dev_loss": float(sums.nll / sums.words)}


EVALUATE = jax.jit(lambda params, batch: loss_fn(params, batch, None))


def train(workdir: Path, step_fn, config: TrainingConfig = CONFIG, evaluate=score, **kwargs):
    """Start or resume the run in `workdir`."""
    state, _ = parts()
    checkpoints = Checkpointer(workdir / "checkpoints", config.keep_checkpoints)
    kwargs.get("wrap", lambda checkpoints: None)(checkpoints)
    kwargs.pop("wrap", None)
    try:
        state = checkpoints.restore(state) or state
        monitor = training.Monitor(workdir, config.steps, log_every=config.log_every, epoch_steps=6)
        phases = training.OneRun(
            evaluate,
            checkpoints,
            monitor,
            config,
            config.steps,
            **{name: kwargs.pop(name) for name in ("max_nonfinite", "telemetry") if name in kwargs},
        )
        return training.run(
            state,
            phases=phases,
            next_batches=kwargs.pop("next_batches", batches)(int(state.step)),
            step_fn=step_fn,
            **kwargs,
        )
    finally:
        checkpoints.close()


def main(workdir: str, *how: str) -> None:
    event, _, at = (how[0] if how else "never=0").partition("=")
    at, (_, step), count = int(at), parts(), {"save": 0, "evaluation": 0}

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def step_fn(state, batch):
        now = int(state.step) + 1
        result = step(state, batch)
        if event == "kill-step" and now == at:
            die()
        if event == "term-step" and now == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    def evaluate(state):
        count["evaluation"] += 1
        if event == "kill-evaluation" and count["evaluation"] == at:
            die()
        return score(state)

    def wrap(checkpoints):
        save = checkpoints.save

        def dying(*args):
            save(*args)
            count["save"] += 1
            if event == "kill-save" and count["save"] == at:
                time.sleep(float(np.random.default_rng().uniform(0, 0.02)))
                die()

        checkpoints.save = dying

    with run_folder.lock(Path(workdir)):
        _, outcome = train(Path(workdir), step_fn, evaluate=evaluate, wrap=wrap)
    print(outcome)


if __name__ == "__main__":
    main(*sys.argv[1:])
