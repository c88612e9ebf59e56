"""Scores over seeds: their mean, spread and confidence interval, and tests between cells.

R seeds. Tests pair the runs of two cells by their seed, except `compare_independent`.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

from bahdanau_jax.pairing import check_equal_counts

CONFIDENCE = 0.95  # of an interval
LARGEST_P = 0.05  # with fewer seeds than can reach it, a p-value says nothing
EXACT = 16  # with at most this many seeds, a test uses all 2^R combinations of signs
DRAWS = 1 << 14  # combinations of signs that are drawn where there are more seeds


class Summary(NamedTuple):
    """A score over seeds; the interval is that of the mean, by Student's t."""

    mean: float  # of the seeds
    spread: float  # the standard deviation of the seeds, with R - 1; NaN for one seed
    low: float  # the lower end of the 95 % interval; NaN for one seed
    high: float  # its upper end
    seeds: int  # R, the number of seeds


class Paired(NamedTuple):
    """The differences of two cells, seed by seed."""

    difference: float  # the mean of first - second
    low: float  # the lower end of its 95 % interval, by Student's t; NaN for one seed
    high: float  # its upper end
    p: float  # two-sided, by the permutation of signs
    seeds: int  # R, the number of pairs


class Independent(NamedTuple):
    """The difference of the means of two groups of scores, by Welch's t-test."""

    difference: float  # the mean of first, minus that of second
    low: float  # the lower end of its 95 % interval
    high: float  # its upper end
    p: float  # two-sided


def summarize(scores: Sequence[float]) -> Summary:
    """Summarise the scores of some seeds. Raises ValueError where there are none.

    >>> summarize([1.0, 2.0, 3.0])[:2]
    (2.0, 1.0)
    """
    values = np.asarray(scores, np.float64)
    if not values.size:
        raise ValueError("there are no scores to summarise")
    mean, count = float(values.mean()), len(values)
    with np.errstate(invalid="ignore"):  # the spread of an infinite score is NaN
        spread = float(values.std(ddof=1)) if count > 1 else math.nan
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * spread / math.sqrt(count)
    return Summary(mean, spread, mean - reach, mean + reach, count)


def compare(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Compare two cells by the scores of the same seeds, in the same order.

    The p-value is the share of sign permutations of the differences whose mean is at least as far
    from 0 (Fisher 1935). With R seeds it is at least 2^(1 - R). It is NaN where a score is not
    finite. Raises ValueError for different numbers of scores.

    >>> compare([3.0, 4.0, 5.0], [1.0, 2.0, 2.0])[0::3]
    (2.3333333333333335, 0.25)
    """
    check_equal_counts("scores", first, "others", second)
    differences = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    summary = summarize(differences.tolist())
    return Paired(summary.mean, summary.low, summary.high, _p_value(differences), len(differences))


def compare_seeds(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired | None:
    """Compare the scores of the seeds that both have; None where there are none.

    >>> compare_seeds({1: 3.0, 2: 4.0}, {2: 1.0, 3: 9.0}).difference
    3.0
    """
    seeds = sorted(set(ours) & set(theirs))
    if not seeds:
        return None
    return compare([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])


def compare_independent(first: Sequence[float], second: Sequence[float]) -> Independent:
    """Compare the means of scores that nothing pairs, by Welch's t-test.

    >>> compare_independent([3.0, 4.0, 5.0], [1.0, 2.0]).difference
    2.5
    """
    test = stats.ttest_ind(first, second, equal_var=False)
    low, high = map(float, test.confidence_interval(CONFIDENCE))
    difference = float(np.mean(first) - np.mean(second))
    return Independent(difference, low, high, float(test.pvalue))  # pyright: ignore


def smallest_p(seeds: int) -> float:
    """The smallest p-value of `compare` with this many seeds.

    >>> smallest_p(3), smallest_p(10)
    (0.25, 0.001953125)
    """
    return 2.0 ** (1 - seeds) if seeds <= EXACT else 1 / DRAWS


def _p_value(differences: Float[np.ndarray, " R"]) -> float:
    count = len(differences)
    if not np.isfinite(differences).all():
        return math.nan
    if count <= EXACT:
        signs = np.array(list(itertools.product((1, -1), repeat=count)), np.float64)
    else:
        drawn = np.random.default_rng(0).integers(2, size=(DRAWS - 1, count))
        signs = np.concatenate([np.ones((1, count)), 1 - 2.0 * drawn])  # the observed one counts
    means = np.abs(signs @ differences)
    rounding = 1e-12 * float(np.abs(differences).sum())
    return float((means >= abs(float(differences.sum())) - rounding).mean())
