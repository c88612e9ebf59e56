"""Quality estimation: which number that needs no reference predicts a translation's quality.

The quality of a sentence is its chrF. N sentences; T tokens of a translation, S of its source.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bahdanau_jax.evaluation.tally import Tally
from bahdanau_jax.hypothesis import Hypothesis

Measure = Callable[[Float[np.ndarray, " T"], Float[np.ndarray, "T S"]], float]


def _certainty_of_attention(
    log_p: Float[np.ndarray, " T"], alpha: Float[np.ndarray, "T S"]
) -> float:
    """Minus the mean entropy of the attention weights, in nats."""
    from scipy import stats  # here, since it takes longer to import than most of this program

    return -float(np.mean(stats.entropy(np.asarray(alpha, np.float64) + 1e-12, axis=1)))


# Name -> function of a translation's log-probabilities and attention weights; more is better.
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "mean log p": lambda log_p, alpha: float(np.mean(log_p)),
        "sum of log p": lambda log_p, alpha: float(np.sum(log_p)),
        "mean p": lambda log_p, alpha: float(np.mean(np.exp(log_p))),
        "least log p": lambda log_p, alpha: float(np.min(log_p)),
        "certainty of attention": _certainty_of_attention,
        "few tokens": lambda log_p, alpha: -float(len(log_p)),
    }
)


class Correlation(NamedTuple):
    """The correlation of a measure with the quality of sentences; NaN for a constant one."""

    pearson: float  # of the values
    spearman: float  # of their ranks
    interval: tuple[float, float]  # of Spearman's, 95 %, by bootstrap over the sentences


def correlation(
    measure: Float[np.ndarray, " N"],
    quality: Float[np.ndarray, " N"],
    resamples: int = 1000,
    seed: int = 1,
) -> Correlation:
    """Correlate a measure with the quality of N sentences.

    >>> correlation(np.array([1.0, 2.0, 4.0]), np.array([10.0, 30.0, 31.0])).spearman
    1.0
    """
    from scipy import stats

    sides = np.stack([np.asarray(measure, np.float64), np.asarray(quality, np.float64)])
    ranks = stats.rankdata(sides, axis=1)
    rows = np.random.default_rng(seed).integers(0, sides.shape[1], (resamples, sides.shape[1]))
    # The ranks within a sample are those of its ranks within all sentences.
    sampled = [_pearson(*stats.rankdata(ranks[:, own], axis=1)) for own in rows]
    known = [value for value in sampled if not np.isnan(value)]
    low, high = np.percentile(known, [2.5, 97.5]).tolist() if known else (np.nan, np.nan)
    return Correlation(_pearson(*sides), _pearson(*ranks), (low, high))


def table(
    hypotheses: Sequence[Hypothesis], chrf: Tally, resamples: int = 1000, seed: int = 1
) -> dict[str, Any]:
    """Correlate the score of the search and MEASURES with the chrF of each sentence.

    Empty translations are left out.

    >>> table(run.translate(lines), chrf_tally(texts, references))["measures"]["score"]
    """
    rows = [row for row, best in enumerate(hypotheses) if best.tokens]
    reached = chrf.formula(chrf.counts[rows])
    measured = {"score": [hypotheses[row].score for row in rows]}
    for name, measure in MEASURES.items():
        each = (hypotheses[row] for row in rows)
        measured[name] = [measure(np.array(best.log_probabilities), best.alpha) for best in each]
    correlations = {
        name: correlation(np.array(values), reached, resamples, seed)
        for name, values in measured.items()
    }
    return {
        "sentences": len(rows),
        "measures": {
            name: found._asdict() | {"interval": list(found.interval)}
            for name, found in correlations.items()
        },
    }


def _pearson(a: Float[np.ndarray, " N"], b: Float[np.ndarray, " N"]) -> float:
    x, y = a - a.mean(), b - b.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(np.clip(x @ y / size, -1, 1)) if size else np.nan
