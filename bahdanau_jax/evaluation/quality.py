"""Quality estimation: which number that needs no reference predicts a translation's quality.

The quality of a sentence is its chrF. N sentences, R resamples of them; T tokens of a translation,
S of its source.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from bahdanau_jax.evaluation import significance
from bahdanau_jax.evaluation.tally import Tally
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.pairing import check_equal_counts

# log p of each target token, its attention -> a number that may predict the quality.
Measure = Callable[[Float[np.ndarray, " T"], Float[np.ndarray, "T S"]], float]


def _certainty_of_attention(
    log_p: Float[np.ndarray, " T"], alpha: Float[np.ndarray, "T S"]
) -> float:
    """Minus the mean entropy of the attention weights, in nats."""
    from scipy import special  # here, since it takes longer to import than most of this program

    return -float(special.entr(np.asarray(alpha, np.float64)).sum(axis=1).mean())


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


def correlations(
    measures: Mapping[str, Float[np.ndarray, " N"]],
    quality: Float[np.ndarray, " N"],
    resamples: int = significance.RESAMPLES,
    seed: int = significance.SEED,
) -> dict[str, Correlation]:
    """Correlate several measures with the quality of the same N sentences, on the same resamples.

    The result is NaN for a measure or a quality that has NaN. Raises ValueError for unequal numbers
    and for fewer than one resample.

    >>> correlations({"words": np.array([3.0, 2.0])}, np.array([9.0, 8.0]))["words"].pearson
    1.0
    """
    values = {name: np.asarray(each, np.float64) for name, each in measures.items()}
    quality = np.asarray(quality, np.float64)
    for name, each in values.items():
        check_equal_counts(name, each, "sentences", quality)
    known = {n: x for n, x in values.items() if len(x) and not np.isnan([x, quality]).any()}
    if len(known) < len(values):
        nothing = dict.fromkeys(values, Correlation(np.nan, np.nan, (np.nan, np.nan)))
        return nothing | (correlations(known, quality, resamples, seed) if known else {})
    orders = {name: _Order.of(each) for name, each in values.items()}
    of_quality = _Order.of(quality)

    def spearman(times: Float[np.ndarray, " N"]) -> list[float]:
        theirs = of_quality.ranks(times)
        return [_correlation(each.ranks(times), theirs, times) for each in orders.values()]

    blocks = significance.multiplicities(len(quality), resamples, seed)
    sampled = np.array([spearman(times) for block in blocks for times in block])
    every = np.ones(len(quality))
    pearson = [_correlation(each, quality, every) for each in values.values()]
    columns = zip(pearson, spearman(every), map(significance.middle, sampled.T), strict=True)
    return {name: Correlation(*column) for name, column in zip(values, columns, strict=True)}


class _Order(NamedTuple):
    """The order of N values, sorted once. Ranks within a resample are sums of multiplicities."""

    value_of: Shaped[np.ndarray, " N"]  # the place of each sentence's value among the unique ones
    sentences: Shaped[np.ndarray, " N"]  # in the order of their values
    starts: Shaped[np.ndarray, " U"]  # where each unique value begins in that order

    @classmethod
    def of(cls, values: Float[np.ndarray, " N"]) -> "_Order":
        _, value_of, members = np.unique(values, return_inverse=True, return_counts=True)
        return cls(value_of, np.argsort(value_of, kind="stable"), np.cumsum(members) - members)

    def ranks(self, times: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Each sentence's rank within a resample; equal values have the mean of their ranks."""
        counts = np.add.reduceat(times[self.sentences], self.starts)
        return (np.cumsum(counts) - (counts - 1) / 2)[self.value_of]


def table(
    hypotheses: Sequence[Hypothesis],
    chrf: Tally,
    resamples: int = significance.RESAMPLES,
    seed: int = significance.SEED,
) -> dict[str, Any]:
    """Correlate the score of the search and MEASURES with the chrF of each sentence.

    Hypotheses without tokens, those of blank and of too long lines, are left out.

    >>> table(run.translate(lines), chrf_tally(texts, references))["measures"]["score"]
    """
    rows = [row for row, best in enumerate(hypotheses) if best.tokens]
    reached = chrf.formula(chrf.counts[rows])
    measured = {"score": np.array([hypotheses[row].score for row in rows])}
    for name, measure in MEASURES.items():
        each = (hypotheses[row] for row in rows)
        values = [measure(np.array(best.log_probabilities), best.alpha) for best in each]
        measured[name] = np.array(values)
    return {
        "sentences": len(rows),
        "measures": {
            name: found._asdict() | {"interval": list(found.interval)}
            for name, found in correlations(measured, reached, resamples, seed).items()
        },
    }


def _correlation(
    a: Float[np.ndarray, " N"], b: Float[np.ndarray, " N"], times: Float[np.ndarray, " N"]
) -> float:
    """Pearson's correlation, with each sentence so many times; NaN where a side is constant."""
    a, b = a - a[0], b - b[0]  # exact zeros where a side is constant
    a, b = (each - times @ each / times.sum() for each in (a, b))
    size = float(np.sqrt((times @ a**2) * (times @ b**2)))
    return float(np.clip((times * a) @ b / size, -1, 1)) if size else np.nan
