"""Distributions over the next word, and the product that includes the bias."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from bahdanau_jax import distribution, model
from bahdanau_jax.decoding.candidates import best
from bahdanau_jax.distribution import WINDOW, Distribution
from bahdanau_jax.model import matrix_products


def _logits(*shape, seed=0):
    return np.random.default_rng(seed).normal(0, 5, shape)


@pytest.mark.parametrize("words", [1, 5, WINDOW, WINDOW + 1, 3 * WINDOW])
def test_softmax_is_that_of_scipy_and_finds_the_highest_of_each_window(words):
    logits = _logits(3, 2, words).astype(np.float32)
    found = distribution.softmax(jnp.asarray(logits))
    np.testing.assert_allclose(found.log_p, log_softmax(logits.astype(float), -1), atol=3e-6)
    expected = [logits[..., i : i + WINDOW].max(-1) for i in range(0, words, WINDOW)]
    np.testing.assert_array_equal(found.highest, np.stack(expected, -1))


@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_what_all_logits_share_changes_nothing(shift):
    logits = _logits(2, 70).round(1)
    found = distribution.softmax(jnp.asarray(logits + shift, jnp.float32))
    np.testing.assert_allclose(found.log_p, log_softmax(logits, -1), atol=2e-3)


def test_log_probabilities_are_more_precise_than_their_logits():
    """Logits near 50, where float32 has steps of 4e-6, make the first word nearly certain."""
    logits = _logits(97, 70).astype(np.float32) + 50
    logits[:, 0] = logits[:, 1:].max(-1) + 3
    exact = log_softmax(logits.astype(float), -1)[:, 0]
    found = distribution.softmax(jnp.asarray(logits))
    np.testing.assert_allclose(found.log_p[:, 0], exact, atol=5e-7, rtol=0)
    taken = best(jnp.zeros((97, 1)), jax.tree.map(lambda leaf: leaf[:, None], found), 1)
    np.testing.assert_allclose(taken.log_probability[:, 0], exact, atol=5e-7, rtol=0)
    np.testing.assert_allclose(taken.total[:, 0], exact, atol=5e-7, rtol=0)
    both = distribution.mean([found, found])
    np.testing.assert_allclose(both.log_p[:, 0], exact, atol=5e-7, rtol=0)


@pytest.mark.parametrize("shift", [-1e38, 1e38])
def test_no_size_of_logits_overflows(shift):
    assert np.isfinite(distribution.softmax(jnp.full((2, 7), shift, jnp.float32)).log_p).all()


def test_words_of_no_probability_stay_so():
    logits = _logits(2, 9).astype(np.float32)
    logits[:, 3:] = -np.inf
    found = distribution.softmax(jnp.asarray(logits))
    np.testing.assert_allclose(found.log_p[:, :3], log_softmax(logits[:, :3], -1), atol=1e-6)
    assert np.isneginf(found.log_p[:, 3:]).all()


def test_half_precision_is_normalised_in_single():
    found = distribution.softmax(jnp.asarray(_logits(2, 300), jnp.bfloat16))
    assert {leaf.dtype for leaf in found} == {jnp.dtype("float32")}


def test_the_gradient_is_that_of_log_softmax():
    logits, weights = (jnp.asarray(_logits(4, 100, seed=seed), jnp.float32) for seed in (1, 2))
    ours = jax.grad(lambda x: (weights * distribution.softmax(x).log_p).sum())(logits)
    theirs = jax.grad(lambda x: (weights * jax.nn.log_softmax(x)).sum())(logits)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_log_probabilities_and_distributions_are_both_distributions():
    log_p = jnp.asarray(_logits(2, 3, 70), jnp.float32)
    found = distribution.as_distribution(log_p)
    np.testing.assert_array_equal(found.log_p, log_p)
    np.testing.assert_array_equal(found.highest[..., 0], log_p[..., :WINDOW].max(-1))
    assert distribution.as_distribution(found) is found


def test_what_is_changed_has_the_highest_of_the_new_logits():
    found = distribution.softmax(jnp.asarray(_logits(2, 70), jnp.float32))
    banned = found.changed(found.logits.at[:, 0].set(100.0))
    assert isinstance(banned, Distribution)
    np.testing.assert_array_equal(banned.highest[:, 0], 100.0)
    np.testing.assert_array_equal(banned.top, found.top)
    np.testing.assert_array_equal(banned.log_total, found.log_total)


with_bias = jax.jit(matrix_products.with_bias, static_argnums=0)


@settings(max_examples=200)
@given(
    st.lists(
        st.floats(width=32, min_value=-(2.0**100), max_value=2.0**100), min_size=1, max_size=40
    )
)
def test_rounded_rows_add_up_to_the_bias(values):
    bias = np.zeros(40, np.float32)  # one size, and so one program
    bias[: len(values)] = values
    whole = with_bias("bfloat16", jnp.zeros((5, 40), jnp.float32), bias)
    rows = np.asarray(whole[5:], np.float64)
    np.testing.assert_array_equal(whole, np.asarray(whole).astype(jnp.bfloat16).astype(np.float32))
    # Below the normal numbers of bfloat16 and float32, which are the same, a CPU rounds to zero.
    np.testing.assert_allclose(rows.sum(0), bias.astype(np.float64), rtol=0, atol=2.0**-125)


@pytest.mark.parametrize("name", list(model.COMPUTE_DTYPES))
def test_a_product_with_its_bias_is_the_product_and_the_bias(name):
    x, weight = (jnp.asarray(_logits(*shape), jnp.float32) for shape in ((2, 6, 50), (50, 33)))
    bias = jnp.asarray(_logits(33, seed=3), jnp.float32).at[4].set(-jnp.inf)
    whole = matrix_products.with_bias(name, weight, bias)
    found = matrix_products.matmul(name, matrix_products.with_ones(x, len(whole)), whole)
    expected = np.asarray(matrix_products.matmul(name, x, weight)) + np.asarray(bias)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert np.isneginf(found[..., 4]).all()
