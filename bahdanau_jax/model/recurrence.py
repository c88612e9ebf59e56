"""A scan over time whose weight gradients are one matrix product each.

The gradient of `lax.scan` adds a small product to the gradient of each recurrent weight at every
step. Here a step calls `dot(name, operand)` for its products, and the forward scan stores their
results. The backward loop recomputes the rest of each step, and overwrites each result with its
gradient. After the loop, dW = Σ_t operand_tᵀ d(result)_t is one large product.

A weight may also be a function with arrays, a `jax.tree_util.Partial`. Its result takes the place
of the product, and the gradients of its arrays are computed after the loop, BLOCK steps at a time.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import Partial
from jaxtyping import Array

from bahdanau_jax.model.matrix_products import einsum, matmul, rounded

Dot = Callable[[str, Array], Array]  # (name of a weight, operand [... B I]) -> operand @ weight
# Each [... I O], whose leading axes, if any, are batch axes of the product, or (operand) -> result.
Weights = Mapping[str, Array | Partial]
BLOCK = 8  # steps whose results of a function are in memory at once, if XLA does not fuse them
Step = Callable[[Dot, Any, Any, Any], tuple[Any, Any]]  # (dot, rest, carry, input) -> carry, output


def times(weights: Weights, compute_dtype: str) -> Dot:
    """Return the `dot` of these weights for a step outside `scan`."""

    def dot(name: str, operand: Array) -> Array:
        weight = weights[name]
        if isinstance(weight, Partial):
            return weight(operand)
        return matmul(compute_dtype, operand, weight)

    return dot


def _matrices(weights: Weights) -> dict[str, Array]:
    return {name: w for name, w in weights.items() if not isinstance(w, Partial)}


def scan(
    step: Step,
    weights: Weights,
    rest: Any,
    carry: Any,
    inputs: Any,
    gradients: str,
    compute_dtype: str = "float32",
):
    """Run `step` over the leading axis of `inputs`; return all carries and all outputs.

    `step` may not close over arrays: other arrays than `weights` come through `rest`. `gradients`
    is a key of `GRADIENTS`, `compute_dtype` a key of `COMPUTE_DTYPES`. The gradient by "deferred"
    raises ValueError for a step that uses a weight twice.
    """
    return GRADIENTS[gradients](step, compute_dtype, weights, rest, carry, inputs)


def _autodiff(step: Step, compute_dtype: str, weights: Weights, rest: Any, carry: Any, inputs: Any):
    dot = times(weights, compute_dtype)

    def body(carry, x):
        carry, output = step(dot, rest, carry, x)
        return carry, (carry, output)

    return lax.scan(body, carry, inputs)[1]


_deferred = jax.custom_vjp(_autodiff, nondiff_argnums=(0, 1))


def _forward(step: Step, compute_dtype: str, weights: Weights, rest: Any, carry: Any, inputs: Any):
    multiply = times({**weights, **rounded(compute_dtype, _matrices(weights))}, compute_dtype)

    def body(carry, x):
        results = {}

        def dot(name, operand):
            if name in results:
                raise ValueError(
                    f"a step multiplies twice with the weight {name!r}, whose deferred gradient "
                    'stores one product: multiply once, or set model.gradients to "autodiff"'
                )
            results[name] = multiply(name, operand)
            return results[name]

        carry, output = step(dot, rest, carry, x)
        return carry, (carry, output, results)

    _, (carries, outputs, results) = lax.scan(body, carry, inputs)
    return (carries, outputs), (weights, rest, carry, inputs, carries, results)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _stored(compute_dtype: str, operand: Array, transposed: Array, result: Array) -> Array:
    """Return the stored result of operand @ transposedᵀ, which has no gradient for `transposed`."""
    return result


_stored.defvjp(
    lambda compute_dtype, operand, transposed, result: (result, transposed),
    lambda compute_dtype, transposed, d: (
        matmul(compute_dtype, d, transposed),
        jnp.zeros_like(transposed),
        d,
    ),
)


def _nothing(leaf: Array) -> Any:
    """The gradient 0 of a leaf, in the form that JAX expects."""
    if jnp.issubdtype(leaf.dtype, jnp.inexact):
        return jnp.zeros_like(leaf)
    return np.zeros(leaf.shape, jax.dtypes.float0)


@jax.custom_vjp
def _kept(function: Partial, operand: Array, result: Array) -> Array:
    """Return the stored result of function(operand), which has no gradient for `function`."""
    return result


_kept.defvjp(
    lambda function, operand, result: (result, (function, operand)),
    lambda given, d: (
        jax.tree.map(_nothing, given[0]),
        *jax.vjp(given[0], given[1])[1](d),
        d,
    ),
)


def _of_arrays(function: Partial, operands: Array, d_results: Array) -> Partial:
    """Return Σ_t of the gradients of the arrays of a function that ran at every step.

    The last block is filled with the last operand, where the function has a finite gradient.
    """
    steps = len(operands)
    blocks = -(-steps // BLOCK)
    rows = -(-steps // blocks)

    def cut(leaf: Array, mode: str) -> Array:
        widths = [(0, blocks * rows - steps), *[(0, 0)] * (leaf.ndim - 1)]
        return jnp.pad(leaf, widths, mode=mode).reshape(blocks, rows, *leaf.shape[1:])

    arrays, tree = jax.tree.flatten(function)

    def gradient(n: int) -> Any:
        if not jnp.issubdtype(arrays[n].dtype, jnp.inexact):
            return _nothing(arrays[n])

        def add(total: Array, block: tuple[Array, Array]):
            operands, d = block

            def results(array: Array) -> Array:
                changed = jax.tree.unflatten(tree, [*arrays[:n], array, *arrays[n + 1 :]])
                return jax.vmap(changed)(operands)

            return total + jax.vjp(results, arrays[n])[1](d)[0], None

        # The barrier keeps XLA from storing what the gradients of two arrays have in common.
        blockwise = cut(operands, "edge"), cut(d_results, "constant")
        given = lax.optimization_barrier(blockwise)
        return lax.scan(add, jnp.zeros_like(arrays[n]), given)[0]

    return jax.tree.unflatten(tree, [gradient(n) for n in range(len(arrays))])


def _backward(step: Step, compute_dtype: str, residuals, cotangent):
    weights, rest, start, inputs, carries, results = residuals
    steps = len(jax.tree.leaves(carries)[0])
    (rest, fixed), (inputs, flags) = _split(rest), _split(inputs)
    # Transposed and rounded once for all steps.
    transposed = rounded(
        compute_dtype, {name: jnp.swapaxes(w, -1, -2) for name, w in _matrices(weights).items()}
    )
    carried: dict[str, tuple[str, int]] = {}  # operands that are leaves of a step's carries

    def pull(t, inputs, results, d_after):
        """Return the gradients of step t, and the operands of its products that are not carried."""

        def replay(carry, rest, x, results):
            operands = {}

            def dot(name: str, operand: Array) -> Array:
                operands[name] = operand
                if name not in transposed:
                    return _kept(weights[name], operand, results[name])  # pyright: ignore
                return _stored(compute_dtype, operand, transposed[name], results[name])  # pyright: ignore

            after = step(dot, _join(rest, fixed), carry, _join(x, _at(flags, t)))
            places = {id(leaf): ("after", i) for i, leaf in enumerate(jax.tree.leaves(after[0]))}
            places |= {id(leaf): ("before", i) for i, leaf in enumerate(jax.tree.leaves(carry))}
            carried.update({n: places[id(x)] for n, x in operands.items() if id(x) in places})
            return after, {name: x for name, x in operands.items() if name not in carried}

        previous = _at(carries, jnp.maximum(t - 1, 0))
        before = jax.tree.map(lambda *pair: jnp.where(t == 0, *pair), start, previous)
        _, pullback, operands = jax.vjp(
            replay, before, rest, _at(inputs, t), _at(results, t), has_aux=True
        )
        return pullback(d_after), operands

    def body(i, loop):
        t = steps - 1 - i
        d_carry, d_rest, inputs, results, operands = loop
        d_each, d_output = _at(cotangent, t)
        d_after = jax.tree.map(jnp.add, d_carry, d_each), d_output
        (d_carry, d_more, d_x, d_results), new_operands = pull(t, inputs, results, d_after)
        return (
            d_carry,
            jax.tree.map(jnp.add, d_rest, d_more),
            _set(inputs, t, d_x),  # a gradient overwrites a value that no later step reads
            _set(results, t, d_results),
            _set(operands, t, new_operands),
        )

    shapes = jax.eval_shape(pull, 0, inputs, results, (start, _at(cotangent[1], 0)))[1]
    operands = jax.tree.map(lambda leaf: jnp.zeros((steps, *leaf.shape), leaf.dtype), shapes)
    zeros = jax.tree.map(jnp.zeros_like, (start, rest))
    d_start, d_rest, d_inputs, d_results, operands = lax.fori_loop(
        0, steps, body, (*zeros, inputs, results, operands)
    )
    shifted = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b[:-1]]), start, carries)
    history = {"before": jax.tree.leaves(shifted), "after": jax.tree.leaves(carries)}
    operands |= {name: history[side][leaf] for name, (side, leaf) in carried.items()}

    d_weights = {
        name: einsum(compute_dtype, "t...bi,t...bo->...io", operand, d_results[name])
        if name in transposed
        else _of_arrays(weights[name], operand, d_results[name])
        for name, operand in operands.items()
    }
    return d_weights, d_rest, d_start, d_inputs


_deferred.defvjp(_forward, _backward)

# Value of `model.gradients` -> the scan over steps with its backward pass.
GRADIENTS: Mapping[str, Callable] = MappingProxyType({"deferred": _deferred, "autodiff": _autodiff})


def _split(tree: Any) -> tuple[Any, Any]:
    """Split a tree into its floating-point leaves and the others; None marks the missing leaves."""
    real = jax.tree.map(lambda leaf: jnp.issubdtype(leaf.dtype, jnp.inexact), tree)
    return (
        jax.tree.map(lambda leaf, is_real: leaf if is_real else None, tree, real),
        jax.tree.map(lambda leaf, is_real: None if is_real else leaf, tree, real),
    )


def _join(floats: Any, others: Any) -> Any:
    return jax.tree.map(
        lambda a, b: b if a is None else a, floats, others, is_leaf=lambda leaf: leaf is None
    )


def _at(tree: Any, t: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[t], tree)


def _set(tree: Any, t: Any, new: Any) -> Any:
    return jax.tree.map(lambda leaf, x: leaf.at[t].set(x), tree, new)
