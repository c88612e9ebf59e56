"""What a model says of the next word, as search reads it: few words of many.

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
    """p(word) = exp(logit − normalizer); the sum is 1, or less where words are banned.

    Search subtracts for the words that it takes: over all words it would be a pass through memory,
    and so would another search for the highest.
    """

    logits: Float[Array, "*X V"]
    normalizer: Float[Array, "*X"]  # log Σ exp of the logits; of log-probabilities 0
    highest: Float[Array, "*X W"]  # logit of each WINDOW words; the last window may have fewer

    @property
    def log_p(self) -> Float[Array, "*X V"]:
        """Natural logarithms of the probabilities."""
        return self.logits - self.normalizer[..., None]

    def changed(self, logits: Float[Array, "*X V"]) -> "Distribution":
        """Other logits with the same normalizer: what is left where words are banned."""
        return Distribution(logits, self.normalizer, _highest(logits))


def softmax(logits: Float[Array, "*X V"]) -> Distribution:
    """The distribution that a model's last layer stands for, in float32 at least.

    >>> softmax(t @ W_o + b_w).log_p
    """
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    highest = _highest(logits)
    top = highest.max(-1)
    total = jnp.exp(logits - top[..., None]).sum(-1)
    return Distribution(logits, top + jnp.log(total), highest)


def given(log_p: "Float[Array, '*X V'] | Distribution") -> Distribution:
    """Log-probabilities as a distribution, which may be one already."""
    if isinstance(log_p, Distribution):
        return log_p
    return Distribution(log_p, jnp.zeros(log_p.shape[:-1], log_p.dtype), _highest(log_p))


def mean(several: Sequence[Distribution]) -> Distribution:
    """The geometric mean of the probabilities, whose sum is at most 1."""
    if len(several) == 1:
        return several[0]
    logits, normalizer = (
        reduce(jnp.add, leaves) / len(several)
        for leaves in zip(*((each.logits, each.normalizer) for each in several), strict=True)
    )
    return Distribution(logits, normalizer, _highest(logits))


def _highest(logits: Float[Array, "*X V"]) -> Float[Array, "*X W"]:
    shape = (*[1] * (logits.ndim - 1), WINDOW)
    tail = [(0, 0)] * (logits.ndim - 1) + [(0, -logits.shape[-1] % WINDOW)]
    return lax.reduce_window(lax.stop_gradient(logits), -jnp.inf, lax.max, shape, shape, tail)
