"""How one update runs on all devices: two back ends with the same numbers.

Rows of a batch are split over the devices, and every device has the parameters. Each update runs
one all-reduce: the sum over the devices of the loss, the counts and the gradients of their rows.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh

from bahdanau_jax.compiler_faults import PLAIN_REDUCTIONS
from bahdanau_jax.distributed.placement import (
    AXIS,
    by_rows,
    platform,
    put,
    replicate,
    replicated,
    shard,
    split,
)

Tree = TypeVar("Tree")
Step = Callable[[Any, Any], tuple[Any, Any]]  # (state, batch) -> (state, sums)

# Values of `training.shard`: the leaves of a state that are split over the devices, not copied.
SHARDINGS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "none": re.compile(r"(?!)"),
        "optimizer": re.compile(r"(opt_state|ema)/"),
        "vocabulary": re.compile(
            r"(opt_state|ema)/|params/((source|target)_embedding/E|output/W_o)$"
        ),
    }
)

# Platform -> the number of elements of a parameter that training/blockwise.py updates at a time.
BLOCKS: Mapping[str, int] = MappingProxyType({"cpu": 2**26})

# Platform -> options of its compiler. The default scheduler of a CPU runs operations concurrently:
# it needs more memory and saves little time (docs/performance.md).
COMPILER: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "cpu": {
            "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
            **PLAIN_REDUCTIONS["cpu"],
        }
    }
)


class Backend(Protocol):
    """How an update runs on all devices. `rows` and `total` are called within the compiled step."""

    @property
    def devices(self) -> Mesh: ...

    @property
    def block(self) -> int:
        """The number of elements that an elementwise optimiser updates at a time; 0: all."""
        ...

    def shardings(self, state: Any) -> Any:
        """The sharding of each leaf of a state."""
        ...

    def place(self, state: Tree) -> Tree:
        """Lay a state of whole arrays out on the devices, as compiled steps take it."""
        ...

    def feed(self, batch: Tree) -> Tree:
        """Lay this process's share of a batch out on its devices, as compiled steps take it."""
        ...

    def rows(self, batch: Any) -> jax.Array:
        """The index in the global batch of each row that the step sees."""
        ...

    def total(self, sums: Callable[..., Tree], params: Any, batch: Any, keys: Any) -> Tree:
        """Add `sums(params, batch, keys)` of each device's rows up over all devices."""
        ...

    def compile(self, step: Step) -> Step:
        """Compile the step for all devices. Each call consumes (donates) its state."""
        ...


@dataclass(frozen=True)
class Jit:
    """`jax.jit` over a mesh. The leaves that `shard` selects are split over it."""

    devices: Mesh
    shard: str = "none"

    @property
    def block(self) -> int:
        return BLOCKS.get(platform(self.devices), 0) if self.shard == "none" else 0

    def shardings(self, state: Any) -> Any:
        pattern = SHARDINGS[self.shard]

        def sharding(path, leaf):
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            return split(leaf.shape if pattern.match(name) else (), self.devices)

        return jax.tree_util.tree_map_with_path(sharding, state)

    def place(self, state: Tree) -> Tree:
        return jax.tree.map(put, state, self.shardings(state))

    def feed(self, batch: Tree) -> Tree:
        return shard(batch, self.devices)

    def rows(self, batch: Any) -> jax.Array:
        return jnp.arange(len(batch.weight))

    def total(self, sums: Callable[..., Tree], params: Any, batch: Any, keys: Any) -> Tree:
        """Give the rows of each device an axis of their own, and sum over this axis at the end.

        Without it, the compiler runs an all-reduce wherever a gradient is computed, also in every
        iteration of a loop.
        """
        if self.devices.size == 1:
            return sums(params, batch, keys)
        rows = by_rows(self.devices)

        def by_device(leaf):
            leaf = leaf.reshape(self.devices.size, -1, *leaf.shape[1:])
            return lax.with_sharding_constraint(leaf, rows)

        batch, keys = jax.tree.map(by_device, (batch, keys))
        params = lax.with_sharding_constraint(params, replicated(self.devices))
        device_sums = jax.vmap(sums, (None, 0, 0), spmd_axis_name=self.devices.axis_names)
        return jax.tree.map(lambda x: jnp.sum(x, 0), device_sums(params, batch, keys))

    def compile(self, step: Step) -> Step:
        if self.shard == "none":
            return self.laid_out(step, replicated(self.devices))
        return _Split(self, step)

    def laid_out(self, step: Step, layout: Any) -> Any:
        """The jitted step for states of this layout: a sharding, or a tree of shardings."""
        shardings = (layout, by_rows(self.devices)), (layout, replicated(self.devices))
        return jax.jit(
            step,
            donate_argnums=0,
            in_shardings=shardings[0],
            out_shardings=shardings[1],
            compiler_options=COMPILER.get(platform(self.devices)),
        )


class _Split:
    """A step for sharded states. It is jitted at the first call, which shows their layout."""

    def __init__(self, backend: Jit, step: Step):
        self._backend, self._step, self._jitted = backend, step, None

    def _compiled(self, state: Any) -> Any:
        if self._jitted is None:
            self._jitted = self._backend.laid_out(self._step, self._backend.shardings(state))
        return self._jitted

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        return self._compiled(state)(state, batch)

    def lower(self, state: Any, batch: Any) -> Any:
        return self._compiled(state).lower(state, batch)

    def _cache_size(self) -> int:
        return self._jitted._cache_size() if self._jitted else 0


@dataclass(frozen=True)
class Pmap:
    """`jax.pmap`: the step as one device runs it, with an explicit all-reduce.

    Raises ValueError for devices of several processes.
    """

    devices: Mesh

    def __post_init__(self):
        if self.devices.is_multi_process:
            raise ValueError(
                "training.parallel pmap is for the devices of one process: set it to jit, whose "
                "updates are the same"
            )

    @property
    def block(self) -> int:
        return BLOCKS.get(platform(self.devices), 0)

    def shardings(self, state: Any) -> Any:
        return jax.tree.map(lambda leaf: replicated(self.devices), state)

    def place(self, state: Tree) -> Tree:
        return replicate(state, self.devices)

    def feed(self, batch: Tree) -> Tree:
        devices = self.devices.local_mesh.size
        return jax.tree.map(lambda leaf: leaf.reshape(devices, -1, *leaf.shape[1:]), batch)

    def rows(self, batch: Any) -> jax.Array:
        height = len(batch.weight)
        return lax.axis_index(AXIS) * height + jnp.arange(height)

    def total(self, sums: Callable[..., Tree], params: Any, batch: Any, keys: Any) -> Tree:
        return lax.psum(sums(params, batch, keys), AXIS)

    def compile(self, step: Step) -> Step:
        axes: Any = {
            "in_axes": (None, 0),
            "out_axes": None,
        }  # its annotations know no None
        order = list(self.devices.devices.flat)
        return jax.pmap(step, AXIS, devices=order, donate_argnums=0, **axes)


# Values of `training.parallel`: (devices, name of SHARDINGS) -> the back end.
BACKENDS: Mapping[str, Callable[[Mesh, str], Backend]] = MappingProxyType(
    {"jit": Jit, "pmap": lambda devices, shard: Pmap(devices)}
)
