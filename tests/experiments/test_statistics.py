"""Statistics of scores over seeds, by hand and by enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bahdanau_jax.experiments import results, statistics

SCORES = st.floats(-100, 100).map(lambda x: round(x, 3))


def test_a_summary_by_hand():
    """Student's t with two degrees of freedom: 4.302653 of the standard error, √(1/3)."""
    found = statistics.summarize([1.0, 2.0, 3.0])
    assert (found.mean, found.spread, found.seeds) == (2.0, 1.0, 3)
    reach = 4.302652729911275 / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((2 - reach, 2 + reach))
    two = statistics.summarize([1.0, 3.0])  # Student's t is 12.7062, and the standard error 1
    assert two.spread == pytest.approx(math.sqrt(2)) and two.high == pytest.approx(14.7062047364)


def test_one_seed_has_no_spread():
    found = statistics.summarize([5.0])
    assert found.mean == 5 and all(map(math.isnan, (found.spread, found.low, found.high)))


def test_no_seed_and_unequal_numbers_are_errors():
    with pytest.raises(ValueError, match="no scores"):
        statistics.summarize([])
    with pytest.raises(ValueError, match="3 scores but 2"):
        statistics.compare([1, 2, 3], [1, 2])


@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=6))
def test_the_p_value_counts_all_signs(pairs):
    first, second = zip(*pairs, strict=True)
    differences = [a - b for a, b in pairs]
    reached = abs(math.fsum(differences))
    sums = [
        abs(math.fsum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(each >= reached - 1e-9 for each in sums) / len(sums)
    assert statistics.compare(first, second).p == pytest.approx(expected)


@pytest.mark.parametrize("first, second", [([0.4, 0.4, 0.1, 0.4, 0.4], [0.1, 0.7, 0.1, 0.1, 0.7])])
def test_differences_that_cancel_have_a_p_value_of_1(first, second):
    assert statistics.compare(first, second).p == 1


@pytest.mark.parametrize("seeds", [3, 12, 13, 16, 17])
def test_the_smallest_p_value_is_that_of_differences_of_one_sign(seeds):
    found = statistics.compare(np.arange(1.0, seeds + 1).tolist(), [0.0] * seeds).p
    smallest = statistics.smallest_p(seeds)
    assert smallest <= found <= 3 * smallest
    assert found == smallest or seeds > statistics.EXACT


def test_many_seeds_are_drawn_and_always_the_same():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.5, 1, 20), rng.normal(0, 1, 20)
    found = statistics.compare(first, second)
    assert found == statistics.compare(first, second)
    assert 0 < found.p < 1 and found.difference == pytest.approx(float(np.mean(first - second)))
    assert statistics.compare(first, first).p == 1


def test_the_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(1)
    drawn = (statistics.summarize(rng.normal(3, 2, 5)) for _ in range(2000))
    covered = np.mean([each.low <= 3 <= each.high for each in drawn])
    assert 0.935 < covered < 0.965


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_not_finite_has_no_p_value(score):
    assert math.isnan(statistics.compare([score, 1.0], [1.0, 2.0]).p)


def test_a_table_says_how_many_seeds_have_a_score():
    scores = {"a": {1: {"BLEU": 1.0}, 2: {"BLEU": None}}, "b": {1: {"BLEU": 2.0}, 2: {"BLEU": 4.0}}}
    found = results.Results(scores, {})
    rows = dict((cell, text) for cell, _, text in results.table(found, ["BLEU"]).rows)
    assert rows["a"] == "1.0 (1 of 2 seeds)" and rows["b"].startswith("3.0 ± ")
    assert "of 2 seeds" not in rows["b"]
    compared = results.comparisons(found, [("b", "a")], ["BLEU"]).rows
    assert compared == [("b minus a", "+1.0 (1 of 2 seeds)")]


def test_means_of_scores_that_nothing_pairs():
    """Welch's t-test by hand: t = 3.5, with 3.2 degrees of freedom."""
    found = statistics.compare_independent([3.0, 4.0, 5.0], [1.0, 2.0, 2.0])
    standard_error = math.sqrt(1 / 3 + 1 / 9)
    reach = stats.t.ppf(0.975, 3.2) * standard_error
    expected = (7 / 3, 7 / 3 - reach, 7 / 3 + reach, 2 * stats.t.sf(3.5, 3.2))
    assert found[:4] == pytest.approx(expected, rel=1e-12)
    assert statistics.compare_independent([5.0, 3.0, 4.0], [2.0, 1.0, 2.0])[:4] == pytest.approx(
        found[:4]
    )
