"""Training: the update, the state on disk, the loop and what it reports."""

from bahdanau_jax.training.loop import Interrupted, Outcome, run
from bahdanau_jax.training.monitor import Monitor, read_metrics
from bahdanau_jax.training.optimizer import (
    OPTIMIZERS,
    SCHEDULES,
    check_optimizer,
    make,
    optimizer_named,
    schedule,
)
from bahdanau_jax.training.precompilation import Ahead, once_a_shape
from bahdanau_jax.training.profiling import Profile
from bahdanau_jax.training.run_record import append_record, read_record
from bahdanau_jax.training.step import LOSS_SCALES, eval_step, init_state, train_step
from bahdanau_jax.training.telemetry import Telemetry

__all__ = [
    "LOSS_SCALES",
    "OPTIMIZERS",
    "SCHEDULES",
    "Ahead",
    "Interrupted",
    "Monitor",
    "Outcome",
    "Profile",
    "Telemetry",
    "append_record",
    "check_optimizer",
    "eval_step",
    "init_state",
    "make",
    "once_a_shape",
    "optimizer_named",
    "read_metrics",
    "read_record",
    "run",
    "schedule",
    "train_step",
]
