"""Several processes as one training run: how they connect, synchronise and exchange values.

Every process runs the same program on its own devices and its own share of every batch. Only
process 0, the main process, writes files. All processes together save and restore checkpoints, and
each may write the batch of a gradient that was not finite.
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
from orbax.checkpoint import v1 as orbax

Value = TypeVar("Value")

HEARTBEAT_SECONDS = 20  # a process that is silent for this long counts as dead, and all others end
CONNECTING_SECONDS = 300  # the longest wait for the others at the start
BARRIER_MILLISECONDS = 7 * 24 * 3600 * 1000  # long enough to prepare any corpus

# Environment variables for the arguments of `connected` that are not given.
VARIABLES = ("BAHDANAU_COORDINATOR", "BAHDANAU_PROCESSES", "BAHDANAU_PROCESS_ID")

Environment = Mapping[str, str]


def _number(environment: Environment, name: str) -> int:
    value = environment.get(name, "")
    return int(value) if value.isdecimal() else 0


def _is_single(processes: int, environment: Environment) -> bool:
    """Whether the argument or, without one, its variable asks for a single process."""
    return (processes or _number(environment, "BAHDANAU_PROCESSES")) == 1


def _on_tpu(environment: Environment) -> bool:
    chips = glob.glob("/dev/accel*") or glob.glob("/dev/vfio/[0-9]*")
    return bool(chips) and importlib.util.find_spec("libtpu") is not None


# Clusters on which JAX finds the other processes by itself -> whether this process runs on one.
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

# Words in the errors of XLA and JAX where communication fails. They have no class of their own.
SILENCE = re.compile("UNAVAILABLE|DEADLINE_EXCEEDED|ABORTED|CANCELLED|Gloo|NCCL|onnection")


class Lost(ConnectionError):
    """Another process of this training ended, hangs or never connected: start all again."""

    @classmethod
    def while_running(cls, reason: str) -> Self:
        return cls(f"another process has ended or hangs: see what it printed ({reason})")


def is_lost(error: Exception) -> bool:
    """Whether an error means that another process of this training does not answer."""
    silent = isinstance(error, jax.errors.JaxRuntimeError) and SILENCE.search(str(error))
    return isinstance(error, Lost) or (is_distributed() and bool(silent))


def arrangement(
    coordinator: str, processes: int, process_id: int, environment: Environment
) -> dict[str, Any] | None:
    """The arguments for `jax.distributed.initialize`; None for a single process.

    Where `processes` or its variable is 1, all else is ignored. Raises ValueError where only some
    of the three arguments are given, or where they do not fit each other.

    >>> arrangement("10.0.0.1:4321", 2, 0, {})["num_processes"]
    2
    """
    if _is_single(processes, environment):
        return None
    arguments = (
        coordinator,
        str(processes) if processes else "",
        str(process_id) if process_id >= 0 else "",
    )
    values = [
        argument or environment.get(variable, "")
        for argument, variable in zip(arguments, VARIABLES, strict=True)
    ]
    if not any(values):
        return {} if any(shows(environment) for shows in CLUSTERS.values()) else None
    options = ("--coordinator", "--processes", "--process-id")
    if missing := [option for option, value in zip(options, values, strict=True) if not value]:
        raise ValueError(
            f"{' and '.join(missing)} missing: several processes need --coordinator HOST:PORT, "
            "--processes and --process-id, which counts from 0"
        )
    address, count, number = values
    if not count.isdecimal() or not number.isdecimal() or int(number) >= int(count):
        raise ValueError(
            f"process {number} of {count}: --process-id counts from 0, so it should be below "
            "--processes"
        )
    if not address.rpartition(":")[0] or not address.rpartition(":")[2].isdecimal():
        raise ValueError(f"--coordinator is {address!r}, but should be HOST:PORT")
    return {
        "coordinator_address": address,
        "num_processes": int(count),
        "process_id": int(number),
        "cluster_detection_method": "deactivate",
    }


def is_one_of_several(
    coordinator: str, processes: int, process_id: int, environment: Environment
) -> bool:
    """Whether these arguments of `connected` or the environment name other processes.

    >>> is_one_of_several("", 0, -1, {"BAHDANAU_PROCESSES": "2"})
    True
    """
    if _is_single(processes, environment):
        return False
    own = any(environment.get(name) for name in VARIABLES)
    return bool(coordinator or processes or process_id > 0 or own)


@contextlib.contextmanager
def connected(coordinator: str = "", processes: int = 0, process_id: int = -1) -> Iterator[None]:
    """Connect to the other processes of a training, if there are any. JAX must not be in use yet.

    Without arguments, JAX finds the others through SLURM, Open MPI, Kubernetes or Cloud TPU. Raises
    ValueError for arguments that do not fit and where JAX is in use, OSError where JAX does not
    understand the cluster, and Lost where another process does not answer, at the start or later.
    """
    arguments = arrangement(coordinator, processes, process_id, os.environ)
    if arguments is None:
        if devices := os.environ.get("JAX_LOCAL_DEVICE_IDS"):  # which only `initialize` reads
            jax.config.update("jax_cuda_visible_devices", devices)
            jax.config.update("jax_rocm_visible_devices", devices)
        yield
        return
    try:
        jax.distributed.initialize(
            **arguments,
            initialization_timeout=CONNECTING_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except ValueError as error:  # starting again would not help
        raise OSError(f"cannot join the other processes: {error}") from error
    except RuntimeError as error:
        if "before any JAX" in str(error):
            raise ValueError(
                "code that the configuration names, or its file, computes with JAX when it is "
                "imported: processes connect before JAX is in use, so move that into a function"
            ) from error
        where = arguments.get("coordinator_address", "this cluster")
        raise Lost(
            f"cannot join the other processes of {where}: {error}; the address should be that of "
            "process 0, with a port that no other program uses there"
        ) from error
    _open.append(arguments)
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if not is_lost(error):
            raise
        reason = str(error).splitlines()[0]
        raise Lost.while_running(reason) from error
    _leave()  # where this process fails, it ends without waiting for the others


_open: list[dict[str, Any]] = []  # the arguments of a connection that is open


def _leave() -> None:
    """Close the connection together with all other processes."""
    jax.distributed.shutdown()
    _open.clear()


def is_connected() -> bool:
    """Whether the connection is open, so that Python waits for the other processes at its exit."""
    return bool(_open)


def _may_have_others() -> bool:
    """Whether JAX may know other processes. It starts its devices when it is asked for them."""
    return jax.distributed.is_initialized() or _on_tpu(os.environ)


def process_count() -> int:
    """The number of processes that train together; 1 for a process on its own.

    A process on its own does not start JAX's devices by this question, so that settings which JAX
    reads at their start can still be made afterwards (`training.dispatch_updates`).
    """
    return jax.process_count() if _may_have_others() else 1


def process_index() -> int:
    """The number of this process among them, from 0. It starts no devices, as `process_count`."""
    return jax.process_index() if _may_have_others() else 0


def process_index_of_orbax() -> int:
    """The number that Orbax gives this process. On a TPU, it can be another one than JAX's."""
    return orbax.multihost.process_index()


def is_distributed() -> bool:
    """Whether several processes train together."""
    return process_count() > 1


def is_main_process() -> bool:
    """Whether this is process 0, which writes files and messages. True for a single process."""
    return process_index() == 0


_barriers = itertools.count()


def barrier() -> None:
    """Wait until all processes have called this function. Every process must call it equally often.

    The processes wait on their hosts: unlike a collective of the devices, a barrier may take days.
    A single process does not wait.
    """
    wait = multihost.get_barrier_sync_fn()
    wait(key=f"bahdanau_{next(_barriers)}", timeout_ms=BARRIER_MILLISECONDS)


def main_process_first(work: Callable[[], Value]) -> Value:
    """Do the work on the main process, and then on the others, which find its files complete.

    Where the main process fails, all processes leave: the others raise OSError.
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
        _leave()
        raise failure or OSError("process 0 could not begin: see its error message")
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
