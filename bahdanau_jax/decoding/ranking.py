"""What hypotheses are ranked by: one scale for finished, live and forced ones.

B sentences, K hypotheses, S source positions.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bahdanau_jax.config import DecodingConfig


@dataclass(frozen=True)
class Normalization:
    """Σ log p / penalty(length, alpha); the penalty is positive and monotone in the length.

    >>> dataclasses.replace(NORMALIZATIONS["wu"], alpha=1.0)
    """

    penalty: Callable[[Float[Array, "..."], float], Float[Array, "..."]]
    alpha: float = 0.6  # the exponent, where the penalty has one

    def __call__(
        self, total: Float[Array, "..."], length: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        return total / self.penalty(jnp.maximum(length, 1).astype(total.dtype), self.alpha)


NORMALIZATIONS: Mapping[str, Normalization] = MappingProxyType(
    {
        "none": Normalization(lambda length, alpha: jnp.ones_like(length)),
        "average": Normalization(lambda length, alpha: length),
        # ((5 + n) / 6)^α: Wu et al., arXiv 1609.08144, equation 14
        "wu": Normalization(lambda length, alpha: ((5 + length) / 6) ** alpha),
    }
)


@dataclass(frozen=True)
class Ranking:
    """score = normalization(Σ log p, length) + β Σ_j log min(Σ_t α_tj, 1), j the source's words.

    The second term is Wu et al.'s coverage penalty (arXiv 1609.08144, equation 14): at most 0,
    and 0 where every word was looked at once in all.
    """

    normalization: Normalization = NORMALIZATIONS["none"]
    coverage: float = 0.0  # β

    @classmethod
    def of(cls, config: DecodingConfig) -> Self:
        """As configured."""
        chosen = NORMALIZATIONS[config.length_normalization]
        return cls(dataclasses.replace(chosen, alpha=config.alpha), config.coverage)

    def attainable(
        self, total: Float[Array, " B"], shortest: Int[Array, " B"], longest: Int[Array, " B"]
    ) -> Float[Array, " B"]:
        """The highest score that a live hypothesis may still end with, at a length in that range.

        Its total only falls, the penalty is monotone, so one of the two ends is the best; and the
        coverage term may rise to 0, its highest value, in a single step.
        """
        return jnp.maximum(*(self.normalization(total, length) for length in (shortest, longest)))

    def covered(self, seen: Float[Array, "*X S"], words: Bool[Array, "*X S"]) -> Float[Array, "*X"]:
        """β Σ_j log min(seen_j, 1) over the words of the source."""
        return self.coverage * coverage(seen, words)

    def score(self, log_p: Float[np.ndarray, " T"], alpha: Float[np.ndarray, "T S"]) -> float:
        """What search would rank this hypothesis by; the source's EOS is the last column."""
        found = self.normalization(jnp.asarray(log_p.sum()), jnp.asarray(len(log_p)))
        if self.coverage:
            words = jnp.ones(alpha.shape[1] - 1, bool)
            found += self.covered(jnp.asarray(alpha[:, :-1].sum(0)), words)
        return float(found)


PLAIN = Ranking()  # the sum of log-probabilities

# What a word counts as seen that no step looked at: the logarithm stays finite where windows of
# attention leave words out. It costs 14 times β.
UNSEEN = 1e-6


def coverage(seen: Float[Array, "*X S"], words: Bool[Array, "*X S"]) -> Float[Array, "*X"]:
    """Σ_j log min(seen_j, 1), seen_j = Σ_t α_tj with the step that wrote EOS counted.

    `words` is True at the words of the source: neither padding, which no step can look at, nor the
    source's EOS, which has no translation to be missed.
    """
    return jnp.sum(jnp.where(words, jnp.log(jnp.clip(seen, UNSEEN, 1)), 0), -1)


def source_words(mask: Bool[Array, "B S"]) -> Bool[Array, "B S"]:
    """The mask without the last real position of each row, its EOS."""
    return mask & jnp.pad(mask, ((0, 0), (0, 1)))[:, 1:]
