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
    """log p(word) = (logit − top) − log_total; the sum of p is 1, or less where words are banned.

    The two are kept apart because their sum would round log p to steps of a logit's rounding.
    Search subtracts them from the words that it takes: over all words it would be a pass through
    memory, and so would another search for the highest.
    """

    logits: Float[Array, "*X V"]
    top: Float[Array, "*X"]  # the highest logit; of log-probabilities 0
    log_total: Float[Array, "*X"]  # log Σ exp(logit − top); of log-probabilities 0
    highest: Float[Array, "*X W"]  # logit of each WINDOW words; the last window may have fewer

    @property
    def log_p(self) -> Float[Array, "*X V"]:
        """Natural logarithms of the probabilities."""
        return (self.logits - self.top[..., None]) - self.log_total[..., None]

    def changed(self, logits: Float[Array, "*X V"], reserved: bool = False) -> "Distribution":
        """Other logits with the same normalisation: what is left where words are banned.

        `reserved`: only those of EOS and UNK differ, and no other window is read again.
        """
        if reserved:
            highest = self.highest.at[..., 0].set(logits[..., :WINDOW].max(-1))
        else:
            highest = _highest(logits)
        return self._replace(logits=logits, highest=highest)


def softmax(logits: Float[Array, "*X V"]) -> Distribution:
    """The distribution that a model's last layer stands for, in float32 at least.

    >>> softmax(t @ W_o + b_w).log_p
    """
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    highest = _highest(logits)
    top = highest.max(-1)
    total = jnp.exp(logits - top[..., None]).sum(-1)
    return Distribution(logits, top, jnp.log(total), highest)


def given(log_p: "Float[Array, '*X V'] | Distribution") -> Distribution:
    """Log-probabilities as a distribution, which may be one already."""
    if isinstance(log_p, Distribution):
        return log_p
    nothing = jnp.zeros(log_p.shape[:-1], log_p.dtype)
    return Distribution(log_p, nothing, nothing, _highest(log_p))


def mean(several: Sequence[Distribution]) -> Distribution:
    """The geometric mean of the probabilities, whose sum is at most 1."""
    if len(several) == 1:
        return several[0]
    below = [each.logits - each.top[..., None] for each in several]
    logits, log_total = (
        reduce(jnp.add, leaves) / len(several)
        for leaves in (below, [each.log_total for each in several])
    )
    return Distribution(logits, jnp.zeros_like(log_total), log_total, _highest(logits))


def _highest(logits: Float[Array, "*X V"]) -> Float[Array, "*X W"]:
    shape = (*[1] * (logits.ndim - 1), WINDOW)
    tail = [(0, 0)] * (logits.ndim - 1) + [(0, -logits.shape[-1] % WINDOW)]
    return lax.reduce_window(lax.stop_gradient(logits), -jnp.inf, lax.max, shape, shape, tail)
