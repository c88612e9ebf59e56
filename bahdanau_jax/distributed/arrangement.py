"""Which processes train together, by the arguments of a command and by its environment."""

import glob
import importlib.util
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

# Environment variables for the arguments of `connected` that are not given.
VARIABLES = ("BAHDANAU_COORDINATOR", "BAHDANAU_PROCESSES", "BAHDANAU_PROCESS_ID")

Environment = Mapping[str, str]


def _number(environment: Environment, name: str) -> int:
    value = environment.get(name, "")
    return int(value) if value.isdecimal() else 0


def _is_single(processes: int, environment: Environment) -> bool:
    """Whether the argument or, without one, its variable asks for a single process."""
    return (processes or _number(environment, "BAHDANAU_PROCESSES")) == 1


def on_tpu(environment: Environment) -> bool:
    """Whether this machine has TPU chips, and the library that JAX needs for them."""
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
        "Cloud TPU": on_tpu,
    }
)


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
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(
            f"--coordinator is {address!r}, but should be HOST:PORT, with a port from 1 to 65535"
        )
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
    # A machine with TPU cores may be one of several or not: only JAX knows.
    clusters = (shows for name, shows in CLUSTERS.items() if name != "Cloud TPU")
    found = any(shows(environment) for shows in clusters)
    return bool(coordinator or processes or process_id > 0 or own or found)
