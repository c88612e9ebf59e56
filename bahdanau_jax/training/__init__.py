"""Training: the update, the state on disk, the loop and what it reports."""

from bahdanau_jax.training.checkpoint import Checkpointer
from bahdanau_jax.training.hosts import (
    Silent,
    agreed,
    awaited,
    first,
    first_then_others,
    joined,
    together,
)
from bahdanau_jax.training.loop import Diverged, Interrupted, Outcome, run
from bahdanau_jax.training.monitor import METRICS, TIMES, Monitor, lock
from bahdanau_jax.training.optimizer import OPTIMIZERS, SCHEDULES, make
from bahdanau_jax.training.parallel import (
    BACKENDS,
    SHARDINGS,
    Backend,
    Jit,
    Pmap,
    gathered,
    memory,
    mesh,
    replicate,
    shard,
)
from bahdanau_jax.training.step import (
    LOSS_SCALES,
    StepSums,
    TrainState,
    eval_step,
    init_state,
    train_step,
)

__all__ = [
    "BACKENDS",
    "SHARDINGS",
    "Backend",
    "Jit",
    "Pmap",
    "Silent",
    "agreed",
    "awaited",
    "first",
    "first_then_others",
    "gathered",
    "joined",
    "memory",
    "LOSS_SCALES",
    "METRICS",
    "OPTIMIZERS",
    "SCHEDULES",
    "TIMES",
    "Checkpointer",
    "Diverged",
    "Interrupted",
    "Monitor",
    "Outcome",
    "StepSums",
    "TrainState",
    "eval_step",
    "init_state",
    "lock",
    "make",
    "mesh",
    "replicate",
    "run",
    "shard",
    "together",
    "train_step",
]
