"""What a translation may be: how long, without which words, and what it begins with.

B sentences, K hypotheses, V words, P words of the longest prefix.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from bahdanau_jax.batch import EOS, UNK

FREE = -1  # in a prefix: any word


class Rules(NamedTuple):
    """The rules of each sentence; None where there is no such rule, which then costs nothing."""

    limits: Int[Any, " B"]  # int32 steps allowed, EOS counted; 0 for a filler row
    minimum: Int[Any, " B"] | None = None  # int32 words to be written before EOS may come
    prefix: Int[Any, "B P"] | None = None  # int32 the first words, then FREE; EOS may close it
    ban_unk: Bool[Any, " B"] | None = None  # True: UNK has no probability

    def shortest(self, time: Int[Array, ""]) -> Int[Array, " B"]:
        """The least length, EOS counted, of what ends after step `time`."""
        soonest = jnp.broadcast_to(time + 1, self.limits.shape)
        return soonest if self.minimum is None else jnp.maximum(soonest, self.minimum + 1)


def constrain(
    rules: Rules, time: Int[Array, ""], log_p: Float[Array, "B K V"]
) -> Float[Array, "B K V"]:
    """-inf for words that break a rule; what the prefix asks for is never banned.

    Logits will do in place of log-probabilities. Without prefixes, only EOS and UNK can change.
    """
    given = log_p
    words = lax.broadcasted_iota(jnp.int32, (1, 1, log_p.shape[2]), 2)
    if rules.ban_unk is not None:  # a selection becomes part of whatever reads the words
        log_p = jnp.where(rules.ban_unk[:, None, None] & (words == UNK), -jnp.inf, log_p)
    if rules.minimum is not None:
        early = (time < rules.minimum)[:, None]
        log_p = log_p.at[..., EOS].set(jnp.where(early, -jnp.inf, log_p[..., EOS]))
    if rules.prefix is not None:
        width = rules.prefix.shape[1]
        here = lax.dynamic_index_in_dim(rules.prefix, jnp.minimum(time, width - 1), 1, False)
        wanted = jnp.where(time < width, here, FREE)[:, None, None]
        log_p = jnp.where(wanted == FREE, log_p, jnp.where(words == wanted, given, -jnp.inf))
    return log_p
