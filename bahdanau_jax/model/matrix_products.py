"""Matrix products in the compute dtype of the configuration.

With `bfloat16`, products round both factors to bfloat16 and add up in float32, in the forward and
in the backward pass. Parameters, states, softmax, loss and gradients keep their dtype.
"""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bahdanau_jax.model.compute_dtype import factor_dtype


def einsum(compute_dtype: str, subscripts: str, a: Array, b: Array) -> Array:
    """`jnp.einsum` of two arrays of one dtype, in the compute dtype; the result has their dtype."""
    dtype = factor_dtype(compute_dtype)
    if dtype is None:
        return jnp.einsum(subscripts, a, b)
    return jnp.einsum(subscripts, a.astype(dtype), b.astype(dtype), preferred_element_type=a.dtype)


def rounded(compute_dtype: str, factors: Mapping[str, Array]) -> dict[str, Array]:
    """Round the factors to the compute dtype, once for all products of a loop.

    On an accelerator a matrix gets as many rows as `aligned` gives it, which `matmul` expects.
    """
    dtype = factor_dtype(compute_dtype)
    if dtype is None:
        return dict(factors)
    return {n: (aligned(x) if x.ndim == 2 else x).astype(dtype) for n, x in factors.items()}


_SHAPES_ALONE: ContextVar[bool] = ContextVar("shapes alone", default=False)


@contextlib.contextmanager
def without_devices() -> Iterator[None]:
    """Within it, functions may be traced for their shapes without starting JAX's devices."""
    token = _SHAPES_ALONE.set(True)
    try:
        yield
    finally:
        _SHAPES_ALONE.reset(token)


def on_accelerator() -> bool:
    """Whether programs are written for a GPU or TPU, whose arithmetic is faster than its memory."""
    return not _SHAPES_ALONE.get() and jax.default_backend() != "cpu"


ALIGNED = 8  # numbers of bfloat16 in 16 bytes, the unit in which a GPU's matrix products read rows


def aligned(x: Array, axis: int = 0) -> Array:
    """Pad an axis with zeros to a multiple of ALIGNED on an accelerator.

    With rows of 500 numbers of bfloat16, the paper's readout, products had a fifth to a third of
    the rate of a large product on an H200 (docs/performance.md).
    """
    fill = -x.shape[axis] % ALIGNED if on_accelerator() else 0
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, fill)
    return jnp.pad(x, widths) if fill else x


TERMS = 6  # the most terms in a step of the sum in the gradient of `repeated`


def repeated(x: Float[Array, "B A"], keys: Float[Array, "B S A"]) -> Float[Array, "B _ A"]:
    """Return x for each of the S positions of `keys`; on a CPU [B, 1, A], which broadcasts.

    The gradient is a sum over the positions. On an accelerator each step of its loop has as many
    terms as the largest divisor of S up to TERMS. XLA's own loop has one (docs/performance.md).
    """
    positions = keys.shape[1]
    # An exported program has a symbol for the number of positions, and no gradient.
    if not on_accelerator() or not isinstance(positions, int):
        return x[:, None]
    terms = max(n for n in range(1, TERMS + 1) if positions % n == 0)
    some = jnp.broadcast_to(x[:, None], (len(x), positions // terms, x.shape[1]))
    return jnp.stack([some] * terms, axis=2).reshape(keys.shape)


EVEN = 32  # bfloat16 products on a CPU are fastest where the number of terms is a multiple of this


def with_bias(
    compute_dtype: str, weight: Float[Array, "I O"], bias: Float[Array, " O"]
) -> Float[Array, "J O"]:
    """Return [weight; bias; 0], whose product with `with_ones(x)` is x @ weight + bias.

    This saves the separate addition, a pass through all of the product. Rounding loses none of the
    bias: three rows of bfloat16 add up to a float32.
    """
    dtype, rows = factor_dtype(compute_dtype) or bias.dtype, []
    for _ in range(1 if dtype == bias.dtype else 3):
        rows.append(bias.astype(dtype).astype(bias.dtype))
        bias = jnp.where(jnp.isfinite(rows[-1]), bias - rows[-1], 0)
    extended = jnp.concatenate([weight, jnp.stack(rows)])
    return jnp.pad(extended, ((0, -len(extended) % EVEN), (0, 0)))


def with_ones(x: Float[Array, "*X I"], size: int) -> Float[Array, "*X J"]:
    """Pad x with ones to `size` columns."""
    widths = [(0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1])]
    return jnp.pad(x, widths, constant_values=1)


def matmul(
    compute_dtype: str,
    x: Float[Array, "*X I"],
    weight: Float[Array, "*W J O"],  # J is I, or as many as `rounded` makes of I
) -> Float[Array, "*X O"]:
    """Return x @ weight in x's dtype. Leading axes of the weight are batch axes that x has too.

    >>> matmul(config.compute_dtype, annotations, params["U_a"])
    """
    if factor_dtype(compute_dtype) is None:
        return x @ weight
    if weight.ndim == 2:
        x, weight = aligned(x, axis=-1), aligned(weight)
    return _matmul(compute_dtype, x, weight)


def sum_of_rows(compute_dtype: str, x: Float[Array, "R F"]) -> Float[Array, " F"]:
    """Return the sum over the rows, as a product with ones.

    On a CPU the rows are rounded to the compute dtype, as for other products with them. XLA has no
    code there for a product of bfloat16 with a single row.
    """
    if factor_dtype(compute_dtype) is None or on_accelerator():
        return jnp.matmul(jnp.ones(len(x), x.dtype), x, precision="highest")
    return matmul(compute_dtype, jnp.ones((ALIGNED, len(x)), x.dtype), x)[0]


def transposed(compute_dtype: str, weight: Float[Array, "I O"]) -> Float[Array, "O I"]:
    """Return weightᵀ as a factor of `matmul`.

    Without the barrier, XLA on a CPU makes the transposition of the gradient a part of its product,
    and has no code for such a product of bfloat16.
    """
    if factor_dtype(compute_dtype) is None:
        return weight.T
    return jax.lax.optimization_barrier(weight.T)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _matmul(compute_dtype: str, x: Array, weight: Array) -> Array:
    return einsum(
        compute_dtype, "...i,io->...o" if weight.ndim == 2 else "...bi,...io->...bo", x, weight
    )


def _backward(compute_dtype: str, factors: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    x, weight = factors
    d_x = matmul(compute_dtype, d, jnp.swapaxes(weight, -1, -2))
    if weight.ndim > 2:
        return d_x, einsum(compute_dtype, "...bi,...bo->...io", x, d)
    # With three axes, since XLA on a CPU does not round the factors of a matrix product over the
    # first axes.
    rows, columns = (leaf.reshape(-1, *leaf.shape[-2:]) for leaf in (x, d))
    return d_x, einsum(compute_dtype, "tri,tro->io", rows, columns)


_matmul.defvjp(
    lambda compute_dtype, x, weight: (_matmul(compute_dtype, x, weight), (x, weight)), _backward
)
