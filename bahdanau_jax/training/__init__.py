"""Training: the update, the state on disk, the loop and what it reports."""

from bahdanau_jax.training.ahead import Ahead
from bahdanau_jax.training.checkpoint import Checkpointer
from bahdanau_jax.training.loop import Diverged, Interrupted, Outcome, run
from bahdanau_jax.training.monitor import METRICS, TIMES, Monitor, lock
from bahdanau_jax.training.optimizer import OPTIMIZERS, SCHEDULES, make
from bahdanau_jax.training.parallel import check_batch_size, mesh, replicate, shard
from bahdanau_jax.training.step import (
    LOSS_SCALES,
    StepSums,
    TrainState,
    eval_step,
    init_state,
    train_step,
)

__all__ = [
    "LOSS_SCALES",
    "METRICS",
    "OPTIMIZERS",
    "SCHEDULES",
    "TIMES",
    "Ahead",
    "Checkpointer",
    "Diverged",
    "Interrupted",
    "Monitor",
    "Outcome",
    "StepSums",
    "TrainState",
    "check_batch_size",
    "eval_step",
    "init_state",
    "lock",
    "make",
    "mesh",
    "replicate",
    "run",
    "shard",
    "train_step",
]
