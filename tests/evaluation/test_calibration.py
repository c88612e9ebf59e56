"""Calibration, compared with sums by hand and with a loop."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.evaluation.calibration import (
    BINNINGS,
    area_under_roc,
    expected_calibration_error,
    reliability,
    table,
)

WORDS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40)


def test_by_hand():
    confidence = np.array([0.2, 0.25, 0.9, 1.0, 0.5])
    correct = np.array([True, False, True, True, False])
    low, high = reliability(confidence, correct, bins=2)
    assert (low.low, low.high, low.words, high.words) == (0, 0.5, 3, 2)  # 0.5 belongs to the lower
    assert (low.confidence, low.accuracy) == pytest.approx((0.95 / 3, 1 / 3))
    assert (high.confidence, high.accuracy) == pytest.approx((0.95, 1))
    expected = 3 / 5 * (1 / 3 - 0.95 / 3) + 2 / 5 * 0.05
    assert expected_calibration_error([low, high]) == pytest.approx(expected)


def test_bins_of_equal_mass_by_hand():
    confidence = np.array([0.9, 0.1, 0.8, 0.2, 0.3])
    correct = np.array([False, True, True, True, True])
    first, second = reliability(confidence, correct, bins=2, binning="equal-mass")
    assert (first.words, first.low, first.high, first.accuracy) == (3, 0.1, 0.3, 1)
    assert (second.words, second.low, second.high, second.accuracy) == (2, 0.8, 0.9, 0.5)


@given(WORDS, st.integers(1, 17))
def test_equals_a_loop(words, bins):
    confidence, correct = map(np.array, zip(*words, strict=True))
    found = reliability(confidence, correct, bins)
    total = 0.0
    for k in range(bins):
        inside = [
            (p, ok) for p, ok in words if k < math.ceil(p * bins) <= k + 1 or (k == 0 and p == 0)
        ]
        assert found[k].words == len(inside)
        total += abs(sum(p for p, _ in inside) - sum(ok for _, ok in inside)) / len(words)
    assert expected_calibration_error(found) == pytest.approx(total, abs=1e-12)


@given(WORDS, st.sampled_from(sorted(BINNINGS)), st.randoms())
def test_the_order_of_the_words_does_not_matter(words, binning, random):
    shuffled = random.sample(words, len(words))
    one, other = (
        reliability(*map(np.array, zip(*some, strict=True)), binning=binning)
        for some in (words, shuffled)
    )
    assert one == other
    assert sum(b.words for b in one) == len(words)


def test_a_model_that_is_right_as_often_as_it_says_has_no_error():
    confidence = np.repeat([0.25, 0.75], 4)
    correct = np.array([1, 0, 0, 0, 1, 1, 1, 0], bool)
    assert expected_calibration_error(reliability(confidence, correct, 4)) == 0
    assert expected_calibration_error(reliability(confidence, ~correct, 4)) == 0.5


@pytest.mark.parametrize("binning", BINNINGS)
def test_among_equal_confidences_no_bin_has_the_wrong_ones(binning):
    confidence, correct = np.full(100, 0.5), np.arange(100) % 2 == 0
    bins = reliability(confidence, correct, 2, binning)
    assert expected_calibration_error(bins) == pytest.approx(0)


def test_no_words_no_error():
    for binning in BINNINGS:
        bins = reliability(np.zeros(0), np.zeros(0, bool), binning=binning)
        assert math.isnan(expected_calibration_error(bins))
        assert {(b.words, b.confidence, b.accuracy) for b in bins} == {(0, None, None)}


def test_what_is_no_probability_is_refused():
    for confidence in (np.array([1.1]), np.array([math.nan]), np.array([0.5, 0.5])):
        with pytest.raises(ValueError, match="probabilities"):
            reliability(confidence, np.array([True]))
    with pytest.raises(ValueError, match="NaN instead of probabilities: the model may have"):
        reliability(np.array([np.nan]), np.array([True]))
    with pytest.raises(ValueError, match="odd.*equal-mass, equal-width"):
        reliability(np.array([0.5]), np.array([True]), binning="odd")


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.5, 1.0]), st.booleans()), max_size=12))
def test_area_under_roc_equals_all_pairs(words):
    right, wrong = ([p for p, ok in words if ok is wanted] for wanted in (True, False))
    pairs = [(p > q) + (p == q) / 2 for p in right for q in wrong]
    confidence, correct = np.array([p for p, _ in words]), np.array([ok for _, ok in words], bool)
    expected = np.mean(pairs) if pairs else np.nan
    assert area_under_roc(confidence, correct) == pytest.approx(expected, nan_ok=True)


def test_the_table_has_all_numbers():
    found = table(np.array([0.9, 0.7, 0.2]), np.array([True, False, False]))
    numbers = {name: found[name] for name in ("words", "accuracy", "confidence", "AUC")}
    assert numbers == pytest.approx({"words": 3, "accuracy": 1 / 3, "confidence": 0.6, "AUC": 1})
    assert found["ECE"] == found["ECE-equal-mass"] == pytest.approx((0.1 + 0.7 + 0.2) / 3)
    assert sum(each["words"] for each in found["bins"]["equal-width"]) == 3
    nothing = table(np.zeros(0), np.zeros(0, bool))
    assert nothing["words"] == 0
    assert all(math.isnan(nothing[name]) for name in ("accuracy", "confidence", "AUC", "ECE"))
