"""Reads checkpoints by Orbax: which steps of a folder are readable, and the arrays of one."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from orbax.checkpoint import v1 as orbax

from bahdanau_jax.checkpoints.orbax_errors import Damaged, reading
from bahdanau_jax.distributed import holds_everywhere, process_index_of_orbax
from bahdanau_jax.run_folder import steps_in

Value = TypeVar("Value")


class ReadableSteps:
    """Orbax's standard names of checkpoint folders, without those whose metadata it cannot read.

    Otherwise one damaged folder makes all unreadable: Orbax reads the times of all at its start.
    """

    def __init__(self):
        self._names = orbax.path.step.standard_name_format()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._names, name)

    def find_all(self, base_path: Any) -> Iterator[Any]:
        for step in steps_in(Path(base_path)):
            with contextlib.suppress(Damaged):
                entry = reading(
                    "it",
                    lambda step=step: self._names.find_step(base_path, step),
                    Path(base_path) / str(step),
                )
                if entry.commit_timestamp is not None:
                    yield entry


def load(folder: Path, items: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a checkpoint, like `items`, which may be some of them.

    These options let each process read alone: otherwise, all would wait for one that finds damage.
    Orbax 0.12.0 refuses that where replicas share the work of saving, even in reading.
    """
    options = orbax.Context()
    options.array.saving.use_replica_parallel = False
    options.pytree.loading.partial_load = True
    options.multiprocessing.primary_host = None
    options.multiprocessing.active_processes = {process_index_of_orbax()}
    with options:
        return orbax.load_checkpointables(str(folder), items)


def read_by_all(read: Callable[[], Value]) -> Value:
    """Return `read()` on every process. Where one process finds damage, all raise Damaged."""
    value, fault = None, None
    try:
        value = read()
    except Damaged as error:
        fault = error
    if not holds_everywhere(fault is None):
        raise fault or Damaged("another process cannot read it")
    return value  # pyright: ignore[reportReturnType]
