"""The best continuations of a beam, without sorting all K·V of them.

B sentences, K hypotheses, V words.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from bahdanau_jax.batch import EOS
from bahdanau_jax.distribution import WINDOW, Distribution


class Candidates(NamedTuple):
    """Continuations, best first."""

    total: Float[Array, "B J"]  # Σ log p with the new word; -inf for fillers
    token: Int[Array, "B J"]  # int32 the new word
    log_probability: Float[Array, "B J"]  # of the new word
    parent: Int[Array, "B J"]  # int32 index of the hypothesis that it continues


def best(totals: Float[Array, "B K"], next_word: Distribution, count: int) -> Candidates:
    """Return the `count` best continuations of the beam; ties go to the lower (place, word).

    The best words lie in the `count` windows with the highest maxima, so only those are sorted.
    With a beam of 12, V = 30,000 and 64 sentences, this takes 6 ms on two CPU cores; `top_k` over
    all K·V takes 60 ms.
    """
    B, K, windows = next_word.highest.shape
    totals = totals - next_word.log_total
    more = max(0, -(-count // (K * WINDOW)) - windows)  # windows of fillers, for tiny vocabularies
    highest = next_word.highest - next_word.top[..., None]
    highest = jnp.pad(highest, ((0, 0), (0, 0), (0, more)), constant_values=-jnp.inf)
    windows += more
    highest = (totals[:, :, None] + highest).reshape(B, K * windows)
    chosen = jnp.sort(lax.top_k(highest, min(count, K * windows))[1])  # sorted for the rule of ties
    place = (chosen // windows)[:, :, None]
    word = chosen % windows * WINDOW
    word = word[:, :, None] + jnp.arange(WINDOW, dtype=jnp.int32)[None, None]
    row = jnp.arange(B)[:, None, None]
    values = next_word.logits.at[row, place, word].get(mode="fill", fill_value=-jnp.inf)
    values = values - jnp.take_along_axis(next_word.top, place[:, :, 0], 1)[:, :, None]
    extended = jnp.take_along_axis(totals, place[:, :, 0], 1)[:, :, None] + values
    total, index = lax.top_k(extended.reshape(B, -1), count)
    parent, token, value = (
        jnp.take_along_axis(jnp.broadcast_to(x, extended.shape).reshape(B, -1), index, 1)
        for x in (place, word, values)
    )
    token = jnp.where(total > -jnp.inf, token, EOS)  # a filler's word may lie beyond V
    value = value - jnp.take_along_axis(next_word.log_total, parent, 1)
    return Candidates(total, token, value, parent)
