"""A scan over time whose weight gradients are one matrix product each.

Differentiating a scan sums a small product at every step into the gradient of a recurrent weight.
Here the products of a step go through `dot(name, operand)`; the backward scan only collects the
gradients of their results, and afterwards dW = Σ_t operand_tᵀ d(result)_t is one large product.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

Dot = Callable[[str, Array], Array]  # (name of a weight, operand [... B I]) -> operand @ weight
Weights = Mapping[str, Array]  # each [... I O]; leading axes, if any, are batch axes of the product
Step = Callable[[Dot, Any, Any, Any], tuple[Any, Any]]  # (dot, rest, carry, input) -> carry, output


def times(weights: Weights) -> Dot:
    """The plain `dot`, for a single step outside a scan."""
    return lambda name, operand: operand @ weights[name]


def scan(step: Step, weights: Weights, rest: Any, carry: Any, inputs: Any, gradients: str):
    """Run `step` over the leading axis of `inputs`: (last carry, outputs stacked over time).

    `step` may not close over arrays: what it needs besides `weights` comes through `rest`.
    `gradients` is a name of `GRADIENTS`.
    """
    return GRADIENTS[gradients](step, weights, rest, carry, inputs)


def _autodiff(step: Step, weights: Weights, rest: Any, carry: Any, inputs: Any):
    dot = times(weights)
    return lax.scan(lambda carry, x: step(dot, rest, carry, x), carry, inputs)


def _record(step: Step, weights: Weights, rest: Any, carry: Any, inputs: Any, taps: Any):
    """The scan with a zero added to every product, and the operands of the products beside it."""

    def body(carry, slices):
        x, tap = slices
        operands = {}

        def dot(name, operand):
            operands[name] = operand
            return operand @ weights[name] + tap[name]

        carry, output = step(dot, rest, carry, x)
        return carry, (output, operands)

    # Products are kept for the backward pass; gates cost less to compute again than to store.
    body = jax.checkpoint(body, prevent_cse=False, policy=jax.checkpoint_policies.dots_saveable)
    carry, (outputs, operands) = lax.scan(body, carry, (inputs, taps))
    return (carry, outputs), operands


def _taps(step: Step, weights: Weights, rest: Any, carry: Any, inputs: Any) -> dict[str, Array]:
    """Zeros in the shape of every product of every step."""
    first, steps = jax.tree.map(lambda x: x[0], inputs), len(jax.tree.leaves(inputs)[0])

    def products(weights, rest, carry, x):
        found = {}

        def dot(name, operand):
            found[name] = operand @ weights[name]
            return found[name]

        step(dot, rest, carry, x)
        return found

    shapes = jax.eval_shape(products, weights, rest, carry, first)
    return {name: jnp.zeros((steps, *p.shape), p.dtype) for name, p in shapes.items()}


_deferred = jax.custom_vjp(_autodiff, nondiff_argnums=(0,))


def _deferred_forward(step: Step, weights: Weights, rest: Any, carry: Any, inputs: Any):
    taps = _taps(step, weights, rest, carry, inputs)

    def run(rest, carry, inputs, taps):
        return _record(step, weights, rest, carry, inputs, taps)

    results, pullback, operands = jax.vjp(run, rest, carry, inputs, taps, has_aux=True)
    return results, (pullback, operands)


def _deferred_backward(step: Step, residuals, cotangent):
    pullback, operands = residuals
    d_rest, d_carry, d_inputs, d_products = pullback(cotangent)
    d_weights = {
        name: jnp.einsum("t...bi,t...bo->...io", operand, d_products[name])
        for name, operand in operands.items()
    }
    return d_weights, d_rest, d_carry, d_inputs


_deferred.defvjp(_deferred_forward, _deferred_backward)

GRADIENTS: Mapping[str, Callable] = {"deferred": _deferred, "autodiff": _autodiff}
