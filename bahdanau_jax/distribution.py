"""Distributions over the next word, in a form from which search reads a few words cheaply.

V words, W windows of them.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

WINDOW = 64  # words


class Distribution(NamedTuple):
    """log p(word) = (logit − top) − log_total; the sum of p is 1, or less where words are banned.

    `top` and `log_total` are separate, since their sum would lose digits of log p. Search subtracts
    them only from the words that it takes, and finds these by the maxima of windows. Both save a
    pass through all the logits in memory.
    """

    logits: Float[Array, "*X V"]  # of all words, or their log-probabilities
    top: Float[Array, "*X"]  # the highest logit; 0 where the logits are log-probabilities
    log_total: Float[Array, "*X"]  # log Σ exp(logit − top); 0 where they are log-probabilities
    highest: Float[Array, "*X W"]  # the maximum of each WINDOW logits; the last may have fewer

    @property
    def log_p(self) -> Float[Array, "*X V"]:
        """Return the natural logarithms of the probabilities."""
        return (self.logits - self.top[..., None]) - self.log_total[..., None]

    def changed(self, logits: Float[Array, "*X V"], reserved: bool = False) -> "Distribution":
        """Replace the logits and keep the normalisation, where words are banned.

        `reserved`: only the logits of EOS and UNK differ, so only the first window is read again.
        """
        if reserved:
            highest = self.highest.at[..., 0].set(logits[..., :WINDOW].max(-1))
        else:
            highest = _highest(logits)
        return self._replace(logits=logits, highest=highest)


def softmax(logits: Float[Array, "*X V"]) -> Distribution:
    """Return the softmax of the logits of a model's last layer, in float32 or wider.

    >>> softmax(t @ W_o + b_w).log_p
    """
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    highest = _highest(logits)
    top = highest.max(-1)
    total = jnp.exp(logits - top[..., None]).sum(-1)
    return Distribution(logits, top, jnp.log(total), highest)


def as_distribution(log_p: "Float[Array, '*X V'] | Distribution") -> Distribution:
    """Turn log-probabilities into a Distribution; one that is a Distribution stays as it is."""
    if isinstance(log_p, Distribution):
        return log_p
    zeros = jnp.zeros(log_p.shape[:-1], log_p.dtype)
    return Distribution(log_p, zeros, zeros, _highest(log_p))


def mean(distributions: Sequence[Distribution]) -> Distribution:
    """Return the geometric mean of the probabilities, whose sum is at most 1."""
    if len(distributions) == 1:
        return distributions[0]
    shifted = [d.logits - d.top[..., None] for d in distributions]
    logits, log_total = (
        reduce(jnp.add, leaves) / len(distributions)
        for leaves in (shifted, [d.log_total for d in distributions])
    )
    return Distribution(logits, jnp.zeros_like(log_total), log_total, _highest(logits))


def _highest(logits: Float[Array, "*X V"]) -> Float[Array, "*X W"]:
    shape = (*[1] * (logits.ndim - 1), WINDOW)
    tail = [(0, 0)] * (logits.ndim - 1) + [(0, -logits.shape[-1] % WINDOW)]
    return lax.reduce_window(lax.stop_gradient(logits), -jnp.inf, lax.max, shape, shape, tail)
