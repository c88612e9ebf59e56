"""An elementwise update, some parameters at a time: only a block of what lies between is in memory.

Left to itself, the compiler keeps several arrays of every parameter's size between old and new
values on a CPU. On other devices it makes one kernel of each update, and blocks gain nothing.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jaxtyping import Array, Bool

Change = Callable[[Any, Any], Any]  # (gradients, state) -> new state, of any part of the parameters


def blockwise(
    wanted: Bool[Array, ""], change: Change, gradients: Any, state: Any, size: int
) -> Any:
    """`change(gradients, state)` if it is wanted, a leaf and `size` numbers of it after the other.

    `state` is any tree in which trees like `gradients` occur (parameters, accumulators); what else
    it holds, such as a count, has to change in the same way whatever the part.

    >>> params, opt_state = blockwise(finite, change, gradients, (params, opt_state), 2**20)
    """
    structure = jax.tree.structure(gradients)

    def alike(node: Any) -> bool:
        return jax.tree.structure(node) == structure

    nodes, outer = jax.tree.flatten(state, is_leaf=alike)
    owned = [alike(node) for node in nodes]

    def one(gradient, old):
        # A branch, not a selection: what it reads is cut out before anything is written.
        old = outer.unflatten(old)
        return jax.tree.leaves(lax.cond(wanted, change, lambda _, old: old, gradient, old))

    columns = [jax.tree.leaves(n) if own else None for n, own in zip(nodes, owned, strict=True)]
    rows = []
    for i, gradient in enumerate(jax.tree.leaves(gradients)):
        old = [n if column is None else column[i] for n, column in zip(nodes, columns, strict=True)]
        rows.append(_leaf(one, gradient, old, owned, size))
    return outer.unflatten(
        structure.unflatten(column) if own else column[-1]
        for own, column in zip(owned, zip(*rows, strict=True), strict=True)
    )


def _leaf(
    one: Callable[..., list[Array]],
    gradient: Array,
    old: list[Array],
    owned: list[bool],
    size: int,
) -> list[Array]:
    """One leaf's share of the state, each block written over what it was made from."""
    count = _count(gradient.size, size)
    if count == 1:
        return one(gradient, old)
    length = gradient.size // count

    def flat(leaves):
        return [x.reshape(-1) if own else x for own, x in zip(owned, leaves, strict=True)]

    def block(i, now):
        def cut(leaf):
            return lax.dynamic_slice_in_dim(leaf, i * length, length)

        mine = [cut(x) if own else y for own, x, y in zip(owned, now, old, strict=True)]
        new = one(cut(gradient.reshape(-1)), mine)
        return [
            lax.dynamic_update_slice_in_dim(x, y, i * length, 0) if own else y
            for own, x, y in zip(owned, now, new, strict=True)
        ]

    new = lax.fori_loop(0, count, block, flat(old))
    return [x.reshape(gradient.shape) if own else x for own, x in zip(owned, new, strict=True)]


def _count(numbers: int, size: int) -> int:
    """How many equal blocks of at most `size`; 1 where that would take many more than needed."""
    least = -(-numbers // size)
    return next((k for k in range(least, 8 * least) if numbers % k == 0), 1)
