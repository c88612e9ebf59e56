"""Several processes as one training run: how they meet, who writes, and what they must agree on.

Every process runs the same program on its own devices and its own share of every batch. Process 0
alone writes; checkpoints are saved and restored by all together.
"""

import contextlib
import glob
import importlib.util
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Self, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from orbax.checkpoint import multihost

Value = TypeVar("Value")

HEARTBEAT_SECONDS = 20  # a process that is silent for so long is dead, and all others end
MEETING_SECONDS = 300  # to wait for the others at the start
PREPARING_MILLISECONDS = 7 * 24 * 3600 * 1000  # to wait for the first process to prepare the data

# Environment variables that say what `join`'s arguments do not.
VARIABLES = ("BAHDANAU_COORDINATOR", "BAHDANAU_PROCESSES", "BAHDANAU_PROCESS_ID")

Environment = Mapping[str, str]


def _number(environment: Environment, name: str) -> int:
    value = environment.get(name, "")
    return int(value) if value.isdecimal() else 0


def _on_tpu(environment: Environment) -> bool:
    chips = glob.glob("/dev/accel*") or glob.glob("/dev/vfio/[0-9]*")
    return bool(chips) and importlib.util.find_spec("libtpu") is not None


# What started this process together with others, by how the environment shows it. JAX then knows
# how to find them.
CLUSTERS: Mapping[str, Callable[[Environment], bool]] = MappingProxyType(
    {
        "SLURM": lambda environment: _number(environment, "SLURM_STEP_NUM_TASKS") > 1,
        "Open MPI": lambda environment: _number(environment, "OMPI_COMM_WORLD_SIZE") > 1,
        "Kubernetes": lambda environment: (
            {"KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"} <= environment.keys()
        ),
        "Cloud TPU": _on_tpu,
    }
)

# What XLA and JAX say where messages between processes fail, in place of a class for it.
SILENCE = re.compile("UNAVAILABLE|DEADLINE_EXCEEDED|ABORTED|CANCELLED|Gloo|NCCL|onnection")


class Lost(ConnectionError):
    """Another process of the same training ended, hangs or never came. All are to start again."""

    @classmethod
    def while_running(cls, reason: str) -> Self:
        return cls(f"another process has ended or hangs: see what it printed ({reason})")


def is_lost(error: Exception) -> bool:
    """Whether it says, of a process among several, that another one is silent."""
    silent = isinstance(error, jax.errors.JaxRuntimeError) and SILENCE.search(str(error))
    return isinstance(error, Lost) or (is_distributed() and bool(silent))


def arrangement(
    coordinator: str, processes: int, process_id: int, environment: Environment
) -> dict[str, Any] | None:
    """What `jax.distributed.initialize` is to be told; None for a process on its own.

    `processes` 1 is one on its own, whatever the environment says.

    Raises ValueError where the three are not given together, or do not fit.

    >>> arrangement("10.0.0.1:4321", 2, 0, {})["num_processes"]
    2
    """
    if processes == 1:
        return None
    given = [coordinator, str(processes) if processes else "", str(process_id)]
    if process_id < 0:
        given[2] = ""
    told = [mine or environment.get(name, "") for mine, name in zip(given, VARIABLES, strict=True)]
    if not any(told):
        return {} if any(shows(environment) for shows in CLUSTERS.values()) else None
    named = ("--coordinator", "--processes", "--process-id")
    if missing := [name for name, value in zip(named, told, strict=True) if not value]:
        raise ValueError(
            f"{' and '.join(missing)} missing: several processes need --coordinator HOST:PORT, "
            "--processes and --process-id, the last counted from 0"
        )
    address, count, number = told
    if not count.isdecimal() or not number.isdecimal() or int(number) >= int(count):
        raise ValueError(f"process {number} of {count}: --process-id counts from 0 to one less")
    if not address.rpartition(":")[0] or not address.rpartition(":")[2].isdecimal():
        raise ValueError(f"--coordinator is {address!r}, but should be HOST:PORT")
    if int(count) == 1:
        return None
    return {
        "coordinator_address": address,
        "num_processes": int(count),
        "process_id": int(number),
        "cluster_detection_method": "deactivate",
    }


