"""Where arrays live: on all devices alike, or split over them.

A mesh has an axis for each prime factor of the number of devices, so that an array can be split
over a part of them.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

Tree = TypeVar("Tree")
AXIS = "data"


def mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """All devices, process after process, on an axis for each prime factor of their number.

    With these axes an array can be split over a part of the devices. Auto axes: pure functions run
    as they are.
    """
    found = jax.devices() if devices is None else devices
    ordered = sorted(found, key=lambda device: (device.process_index, device.id))
    sizes = _factors(len(ordered))
    return Mesh(
        np.array(ordered).reshape(sizes),
        tuple(f"{AXIS}{i}" for i in range(len(sizes))),
        axis_types=(AxisType.Auto,) * len(sizes),
    )


def platform(devices: Mesh) -> str:
    """cpu, gpu or tpu."""
    return devices.devices.flat[0].platform


def _factors(number: int) -> tuple[int, ...]:
    """Its prime factors, the smallest first; (1,) for 1."""
    for prime in range(2, math.isqrt(number) + 1):
        if number % prime == 0:
            return prime, *_factors(number // prime)
    return (number,)


def replicated(devices: Mesh) -> NamedSharding:
    return NamedSharding(devices, PartitionSpec())


def by_rows(devices: Mesh) -> NamedSharding:
    return NamedSharding(devices, PartitionSpec(devices.axis_names))


def split(shape: tuple[int, ...], devices: Mesh) -> NamedSharding:
    """An array cut into as many equal parts as its shape allows, without padding.

    Each axis of the mesh cuts the first dimension that it still divides, so 30,000 words are cut
    8 times over 8 devices, and 30,001 x 620 four times, along 620. Vectors are not cut.
    """
    left, axes = list(shape), [[] for _ in shape]
    for axis, size in devices.shape.items() if len(shape) > 1 else ():
        for i, length in enumerate(left):
            if length % size == 0:
                left[i] //= size
                axes[i].append(axis)
                break
    return NamedSharding(devices, PartitionSpec(*(tuple(names) or None for names in axes)))


def put(leaf: Any, sharding: NamedSharding) -> jax.Array:
    """The whole array, that every process has, laid out by `sharding` over all processes.

    The result owns its memory: an update cannot reuse a view of another array's, and copies it.
    """
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        whole = NamedSharding(sharding.mesh, PartitionSpec())
        data = put(jax.random.key_data(leaf), whole)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    host, own = np.asarray(leaf), {"may_alias": False}  # which a NumPy array alone would not obey
    parts = [
        jax.device_put(jax.device_put(host[index], device), device, **own)
        for device, index in sharding.addressable_devices_indices_map(host.shape).items()
    ]
    return jax.make_array_from_single_device_arrays(host.shape, sharding, parts)


def owned(tree: Tree) -> Tree:
    """The same arrays, each in memory of its own, which an update can reuse; all processes ask."""
    return jax.tree.map(jnp.copy, tree)


def replicate(tree: Tree, devices: Mesh) -> Tree:
    """The same values on every device."""
    return jax.tree.map(lambda leaf: put(leaf, replicated(devices)), tree)


def shard(batch: Tree, devices: Mesh) -> Tree:
    """A batch of host arrays, each [B, ...], its rows split over the devices.

    Of several processes, each gives its share of the rows. Raises ValueError where B is no multiple
    of the number of devices.

    >>> state, sums = step(replicate(state, devices), shard(batch, devices))
    """
    rows, processes = by_rows(devices), len({d.process_index for d in devices.devices.flat})

    def place(array):
        height = len(array) * processes
        if height % devices.size:
            raise ValueError(f"{height} rows do not split over {devices.size} devices")
        return jax.make_array_from_process_local_data(rows, array)

    return jax.tree.map(place, batch)


def gathered(tree: Tree) -> Tree:
    """The whole of every array on this process's first device; all processes must ask."""

    def whole(leaf):
        if not leaf.is_fully_replicated:
            leaf = jax.jit(lambda x: x, out_shardings=replicated(leaf.sharding.mesh))(leaf)
        return leaf.addressable_shards[0].data

    return jax.tree.map(whole, tree)


def held(tree: Any) -> tuple[int, int]:
    """(bytes of a tree on each device, bytes of it where nothing is split)."""

    def size(leaf, shape) -> int:
        return math.prod(shape) * leaf.dtype.itemsize

    leaves = jax.tree.leaves(tree)
    mine = (size(leaf, leaf.sharding.shard_shape(leaf.shape)) for leaf in leaves)
    return sum(mine), sum(size(leaf, leaf.shape) for leaf in leaves)


def memory(state: Any, devices: Mesh) -> str:
    """What a device holds of a state, in a line for people."""
    mine, whole = (size / 1e6 for size in held(state))
    text = f"{devices.size} devices, each with {mine:,.1f} MB of parameters and optimiser state"
    return f"{text}; {whole - mine:,.1f} MB saved by training.shard" if mine < whole else text
