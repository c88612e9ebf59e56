"""An elementwise update in blocks of parameters: only one block of temporaries is in memory.

Without blocks, the compiler of a CPU keeps several temporary arrays as large as every parameter. On
other devices it fuses each update into one kernel, and blocks save nothing.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jaxtyping import Array, Bool

# (gradients, state) -> new state, for any part of the parameters
Change = Callable[[Any, Any], Any]


def blockwise(
    wanted: Bool[Array, ""], change: Change, gradients: Any, state: Any, size: int
) -> Any:
    """Return `change(gradients, state)`, computed in blocks of `size` elements of each leaf.

    Where `wanted` is false, the state stays as it is. `state` is any tree that contains trees like
    `gradients`, such as parameters and accumulators. Its other leaves, such as a count, must change
    in the same way for every block.

    >>> params, opt_state = blockwise(finite, change, gradients, (params, opt_state), 2**20)
    """
    structure = jax.tree.structure(gradients)

    def like_gradients(node: Any) -> bool:
        return jax.tree.structure(node) == structure

    nodes, outer = jax.tree.flatten(state, is_leaf=like_gradients)
    by_leaf = [like_gradients(node) for node in nodes]

    def changed(gradient, old):
        # `cond` reads a block before it writes, so that the block is updated in place.
        old = outer.unflatten(old)
        return jax.tree.leaves(lax.cond(wanted, change, lambda _, old: old, gradient, old))

    columns = [jax.tree.leaves(n) if own else None for n, own in zip(nodes, by_leaf, strict=True)]
    rows = []
    for i, gradient in enumerate(jax.tree.leaves(gradients)):
        old = [n if column is None else column[i] for n, column in zip(nodes, columns, strict=True)]
        rows.append(_leaf(changed, gradient, old, by_leaf, size))
    return outer.unflatten(
        structure.unflatten(column) if own else column[-1]
        for own, column in zip(by_leaf, zip(*rows, strict=True), strict=True)
    )


def _leaf(
    changed: Callable[..., list[Array]],
    gradient: Array,
    old: list[Array],
    by_leaf: list[bool],
    size: int,
) -> list[Array]:
    """The new state of one leaf. Each block is written over the old one."""
    count = _count(gradient.size, size)
    if count == 1:
        return changed(gradient, old)
    length = gradient.size // count

    def flat(leaves):
        return [x.reshape(-1) if own else x for own, x in zip(by_leaf, leaves, strict=True)]

    def block(i, now):
        def cut(leaf):
            return lax.dynamic_slice_in_dim(leaf, i * length, length)

        part = [cut(x) if own else y for own, x, y in zip(by_leaf, now, old, strict=True)]
        new = changed(cut(gradient.reshape(-1)), part)
        return [
            lax.dynamic_update_slice_in_dim(x, y, i * length, 0) if own else y
            for own, x, y in zip(by_leaf, now, new, strict=True)
        ]

    new = lax.fori_loop(0, count, block, flat(old))
    return [x.reshape(gradient.shape) if own else x for own, x in zip(by_leaf, new, strict=True)]


def _count(numbers: int, size: int) -> int:
    """The number of equal blocks of at most `size`; 1 where none near the least number divides."""
    least = -(-numbers // size)
    return next((k for k in range(least, 8 * least) if numbers % k == 0), 1)
