"""Training: the update, the state on disk, the loop and what it reports."""

from bahdanau_jax.training import parallel
from bahdanau_jax.training.ahead import Ahead, once_a_shape
from bahdanau_jax.training.checkpoint import Checkpointer
from bahdanau_jax.training.choosing import Chosen, Records
from bahdanau_jax.training.damage import Damaged
from bahdanau_jax.training.digest import difference, flatten, signature, unflatten
from bahdanau_jax.training.hosts import (
    Lost,
    agreed,
    awaited,
    first,
    first_then_others,
    joined,
    meet,
    together,
)
from bahdanau_jax.training.inventory import Entry, better, inventory, prune
from bahdanau_jax.training.locking import lock
from bahdanau_jax.training.loop import Diverged, Interrupted, Outcome, run
from bahdanau_jax.training.monitor import METRICS, TIMES, Monitor, read_metrics
from bahdanau_jax.training.optimizer import (
    OPTIMIZERS,
    SCHEDULES,
    check_optimizer,
    make,
    optimizer_named,
    schedule,
)
from bahdanau_jax.training.parallel import BACKENDS, SHARDINGS, Backend, Jit, Pmap
from bahdanau_jax.training.placement import gathered, memory, mesh, replicate, shard
from bahdanau_jax.training.profile import Profile
from bahdanau_jax.training.record import RECORD, append_record, read_record
from bahdanau_jax.training.step import (
    LOSS_SCALES,
    StepSums,
    TrainState,
    eval_step,
    init_state,
    train_step,
)
from bahdanau_jax.training.study import load_batch
from bahdanau_jax.training.telemetry import Telemetry

__all__ = [
    "BACKENDS",
    "LOSS_SCALES",
    "METRICS",
    "OPTIMIZERS",
    "RECORD",
    "SCHEDULES",
    "SHARDINGS",
    "TIMES",
    "Ahead",
    "Backend",
    "Checkpointer",
    "Chosen",
    "Damaged",
    "Diverged",
    "Entry",
    "Interrupted",
    "Jit",
    "Lost",
    "Monitor",
    "Outcome",
    "Pmap",
    "Profile",
    "Records",
    "StepSums",
    "Telemetry",
    "TrainState",
    "agreed",
    "append_record",
    "check_optimizer",
    "awaited",
    "better",
    "difference",
    "eval_step",
    "first",
    "first_then_others",
    "flatten",
    "gathered",
    "init_state",
    "inventory",
    "joined",
    "load_batch",
    "lock",
    "make",
    "meet",
    "memory",
    "mesh",
    "once_a_shape",
    "parallel",
    "optimizer_named",
    "prune",
    "read_metrics",
    "read_record",
    "replicate",
    "run",
    "schedule",
    "shard",
    "signature",
    "together",
    "train_step",
    "unflatten",
]