@contextlib.contextmanager
def connected(coordinator: str = "", processes: int = 0, process_id: int = -1) -> Iterator[None]:
    """Together with the other processes, where there are any; before JAX is used for anything.

    Nothing given, they are found through SLURM, Open MPI, Kubernetes or Cloud TPU. Raises
    ValueError for arguments that do not fit, OSError where the cluster is not as JAX knows it, Lost
    where the others do not answer, or one of them is silent later.
    """
    told = arrangement(coordinator, processes, process_id, os.environ)
    if told is None:
        yield
        return
    try:
        jax.distributed.initialize(
            **told,
            initialization_timeout=MEETING_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except ValueError as error:  # starting again would not help
        raise OSError(f"cannot join the other processes: {error}") from error
    except RuntimeError as error:
        where = told.get("coordinator_address", "this cluster")
        raise Lost(
            f"cannot join the other processes of {where}: {error}; the address should be that of "
            "process 0, with a port that nothing else has there"
        ) from error
    _open.append(told)
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if not is_lost(error):
            raise
        reason = str(error).splitlines()[0]
        raise Lost.while_running(reason) from error
    _part()  # not where this process fails: it leaves alone


_open: list[dict[str, Any]] = []  # what this process joined and has not left


def _part() -> None:
    """Leave, all together."""
    jax.distributed.shutdown()
    _open.clear()


def is_connected() -> bool:
    """Whether Python would wait for the other processes before it exits."""
    return bool(_open)


def process_count() -> int:
    """The number of processes that train together; 1 for a process on its own."""
    return jax.process_count()


def process_index() -> int:
    """The number of this process among them, from 0."""
    return jax.process_index()


def is_distributed() -> bool:
    """Whether several processes train together."""
    return process_count() > 1


def is_main_process() -> bool:
    """Whether this is process 0, which writes files and messages. True for a single process."""
    return process_index() == 0


_meetings = itertools.count()


def barrier() -> None:
    """Wait until all processes have called this function. Every process must call it equally often.

    The processes wait on their hosts: unlike a collective of the devices, a barrier may take days.
    A single process does not wait.
    """
    barrier = multihost.get_barrier_sync_fn()
    barrier(key=f"bahdanau_{next(_meetings)}", timeout_ms=PREPARING_MILLISECONDS)


def main_process_first(work: Callable[[], Value]) -> Value:
    """The work of the first process, which the others then find done.

    Where the first one fails, all leave: the others with an OSError.
    """
    if not is_distributed():
        return work()
    result, failure = None, None
    if is_main_process():
        try:
            result = work()
        except Exception as error:
            failure = error
    barrier()  # collectives of the devices time out while process 0 prepares the data
    if multihost_utils.broadcast_one_to_all(np.int32(failure is not None)):
        _part()
        raise failure or OSError("the first process could not begin: its message says why")
    return result if result is not None else work()


def broadcast(scores: Mapping[str, float]) -> dict[str, float]:
    """The numbers of the main process, on every process. All processes give the same names."""
    if not is_distributed():
        return dict(scores)
    barrier()  # collectives of the devices time out while the slowest process evaluates
    bits = np.array(list(scores.values()), np.float64).view(np.uint32)  # JAX would round them
    numbers = np.asarray(multihost_utils.broadcast_one_to_all(bits)).view(np.float64)
    return dict(zip(scores, numbers.tolist(), strict=True))


def holds_everywhere(condition: bool) -> bool:
    """Whether the condition is true on every process. All processes must ask."""
    if not is_distributed():
        return condition
    return bool(multihost_utils.process_allgather(np.asarray(condition)).all())


def preempted(step: int) -> bool:
    """Whether all processes should stop before this step because one of them received SIGTERM.

    Every process must ask at every step, and all get the same answer.
    """
    return multihost_utils.reached_preemption_sync_point(step)
