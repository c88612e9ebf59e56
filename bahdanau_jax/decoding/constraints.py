"""Constraints on translations: length, banned words and prefixes.

B sentences, K hypotheses, V words, P words of the longest prefix.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from bahdanau_jax.batch import EOS, UNK

FREE = -1  # in a prefix: any word


class Rules(NamedTuple):
    """The rules of each sentence. None means no such rule, which then costs no time."""

    limits: Int[Any, " B"]  # int32 largest number of steps, EOS counted; 0 for a filler row
    minimum: Int[Any, " B"] | None = None  # int32 smallest number of words before EOS
    prefix: Int[Any, "B P"] | None = None  # int32 the first words, then FREE; EOS may close it
    ban_unk: Bool[Any, " B"] | None = None  # True: UNK has probability 0

    def within(self, max_length: int) -> "Rules":
        """Return the rules with limits of at most `max_length`; ValueError where it is below 1."""
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}, but should be at least 1")
        return self._replace(limits=jnp.minimum(self.limits, max_length).astype(jnp.int32))

    def shortest(self, time: Int[Array, ""]) -> Int[Array, " B"]:
        """Return the smallest length, EOS counted, of hypotheses that end after step `time`."""
        soonest = jnp.broadcast_to(time + 1, self.limits.shape)
        return soonest if self.minimum is None else jnp.maximum(soonest, self.minimum + 1)


def constrain(
    rules: Rules, time: Int[Array, ""], log_p: Float[Array, "B K V"]
) -> Float[Array, "B K V"]:
    """Set words that break a rule to -inf; words of the prefix are never banned.

    `log_p` may also be logits. Without prefixes, only the values of EOS and UNK can change.
    """
    unconstrained = log_p
    words = lax.broadcasted_iota(jnp.int32, (1, 1, log_p.shape[2]), 2)
    if rules.ban_unk is not None:  # XLA fuses a `where` with the next reader of the words
        log_p = jnp.where(rules.ban_unk[:, None, None] & (words == UNK), -jnp.inf, log_p)
    if rules.minimum is not None:
        early = (time < rules.minimum)[:, None]
        log_p = log_p.at[..., EOS].set(jnp.where(early, -jnp.inf, log_p[..., EOS]))
    if rules.prefix is not None:
        width = rules.prefix.shape[1]
        word = lax.dynamic_index_in_dim(rules.prefix, jnp.minimum(time, width - 1), 1, False)
        word = jnp.where(time < width, word, FREE)[:, None, None]
        prefixed = jnp.where(words == word, unconstrained, -jnp.inf)
        log_p = jnp.where(word == FREE, log_p, prefixed)
    return log_p
