"""The three kernels of additive attention: a step, its gradients, and those of the keys.

B sentences, S source and T target positions, A alignment units, C annotation size.
Source: arXiv 1409.0473, appendix A.1.2.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from bahdanau_jax.model.tiles import launch, wide


class Activation(NamedTuple):
    apply: Callable[[Array], Array]
    slope: Callable[[Array], Array]  # its derivative, from its value


# The scores of `attention.SCORES` that the kernels know.
ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "additive": Activation(jnp.tanh, lambda y: 1 - y * y),
        "additive_relu": Activation(lambda x: jnp.maximum(x, 0), lambda y: (y > 0).astype(y.dtype)),
    }
)


class Form(NamedTuple):
    """What the kernels are made for."""

    score: str = "additive"  # a name of ACTIVATIONS
    products: str = "float32"  # a name of products.PRODUCTS: of α with the annotations
    device: str = ""  # a name of tiles.DEVICES; "": JAX's default backend
    interpret: Any = False  # True: as operations of JAX, as on a CPU anyway; or InterpretParams

    @property
    def activation(self) -> Activation:
        return ACTIVATIONS[self.score]

    def launch(self, kernel: Callable, arrays, outputs, parts: bool = False) -> list[Array]:
        name = self.device or jax.default_backend()
        return launch(name, self.interpret, kernel, arrays, outputs, parts)


def _forward(apply, query, keys, mask, v_a, annotations, context, alpha):
    def energies(i, e):
        return e + apply(keys.read(i) + query.read(i)) * v_a.read(i)

    e = jnp.sum(keys.each(energies, keys.nothing()), axis=1, keepdims=True)
    e = jnp.where(mask.read() > 0, e, -jnp.inf)
    top = jnp.max(e, axis=0, keepdims=True)
    weights = jnp.exp(e - jnp.where(top > -jnp.inf, top, 0.0))
    total = jnp.sum(weights, axis=0, keepdims=True)
    weights = weights / jnp.where(total > 0, total, 1.0)
    alpha.write(weights)
    weights = weights.astype(annotations.ref.dtype).astype(weights.dtype)  # a factor of a product

    def seen(i, _):
        context.write(jnp.sum(annotations.read(i) * weights, axis=0, keepdims=True), i)

    annotations.each(seen)


def _backward(
    activation, query, keys, v_a, annotations, alpha, d_context, d_alpha, d_query, d_energies
):
    def seen(i, d):
        return d + annotations.read(i) * d_context.read(i)

    weights = alpha.read()
    d = annotations.each(seen, annotations.nothing())
    d = d_alpha.read() + jnp.sum(d, axis=1, keepdims=True)
    d_e = weights * (d - jnp.sum(weights * d, axis=0, keepdims=True))
    d_energies.write(d_e)

    def queried(i, _):
        slope = activation.slope(activation.apply(keys.read(i) + query.read(i)))
        d_query.write(v_a.read(i) * jnp.sum(d_e * slope, axis=0, keepdims=True), i)

    keys.each(queried)


def _over_time(activation, queries, keys, v_a, d_energies, d_keys, d_v_a):
    k = keys.read()

    def add(t, sums):
        y, d_e = activation.apply(k + queries.read(at=(t,))), d_energies.read(at=(t,))
        slopes, values = d_e * activation.slope(y), jnp.sum(d_e * y, axis=0, keepdims=True)
        return sums[0] + slopes, sums[1] + values

    slopes, values = lax.fori_loop(
        0, queries.ref.shape[0], add, (jnp.zeros_like(k), jnp.zeros((1, k.shape[1]), k.dtype))
    )
    d_keys.write(v_a.read() * slopes)
    d_v_a.write(values)


def forward(
    form: Form,
    query: Float[Array, "B A"],
    keys: Float[Array, "B S A"],
    mask: Bool[Array, "B S"],
    v_a: Float[Array, " A"],
    annotations: Float[Array, "B S C"],
) -> list[Array]:
    """A step: the context [B C] and α [B S]."""
    context = jax.ShapeDtypeStruct((len(query), annotations.shape[-1]), query.dtype)
    return form.launch(
        partial(_forward, form.activation.apply),
        [
            ("row", query),
            ("matrix", keys),
            ("column", mask.astype(jnp.int32)),
            ("row", v_a[None]),
            ("matrix", annotations),
        ],
        [("row", context), ("column", jax.ShapeDtypeStruct(mask.shape, wide(keys.dtype)))],
    )


def backward(
    form: Form,
    query: Float[Array, "B A"],
    keys: Float[Array, "B S A"],
    v_a: Float[Array, " A"],
    annotations: Float[Array, "B S C"],
    alpha: Float[Array, "B S"],
    d_context: Float[Array, "B C"],
    d_alpha: Float[Array, "B S"],
) -> list[Array]:
    """The gradients of a step's query [B A] and of its energies [B S]."""
    return form.launch(
        partial(_backward, form.activation),
        [
            ("row", query),
            ("matrix", keys),
            ("row", v_a[None]),
            ("matrix", annotations),
            ("column", alpha),
            ("row", d_context),
            ("column", d_alpha),
        ],
        [("row", query), ("column", alpha)],
    )


def over_time(
    form: Form,
    queries: Float[Array, "T B A"],
    keys: Float[Array, "B S A"],
    v_a: Float[Array, " A"],
    d_energies: Float[Array, "T B S"],
) -> list[Array]:
    """The gradients of the keys [B S A] and, for each sentence, of v_a [B A]: sums over steps."""
    each = jax.ShapeDtypeStruct((len(keys), keys.shape[-1]), wide(keys.dtype))
    return form.launch(
        partial(_over_time, form.activation),
        [("row", queries), ("matrix", keys), ("row", v_a[None]), ("column", d_energies)],
        [("matrix", keys), ("row", each)],
        parts=True,
    )
