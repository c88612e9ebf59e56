"""The score that ranks hypotheses, the same for finished, live and teacher-forced ones.

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
    """Length normalisation, Σ log p / penalty(length, alpha); the penalty is positive and monotone.

    >>> dataclasses.replace(NORMALIZATIONS["wu"], alpha=1.0)
    """

    penalty: Callable[[Float[Array, "..."], float], Float[Array, "..."]]  # (words, alpha)
    alpha: float = 0.6  # the exponent, where the penalty has one

    def __call__(
        self, total: Float[Array, "..."], length: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        return total / self.penalty(jnp.maximum(length, 1).astype(total.dtype), self.alpha)


# Value of `decoding.length_normalization` -> the divisor of the sum of log p.
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
    """score = normalization(Σ log p, length) + β Σ_j log min(Σ_t α_tj, 1), j over source words.

    The second term is Wu et al.'s coverage penalty (arXiv 1609.08144, equation 14). It is at most
    0, and 0 where the attention to every word adds up to at least 1.
    """

    normalization: Normalization = NORMALIZATIONS["none"]  # by the length of the hypothesis
    coverage: float = 0.0  # β

    @classmethod
    def of(cls, config: DecodingConfig) -> Self:
        """Return the ranking of this configuration."""
        normalization = NORMALIZATIONS[config.length_normalization]
        return cls(dataclasses.replace(normalization, alpha=config.alpha), config.coverage)

    def attainable(
        self, total: Float[Array, " B"], shortest: Int[Array, " B"], longest: Int[Array, " B"]
    ) -> Float[Array, " B"]:
        """Return an upper bound of the final score of a live hypothesis, at lengths in this range.

        The total only falls and the penalty is monotone, so one end of the range is the best. The
        coverage term may rise to 0, its highest value, in a single step.
        """
        return jnp.maximum(*(self.normalization(total, length) for length in (shortest, longest)))

    def covered(
        self, attended: Float[Array, "*X S"], words: Bool[Array, "*X S"]
    ) -> Float[Array, "*X"]:
        """Return β Σ_j log min(attended_j, 1) over the words of the source."""
        return self.coverage * coverage(attended, words)

    def score(self, log_p: Float[np.ndarray, " T"], alpha: Float[np.ndarray, "T S"]) -> float:
        """Return the score of one hypothesis; the last column of alpha is the source's EOS."""
        score = self.normalization(jnp.asarray(log_p.sum()), jnp.asarray(len(log_p)))
        if self.coverage:
            words = jnp.ones(alpha.shape[1] - 1, bool)
            score += self.covered(jnp.asarray(alpha[:, :-1].sum(0)), words)
        return float(score)


PLAIN = Ranking()  # the sum of log-probabilities

# The lowest attention that a word counts with. It keeps the logarithm finite for words that no step
# attends to; each of them costs 14 β.
UNSEEN = 1e-6


def coverage(attended: Float[Array, "*X S"], words: Bool[Array, "*X S"]) -> Float[Array, "*X"]:
    """Return Σ_j log min(attended_j, 1), with attended_j = Σ_t α_tj over all steps, EOS's included.

    `words` is True at the words of the source, without padding and without EOS, which needs no
    translation.
    """
    return jnp.sum(jnp.where(words, jnp.log(jnp.clip(attended, UNSEEN, 1)), 0), -1)
