"""Where arrays live, and how one update runs on all devices: two back ends with the same numbers.

Rows of a batch are split over the devices; parameters are on every one. An update needs one
message: the sum over the devices of the loss, the counts and the gradients of each one's rows.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

Tree = TypeVar("Tree")
Step = Callable[[Any, Any], tuple[Any, Any]]  # (state, batch) -> (state, sums)

AXIS = "data"

# Values of `training.shard`: which leaves of a state are split over the devices instead of copied.
SHARDINGS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "none": re.compile(r"(?!)"),
        "optimizer": re.compile(r"(opt_state|ema)/"),
        "vocabulary": re.compile(
            r"(opt_state|ema)/|params/((source|target)_embedding/E|output/W_o)$"
        ),
    }
)


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
    """The whole array, that every process has, laid out by `sharding` over all processes."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        whole = NamedSharding(sharding.mesh, PartitionSpec())
        data = put(jax.random.key_data(leaf), whole)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


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


class Backend(Protocol):
    """How an update runs on all devices. `rows` and `total` are for the step that is compiled."""

    @property
    def devices(self) -> Mesh: ...

    def place(self, state: Tree) -> Tree:
        """A state of whole arrays, as `compile`d steps take it; the same numbers anywhere."""
        ...

    def feed(self, batch: Tree) -> Tree:
        """This process's share of a batch, as `compile`d steps take it."""
        ...

    def rows(self, batch: Any) -> jax.Array:
        """The number within the global batch of each row of the batch at hand."""
        ...

    def total(self, sums: Callable[..., Tree], params: Any, batch: Any, keys: Any) -> Tree:
        """`sums(params, batch, keys)` of each device's own rows, added up over all devices."""
        ...

    def compile(self, step: Step) -> Step:
        """The step on all devices. The state it is given is consumed."""
        ...


@dataclass(frozen=True)
class Jit:
    """`jax.jit` over a mesh, with what `shard` names split over it."""

    devices: Mesh
    shard: str = "none"

    def shardings(self, state: Any) -> Any:
        """The sharding of each leaf of a state."""
        pattern = SHARDINGS[self.shard]

        def one(path, leaf):
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            chosen = leaf.shape if pattern.match(name) else ()
            return split(chosen, self.devices)

        return jax.tree_util.tree_map_with_path(one, state)

    def place(self, state: Tree) -> Tree:
        return jax.tree.map(put, state, self.shardings(state))

    def feed(self, batch: Tree) -> Tree:
        return shard(batch, self.devices)

    def rows(self, batch: Any) -> jax.Array:
        return jnp.arange(len(batch.weight))

    def total(self, sums: Callable[..., Tree], params: Any, batch: Any, keys: Any) -> Tree:
        """The rows of each device get an axis of their own, and the sum over it is the message.

        Left to itself, the compiler adds up a gradient wherever one is made, also in every turn of
        a loop.
        """
        if self.devices.size == 1:
            return sums(params, batch, keys)
        rows = by_rows(self.devices)

        def apart(leaf):
            leaf = leaf.reshape(self.devices.size, -1, *leaf.shape[1:])
            return lax.with_sharding_constraint(leaf, rows)

        batch, keys = jax.tree.map(apart, (batch, keys))
        params = lax.with_sharding_constraint(params, replicated(self.devices))
        each = jax.vmap(sums, (None, 0, 0), spmd_axis_name=self.devices.axis_names)
        return jax.tree.map(lambda x: jnp.sum(x, 0), each(params, batch, keys))

    def compile(self, step: Step) -> Step:
        if self.shard == "none":
            return self.laid_out(step, replicated(self.devices))
        return _Split(self, step)

    def laid_out(self, step: Step, layout: Any) -> Any:
        """The step for states of this layout, a sharding or a tree of them."""
        shardings = (layout, by_rows(self.devices)), (layout, replicated(self.devices))
        return jax.jit(
            step, donate_argnums=0, in_shardings=shardings[0], out_shardings=shardings[1]
        )


class _Split:
    """A step for states that are split: their layout is known when the first one comes."""

    def __init__(self, backend: Jit, step: Step):
        self._backend, self._step, self._made = backend, step, None

    def _compiled(self, state: Any) -> Any:
        if self._made is None:
            self._made = self._backend.laid_out(self._step, self._backend.shardings(state))
        return self._made

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        return self._compiled(state)(state, batch)

    def lower(self, state: Any, batch: Any) -> Any:
        return self._compiled(state).lower(state, batch)

    def _cache_size(self) -> int:
        return self._made._cache_size() if self._made else 0


@dataclass(frozen=True)
class Pmap:
    """`jax.pmap`: the step as one device sees it, with its one message written out.

    Raises ValueError for devices of several processes.
    """

    devices: Mesh

    def __post_init__(self):
        if self.devices.is_multi_process:
            raise ValueError(
                "training.parallel pmap is for the devices of one process: set it to jit, whose "
                "updates are the same"
            )

    def place(self, state: Tree) -> Tree:
        return replicate(state, self.devices)

    def feed(self, batch: Tree) -> Tree:
        here = self.devices.local_mesh.size
        return jax.tree.map(lambda leaf: leaf.reshape(here, -1, *leaf.shape[1:]), batch)

    def rows(self, batch: Any) -> jax.Array:
        height = len(batch.weight)
        return lax.axis_index(AXIS) * height + jnp.arange(height)

    def total(self, sums: Callable[..., Tree], params: Any, batch: Any, keys: Any) -> Tree:
        return lax.psum(sums(params, batch, keys), AXIS)

    def compile(self, step: Step) -> Step:
        axes: Any = {"in_axes": (None, 0), "out_axes": None}  # more than its annotations know
        order = list(self.devices.devices.flat)
        return jax.pmap(step, AXIS, devices=order, donate_argnums=0, **axes)


# Values of `training.parallel`, each from (devices, name of SHARDINGS) to the back end.
BACKENDS: Mapping[str, Callable[[Mesh, str], Backend]] = MappingProxyType(
    {"jit": Jit, "pmap": lambda devices, shard: Pmap(devices)}
)


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
