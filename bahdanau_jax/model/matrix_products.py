"""Matrix products, in the precision that the configuration asks for.

With `bfloat16` both factors are rounded to it, and what they add up to is float32: parameters,
states, softmax, loss and gradients stay as they are. Backward likewise.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Values of `model.products` -> what the factors are rounded to; None: they stay what they are.
PRODUCTS: Mapping[str, Any] = MappingProxyType({"float32": None, "bfloat16": jnp.bfloat16})


def einsum(products: str, subscripts: str, a: Array, b: Array) -> Array:
    """`jnp.einsum` of two arrays of one type, whose type the result has too."""
    rounded = PRODUCTS[products]
    if rounded is None:
        return jnp.einsum(subscripts, a, b)
    return jnp.einsum(
        subscripts, a.astype(rounded), b.astype(rounded), preferred_element_type=a.dtype
    )


def rounded(products: str, factors: Mapping[str, Array]) -> dict[str, Array]:
    """The factors as products round them, once for all the products of a loop."""
    dtype = PRODUCTS[products]
    return {n: x if dtype is None else x.astype(dtype) for n, x in factors.items()}


EVEN = 32  # terms that bfloat16 products on a CPU sum at once; other numbers of them take longer


def with_bias(
    products: str, weight: Float[Array, "I O"], bias: Float[Array, " O"]
) -> Float[Array, "J O"]:
    """[weight; bias; 0], whose product with `with_ones` of x is x @ weight + bias.

    Adding a bias is a pass through all of a product; here it costs nothing. Rounded factors lose
    none of it: three rows of bfloat16 add up to a float32.
    """
    dtype, rows = PRODUCTS[products] or bias.dtype, []
    for _ in range(1 if dtype == bias.dtype else 3):
        rows.append(bias.astype(dtype).astype(bias.dtype))
        bias = jnp.where(jnp.isfinite(rows[-1]), bias - rows[-1], 0)
    whole = jnp.concatenate([weight, jnp.stack(rows)])
    return jnp.pad(whole, ((0, -len(whole) % EVEN), (0, 0)))


def with_ones(x: Float[Array, "*X I"], size: int) -> Float[Array, "*X J"]:
    """[x, 1, 1, ...], `size` wide."""
    widths = [(0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1])]
    return jnp.pad(x, widths, constant_values=1)


def matmul(
    products: str, x: Float[Array, "*X I"], weight: Float[Array, "*W I O"]
) -> Float[Array, "*X O"]:
    """x @ weight, of x's type. Leading axes of the weight, if any, are batch axes that x has too.

    >>> matmul(config.products, annotations, params["U_a"])
    """
    return x @ weight if PRODUCTS[products] is None else _matmul(products, x, weight)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _matmul(products: str, x: Array, weight: Array) -> Array:
    return einsum(
        products, "...i,io->...o" if weight.ndim == 2 else "...bi,...io->...bo", x, weight
    )


def _backward(products: str, factors: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    x, weight = factors
    d_x = matmul(products, d, jnp.swapaxes(weight, -1, -2))
    if weight.ndim > 2:
        return d_x, einsum(products, "...bi,...bo->...io", x, d)
    # Over two axes at least: XLA on a CPU rounds no product of two axes whose first one it sums.
    rows, columns = (leaf.reshape(-1, *leaf.shape[-2:]) for leaf in (x, d))
    return d_x, einsum(products, "tri,tro->io", rows, columns)


_matmul.defvjp(lambda products, x, weight: (_matmul(products, x, weight), (x, weight)), _backward)
