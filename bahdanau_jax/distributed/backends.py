"""How one update runs on all devices: two back ends with the same numbers.

Rows of a batch are split over the devices; parameters are on every one. An update needs one
message: the sum over the devices of the loss, the counts and the gradients of each one's rows.
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

# Platform -> how many numbers of a parameter `training.blockwise` updates at a time.
BLOCKS: Mapping[str, int] = MappingProxyType({"cpu": 2**26})

# Platform -> options of its compiler. A CPU's default order of operations keeps more arrays alive,
# for operations side by side, and gains little time by it: docs/performance.md.
COMPILER: Mapping[str, dict[str, Any]] = MappingProxyType(
    {"cpu": {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}}
)


class Backend(Protocol):
    """How an update runs on all devices. `rows` and `total` are for the step that is compiled."""

    @property
    def devices(self) -> Mesh: ...

    @property
    def block(self) -> int:
        """How many numbers to update at a time, where each is by itself; 0: all of them."""
        ...

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

    @property
    def block(self) -> int:
        return BLOCKS.get(platform(self.devices), 0) if self.shard == "none" else 0

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
            step,
            donate_argnums=0,
            in_shardings=shardings[0],
            out_shardings=shardings[1],
            compiler_options=COMPILER.get(platform(self.devices)),
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

    @property
    def block(self) -> int:
        return BLOCKS.get(platform(self.devices), 0)

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
