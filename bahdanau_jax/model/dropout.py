"""Dropout whose mask depends on the sentence, not on the device that computes it.

The key of each row is folded from the step's key and the row's number in the global batch. Masks
are therefore the same on any number of devices and processes, and with gradient accumulation.
"""

import enum

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Key


class Place(enum.IntEnum):
    """What is dropped; each draws masks of its own. Other numbers change every training."""

    SOURCE_EMBEDDING = 0
    ANNOTATION = 1
    TARGET_EMBEDDING = 2
    READOUT = 3
    SOURCE_WORD = 4
    TARGET_WORD = 5
    ENCODER_STATE = 6
    DECODER_STATE = 7


def row_keys(key: Key[Array, ""] | Key[Array, " B"] | None, rows: int) -> Key[Array, " B"] | None:
    """Return a key for each row. None (no dropout) and an array of keys are returned unchanged."""
    if key is None or key.ndim:
        return key
    return jax.vmap(lambda row: jax.random.fold_in(key, row))(jnp.arange(rows))


def dropout(
    keys: Key[Array, " B"] | None, place: Place, rate: float, x: Float[Array, "T B F"]
) -> Float[Array, "T B F"]:
    """Set a share `rate` of x's units to 0, and scale the others to keep the mean.

    Each unit takes sixteen random bits.
    """
    if keys is None or rate == 0.0:
        return x
    time, _, features = x.shape
    words = -(-time * features // 2)

    def bits(key: Key[Array, ""]) -> Array:
        random = jax.random.bits(jax.random.fold_in(key, place), (words,), jnp.uint32)
        halves = lax.bitcast_convert_type(random, jnp.uint16).reshape(-1)
        return halves[: time * features].reshape(time, features)

    keep = jax.vmap(bits, out_axes=1)(keys) >= jnp.uint16(min(round(rate * 2**16), 2**16 - 1))
    return jnp.where(keep, x / (1 - rate), jnp.zeros((), x.dtype))


def word_dropout(
    keys: Key[Array, " B"] | None, place: Place, rate: float, x: Float[Array, "T B F"]
) -> Float[Array, "T B F"]:
    """Set a share `rate` of the words to 0, with all their units, and scale the others.

    Source: Sennrich, Haddow and Birch 2016, arXiv 1606.02891.
    """
    if keys is None or rate == 0.0:
        return x
    return x * dropout(keys, place, rate, jnp.ones((*x.shape[:2], 1), x.dtype))


def kept_units(
    keys: Key[Array, " B"] | None, place: Place, rate: float, size: int, directions: int = 0
) -> Bool[Array, "*D B H"] | None:
    """Draw which units of the state the steps of each sentence read; None without dropout."""
    if keys is None or rate == 0.0:
        return None
    kept = dropout(keys, place, rate, jnp.ones((max(1, directions), len(keys), size))) > 0
    return kept if directions else kept[0]
