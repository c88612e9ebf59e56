"""Several processes as one training run: how they connect, synchronise and exchange values.

Every process runs the same program on its own devices and its own share of every batch. Only
process 0, the main process, writes files. All processes together save and restore checkpoints, and
each may write the batch of a gradient that was not finite.
"""

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from orbax.checkpoint import multihost
from orbax.checkpoint import v1 as orbax

from bahdanau_jax.distributed.arrangement import arrangement, on_tpu

Value = TypeVar("Value")

HEARTBEAT_SECONDS = 20  # a process that is silent for this long counts as dead, and all others end
CONNECTING_SECONDS = 300  # the longest wait for the others at the start
BARRIER_MILLISECONDS = 7 * 24 * 3600 * 1000  # long enough to prepare any corpus

# Words in the errors of XLA and JAX where communication fails. They have no class of their own.
SILENCE = re.compile("UNAVAILABLE|DEADLINE_EXCEEDED|ABORTED|CANCELLED|Gloo|NCCL|onnection")


class Lost(ConnectionError):
    """Another process of this training ended, hangs or never connected: start all again."""

    @classmethod
    def while_running(cls, reason: str) -> Self:
        """The error of a process that was there and answers no more; `reason` is JAX's own."""
        return cls(f"another process has ended or hangs: see what it printed ({reason})")


def is_lost(error: Exception) -> bool:
    """Whether an error means that another process of this training does not answer."""
    silent = isinstance(error, jax.errors.JaxRuntimeError) and SILENCE.search(str(error))
    return isinstance(error, Lost) or (is_distributed() and bool(silent))


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
    except Exception as error:
        if (told := _cannot_join(error, arguments)) is None:
            raise
        raise told from error
    _open.append(arguments)
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if not is_lost(error):
            raise
        reason = str(error).splitlines()[0]
        raise Lost.while_running(reason) from error
    _leave()  # where this process fails, it ends without waiting for the others


def _cannot_join(error: Exception, arguments: Mapping[str, Any]) -> Exception | None:
    """The error to raise where this process cannot join the others; None for one of the program.

    Without `arguments`, a library of the cluster may raise errors of its own classes.
    """
    if isinstance(error, RuntimeError) and "before any JAX" in str(error):
        return ValueError(
            "code that the configuration names, or its file, computes with JAX when it is "
            "imported: processes connect before JAX is in use, so move that into a function"
        )
    silent = isinstance(error, jax.errors.JaxRuntimeError) or "Retry failed" in str(error)
    if isinstance(error, RuntimeError) and (arguments or silent):
        where = arguments.get("coordinator_address", "this cluster")
        return Lost(
            f"cannot join the other processes of {where}: {error}; the address should be that of "
            "process 0, with a port that no other program uses there"
        )
    if arguments and not isinstance(error, ValueError):
        return None
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    advice = (
        "name them by --coordinator HOST:PORT, --processes and --process-id, or train alone by "
        "--processes 1"
    )
    return OSError(
        f"cannot join the other processes: {reason}{'' if arguments else f'; {advice}'}"
    )  # starting again would not help


_open: list[dict[str, Any]] = []  # the arguments of a connection that is open


def _leave() -> None:
    """Close the connection together with all other processes. Raises Lost where one is gone."""
    try:
        jax.distributed.shutdown()
    except jax.errors.JaxRuntimeError as error:
        raise Lost.while_running(str(error).splitlines()[0]) from error
    _open.clear()


def is_connected() -> bool:
    """Whether the connection is open, so that Python waits for the other processes at its exit."""
    return bool(_open)


def _may_have_others() -> bool:
    """Whether JAX may know other processes. It starts its devices when it is asked for them."""
    return jax.distributed.is_initialized() or on_tpu(os.environ)


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
        with contextlib.suppress(Lost):
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
    barrier()  # collectives of the devices time out while the slowest process reads a checkpoint
    return bool(multihost_utils.process_allgather(np.asarray(condition)).all())


def preempted(step: int) -> bool:
    """Whether all processes should stop before this step because one of them received SIGTERM.

    Every process must ask at every step, and all get the same answer.
    """
    return multihost_utils.reached_preemption_sync_point(step)
