"""Training: the update, the loop around it, and the records of a run."""

from bahdanau_jax.training.dispatch import dispatch_updates
from bahdanau_jax.training.interruption import Signals
from bahdanau_jax.training.loop import run
from bahdanau_jax.training.many_runs import train_vmapped
from bahdanau_jax.training.monitor import Monitor, read_metrics
from bahdanau_jax.training.nonfinite_batch import load_batch
from bahdanau_jax.training.optimizer import check_optimizer, schedule
from bahdanau_jax.training.phases import Diverged, Interrupted, OneRun, Outcome
from bahdanau_jax.training.precompilation import Ahead
from bahdanau_jax.training.profiling import Profile
from bahdanau_jax.training.run_record import machine, read_record
from bahdanau_jax.training.settings import DEV_METRICS, faults, why_not_vmapped
from bahdanau_jax.training.step import TrainState
from bahdanau_jax.training.telemetry import Telemetry
from bahdanau_jax.training.trainer import Evaluator, Trainer, phases_of, train_and_evaluate
from bahdanau_jax.training.vmapped_update import DATA_ORDERS, OWN, SHARED

__all__ = [
    "OWN",
    "DATA_ORDERS",
    "DEV_METRICS",
    "SHARED",
    "Ahead",
    "Diverged",
    "Evaluator",
    "Interrupted",
    "Monitor",
    "OneRun",
    "Outcome",
    "Profile",
    "Signals",
    "Telemetry",
    "TrainState",
    "Trainer",
    "check_optimizer",
    "dispatch_updates",
    "faults",
    "load_batch",
    "machine",
    "phases_of",
    "read_metrics",
    "read_record",
    "run",
    "schedule",
    "train_and_evaluate",
    "train_vmapped",
    "why_not_vmapped",
]
