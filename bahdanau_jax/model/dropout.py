"""Dropout whose mask belongs to a sentence, not to its place on a device.

The key of each row is folded from the step's key and the row of the global batch, so that devices,
processes and gradient accumulation draw the same masks.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


def row_keys(key: Array | None, rows: int) -> Array | None:
    """A key for each row of the batch. None, for no dropout, and a key a row stay what they are."""
    if key is None or key.ndim:
        return key
    return jax.vmap(lambda row: jax.random.fold_in(key, row))(jnp.arange(rows))


def dropout(keys: Array | None, place: int, rate: float, x: Float[Array, "T B F"]) -> Array:
    """x with a share `rate` of its units set to 0 and the others scaled to keep the mean.

    `place` tells apart the several dropouts of one sentence. Sixteen random bits decide on a unit.
    """
    if keys is None or rate == 0.0:
        return x
    time, _, features = x.shape
    words = -(-time * features // 2)

    def bits(key: Array) -> Array:
        drawn = jax.random.bits(jax.random.fold_in(key, place), (words,), jnp.uint32)
        halves = lax.bitcast_convert_type(drawn, jnp.uint16).reshape(-1)
        return halves[: time * features].reshape(time, features)

    keep = jax.vmap(bits, out_axes=1)(keys) >= jnp.uint16(min(round(rate * 2**16), 2**16 - 1))
    return jnp.where(keep, x / (1 - rate), jnp.zeros((), x.dtype))
