"""Devices and processes: which of them compute an update, and where its arrays are stored."""

from bahdanau_jax.distributed.arrangement import is_one_of_several
from bahdanau_jax.distributed.backends import BACKENDS, SHARDINGS, Backend, Jit
from bahdanau_jax.distributed.placement import gathered, memory_line, mesh, owned, template
from bahdanau_jax.distributed.processes import (
    Lost,
    barrier,
    broadcast,
    connected,
    holds_everywhere,
    is_connected,
    is_distributed,
    is_lost,
    is_main_process,
    main_process_first,
    preempted,
    process_count,
    process_index,
    process_index_of_orbax,
)

__all__ = [
    "BACKENDS",
    "SHARDINGS",
    "Backend",
    "Jit",
    "Lost",
    "barrier",
    "broadcast",
    "connected",
    "gathered",
    "holds_everywhere",
    "is_connected",
    "is_distributed",
    "is_lost",
    "is_main_process",
    "is_one_of_several",
    "main_process_first",
    "memory_line",
    "mesh",
    "owned",
    "preempted",
    "process_count",
    "process_index",
    "process_index_of_orbax",
    "template",
]
