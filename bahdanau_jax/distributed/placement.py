"""Where arrays are stored: replicated on all devices, or split over them.

A mesh has an axis for each prime factor of the number of devices, so that an array can be split
over a part of them.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

Tree = TypeVar("Tree")
AXIS = "data"


def mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh of all devices, in the order of their processes, as many axes as prime factors.

    Its axes have the type Auto: the compiler chooses the shardings within pure functions.
    """
    devices = jax.devices() if devices is None else devices
    ordered = sorted(devices, key=lambda device: (device.process_index, device.id))
    sizes = _factors(len(ordered))
    return Mesh(
        np.array(ordered).reshape(sizes),
        tuple(f"{AXIS}{i}" for i in range(len(sizes))),
        axis_types=(AxisType.Auto,) * len(sizes),
    )


def platform(devices: Mesh) -> str:
    """The platform of the devices: cpu, gpu or tpu."""
    return devices.devices.flat[0].platform


def _factors(number: int) -> tuple[int, ...]:
    """The prime factors of a number, the smallest first; (1,) for 1."""
    for prime in range(2, math.isqrt(number) + 1):
        if number % prime == 0:
            return prime, *_factors(number // prime)
    return (number,)


def replicated(devices: Mesh) -> NamedSharding:
    """The sharding with a whole copy of an array on each device."""
    return NamedSharding(devices, PartitionSpec())


def by_rows(devices: Mesh) -> NamedSharding:
    """The sharding that splits the first dimension over all devices; it has to be divisible."""
    return NamedSharding(devices, PartitionSpec(devices.axis_names))


def split(shape: tuple[int, ...], devices: Mesh) -> NamedSharding:
    """The sharding that splits an array into as many equal parts as its shape allows, unpadded.

    Each axis of the mesh splits the first dimension whose rest it divides: over 8 devices,
    30,000 x 620 is split into 8 parts, and 30,001 x 620 into 4, along 620. Vectors are not split.
    """
    lengths, axes = list(shape), [[] for _ in shape]
    for axis, size in devices.shape.items() if len(shape) > 1 else ():
        for i, length in enumerate(lengths):
            if length % size == 0:
                lengths[i] //= size
                axes[i].append(axis)
                break
    return NamedSharding(devices, PartitionSpec(*(tuple(names) or None for names in axes)))


def put(leaf: Any, sharding: NamedSharding) -> jax.Array:
    """Lay out a whole array, which every process has, by `sharding` over all processes.

    The result owns its memory, so that an update can reuse it without a copy.
    """
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        whole = NamedSharding(sharding.mesh, PartitionSpec())
        data = put(jax.random.key_data(leaf), whole)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    host, own = np.asarray(leaf), {"may_alias": False}  # ignored for NumPy arrays
    parts = [
        jax.device_put(jax.device_put(host[index], device), device, **own)
        for device, index in sharding.addressable_devices_indices_map(host.shape).items()
    ]
    return jax.make_array_from_single_device_arrays(host.shape, sharding, parts)


def owned(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Move the arrays into memory of their own, which an update can reuse.

    `arrays` is empty afterwards: the memory of each is free before the next one is copied. All
    processes must call it.
    """
    return {name: _copy(arrays.pop(name)) for name in [*arrays]}


def _copy(array: jax.Array) -> jax.Array:
    """A copy on the same devices. `jnp.copy` would compile a program for each shape."""
    return jax.device_put(array, array.sharding, may_alias=False)


def template(state: Tree, shardings: Tree) -> Tree:
    """The shapes, types and shardings of a state, without its values."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        state,
        shardings,
    )


def replicate(tree: Tree, devices: Mesh) -> Tree:
    """Copy the values to every device."""
    return jax.tree.map(lambda leaf: put(leaf, replicated(devices)), tree)


def shard(batch: Tree, devices: Mesh) -> Tree:
    """Split the rows of a batch of host arrays, each [B, ...], over the devices.

    Each of several processes gives its share of the rows. Raises ValueError where B is no multiple
    of the number of devices.

    >>> state, sums = step(replicate(state, devices), shard(batch, devices))
    """
    rows, processes = by_rows(devices), len({d.process_index for d in devices.devices.flat})

    def place(array):
        height = len(array) * processes
        if height % devices.size:
            raise ValueError(f"{height} rows cannot be split evenly over {devices.size} devices")
        return jax.make_array_from_process_local_data(rows, array)

    return jax.tree.map(place, batch)


@functools.cache
def _replicating(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
    """The program that gives each device the whole array; one for each mesh and shape."""
    return jax.jit(lambda x: x, out_shardings=replicated(mesh))


def gathered(tree: Tree) -> Tree:
    """Gather every array on the first device of this process. All processes must call it.

    The arrays are bound to that device, as those of a loaded checkpoint are, so that a program
    compiled for the dev scores serves a trained run, too.
    """

    def whole(leaf):
        if not leaf.is_fully_replicated:
            leaf = _replicating(leaf.sharding.mesh)(leaf)
        first = leaf.addressable_shards[0]
        return jax.device_put(first.data, first.device)

    return jax.tree.map(whole, tree)


def bytes_of(tree: Any) -> tuple[int, int]:
    """(bytes of a tree on each device, its bytes if nothing were split)."""

    def size(leaf, shape) -> int:
        return math.prod(shape) * leaf.dtype.itemsize

    leaves = jax.tree.leaves(tree)
    shards = (size(leaf, leaf.sharding.shard_shape(leaf.shape)) for leaf in leaves)
    return sum(shards), sum(size(leaf, leaf.shape) for leaf in leaves)


def memory_line(state: Any, devices: Mesh) -> str:
    """One line for people: the memory of a state on each device."""
    shards, whole = (size / 1e6 for size in bytes_of(state))
    text = f"{devices.size} devices, each with {shards:,.1f} MB of parameters and optimiser state"
    return f"{text}; {whole - shards:,.1f} MB saved by training.shard" if shards < whole else text
