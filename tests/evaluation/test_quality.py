"""Quality estimation: correlations by SciPy, and measures by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bahdanau_jax.evaluation import quality


def correlation(measure, quality_of, **settings):
    return quality.correlations({"measure": measure}, quality_of, **settings)["measure"]


VALUES = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=12)


@given(VALUES)
def test_correlations_are_those_of_scipy(pairs):
    a, b = np.array(pairs, np.float64).T
    found = correlation(a, b, resamples=5)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert math.isnan(found.pearson) and math.isnan(found.spearman)
        return
    assert found.pearson == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-9)
    assert found.spearman == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-9)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=12))
def test_the_interval_is_that_of_resamples_ranked_one_by_one(pairs):
    a, b = np.array(pairs, np.float64).T
    rows = np.random.default_rng(5).choice(len(a), size=(45, len(a)))
    each = [
        stats.spearmanr(a[row], b[row]).statistic
        for row in rows
        if len({*a[row]}) > 1 < len({*b[row]})
    ]
    cut = len(each) // 40  # without the smallest and the largest of 40 or more
    expected = (sorted(each)[cut], sorted(each)[-1 - cut]) if each else (np.nan, np.nan)
    found = correlation(a, b, resamples=45, seed=5).interval
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, 0.1, 0.1]])
def test_no_sentence_and_equal_ones_have_no_correlation(values):
    found = correlation(np.array(values), np.arange(len(values)), resamples=3)
    assert np.isnan([found.pearson, found.spearman, *found.interval]).all()


def test_a_measure_with_nan_has_no_correlation_and_the_others_have():
    quality_of = np.array([1.0, 2.0, 3.0])
    measures = {"nan": np.array([1.0, np.nan, 2.0]), "all": np.array([1.0, 2.0, 4.0])}
    found = quality.correlations(measures, quality_of, resamples=3)
    assert np.isnan([found["nan"].pearson, found["nan"].spearman, *found["nan"].interval]).all()
    assert found["all"] == correlation(measures["all"], quality_of, resamples=3)


@pytest.mark.parametrize(
    "measure, resamples, said",
    [([1.0], 3, "1 measure but 2 sentences"), ([1.0, 2.0], 0, "0 resamples")],
)
def test_faults_of_arguments_are_clear(measure, resamples, said):
    with pytest.raises(ValueError, match=said):
        correlation(np.array(measure), np.array([1.0, 2.0]), resamples=resamples)


def test_the_interval_is_a_bootstrap_over_sentences_and_always_the_same():
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    b = a + rng.normal(size=300)
    found = correlation(a, b)
    assert found == correlation(a, b)
    # By Fisher's transformation, with the standard error of Spearman's (Bonett and Wright 2000).
    reach = 1.96 * math.sqrt((1 + found.spearman**2 / 2) / 297)
    expected = np.tanh(np.arctanh(found.spearman) + np.array([-reach, reach]))
    np.testing.assert_allclose(found.interval, expected, atol=0.02)


def test_the_measures_by_hand():
    log_p, alpha = np.log([0.5, 0.25]), np.array([[1.0, 0.0], [0.5, 0.5]])
    found = {name: measure(log_p, alpha) for name, measure in quality.MEASURES.items()}
    assert found == pytest.approx(
        {
            "mean log p": 1.5 * math.log(0.5),
            "sum of log p": 3 * math.log(0.5),
            "mean p": 0.375,
            "least log p": 2 * math.log(0.5),
            "certainty of attention": math.log(0.5) / 2,
            "few tokens": -2.0,
        },
        abs=1e-9,
    )
