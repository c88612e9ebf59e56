"""Where arrays live: one mesh over all devices, parameters everywhere, rows of a batch split."""

from typing import TypeVar

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

AXIS = "data"

Tree = TypeVar("Tree")


def mesh() -> Mesh:
    """All devices in a row, on the axis "data"; its axes are Auto, so pure functions run as is."""
    return jax.make_mesh((jax.device_count(),), (AXIS,), axis_types=(AxisType.Auto,))


def replicated(devices: Mesh) -> NamedSharding:
    return NamedSharding(devices, PartitionSpec())


def by_rows(devices: Mesh) -> NamedSharding:
    return NamedSharding(devices, PartitionSpec(AXIS))


def check_batch_size(batch_size: int, devices: Mesh) -> None:
    """Raises ValueError where the rows do not split evenly over the devices."""
    if over := batch_size % devices.size:
        fitting = batch_size - over + devices.size
        raise ValueError(
            f"{batch_size} rows do not split over {devices.size} devices: set data.batch_size to a "
            f"multiple of {devices.size}, such as {fitting}"
        )


def replicate(tree: Tree, devices: Mesh) -> Tree:
    """The same values on every device."""
    return jax.device_put(tree, replicated(devices))


def shard(batch: Tree, devices: Mesh) -> Tree:
    """A batch of host arrays, each [B, ...], its rows split over the devices.

    Raises ValueError where B is no multiple of the number of devices.

    >>> state, sums = step(replicate(state, devices), shard(batch, devices))
    """
    rows = by_rows(devices)

    def place(array):
        check_batch_size(len(array) * jax.process_count(), devices)
        return jax.make_array_from_process_local_data(rows, array)

    return jax.tree.map(place, batch)
