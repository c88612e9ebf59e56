"""Parameters: their initial distributions, biases and embeddings.

The paper's small Gaussians (arXiv 1409.0473, appendix B.1) suit large models; the scaled
initialisations also suit small ones.
"""

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jax.nn import initializers
from jaxtyping import Array, Float, Int, Key

from bahdanau_jax.model.matrix_products import on_accelerator

Params = Mapping[str, Any]  # a tree of arrays, named by the paper's symbols
Initializer = Callable[..., Array]  # (key, shape) -> float32 array


def orthogonal(key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
    """Draw a matrix with orthonormal columns or rows, as `jax.nn.initializers.orthogonal` does.

    vmapped draws are factorised one after the other. Under `jit`, two batched QR factorisations can
    wait forever for threads of jaxlib's pool (seen with 0.10.2 on two cores).
    """
    return _orthogonal(shape)(key)


@functools.cache
def _orthogonal(shape: tuple[int, ...]) -> Callable[[Array], Array]:
    """The draw of one shape; the cache keeps JAX from compiling it again at each call."""
    return jax.jit(sequential_vmap(lambda key: initializers.orthogonal()(key, shape, jnp.float32)))


# Float32, also where JAX's default is float64.
GLOROT = initializers.glorot_normal(dtype=jnp.float32)
SMALL, SMALLER = (initializers.normal(deviation, jnp.float32) for deviation in (0.01, 0.001))
ZEROS = initializers.constant(0, jnp.float32)


class Init(NamedTuple):
    """An initialisation: the distribution of each kind of weight. Biases begin at 0."""

    recurrent: Initializer  # U, U_z, U_r
    alignment: Initializer  # W_a, U_a
    weight: Initializer  # every other matrix


# Value of `model.init` -> the distributions of the initial weights.
INITS: Mapping[str, Init] = MappingProxyType(
    {
        "paper": Init(
            recurrent=orthogonal,
            alignment=SMALLER,
            weight=SMALL,
        ),
        "scaled": Init(
            recurrent=orthogonal,
            alignment=SMALLER,
            weight=GLOROT,
        ),
        # With alignment weights of 0.001, small models often do not learn to use attention.
        "glorot": Init(
            recurrent=orthogonal,
            alignment=GLOROT,
            weight=GLOROT,
        ),
    }
)


def draw(
    key: Key[Array, ""], shapes: Mapping[str, tuple[Initializer, tuple[int, ...]]]
) -> dict[str, Array]:
    """Draw one array for each name, each from its own key.

    >>> draw(jax.random.key(0), {"W": (initializers.normal(0.01), (620, 1000)), "b": zeros(1000)})
    """
    keys = jax.random.split(key, len(shapes))
    return {
        name: initializer(k, shape)
        for k, (name, (initializer, shape)) in zip(keys, shapes.items(), strict=True)
    }


def zeros(*shape: int) -> tuple[Initializer, tuple[int, ...]]:
    """Return an entry of `draw` that begins at zero: biases and v_a."""
    return ZEROS, shape


@jax.custom_jvp
def add_bias(x: Float[Array, "*X F"], b: Float[Array, "*D F"]) -> Float[Array, "*X F"]:
    """x + b at every position. Leading axes of the bias are batch axes that x has too."""
    return x + b.reshape(b.shape[:-1] + (1,) * (x.ndim - b.ndim) + b.shape[-1:])


@add_bias.defjvp
def _add_bias_jvp(primals, tangents):
    """The tangent of b is multiplied with ones, so its gradient is a product with ones.

    XLA's own gradient, a sum over the positions, takes up to seven times as long on a CPU
    (docs/decisions/0135).
    """
    x, b = primals
    d_x, d_b = tangents
    if b.ndim == x.ndim or on_accelerator():
        return add_bias(x, b), add_bias(d_x, d_b)
    batch = b.shape[:-1]
    ones = jnp.ones((*batch, math.prod(x.shape[b.ndim - 1 : -1])), d_b.dtype)
    everywhere = jnp.einsum("...n,...f->...nf", ones, d_b, precision="highest")
    return add_bias(x, b), d_x + everywhere.reshape(x.shape)


def embedding(
    key: Key[Array, ""], init: Init, rows: int, size: int, bias: bool
) -> dict[str, Array]:
    """Draw E [V, E] and, with `bias`, the b [E] that is added to every embedded word."""
    return draw(key, {"E": (init.weight, (rows, size))} | ({"b": zeros(size)} if bias else {}))


def embed(params: Params, ids: Int[Array, "*X"]) -> Float[Array, "*X E"]:
    """x̄ = E[x] + b; the zero vector, without the bias, for START (ids below 0)."""
    x = jnp.asarray(params["E"])[jnp.maximum(ids, 0)]  # a NumPy array takes no traced ids
    if "b" in params:
        x = add_bias(x, params["b"])
    return jnp.where((ids < 0)[..., None], jnp.zeros((), x.dtype), x)
