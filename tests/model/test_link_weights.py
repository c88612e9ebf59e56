"""Link weights that use the target word, against NumPy loops."""

import dataclasses

import numpy as np
import pytest

from bahdanau_jax.model import ORDERS
from bahdanau_jax.model.link_weights import LINK_WEIGHTS, POINTS, check_link_weights
from tests import oracles
from tests.model.worlds import (
    CONFIGS,
    IN_EACH_ORDER,
    batch,
    compiled,
    each,
    on_device,
    pairs,
    parameters,
)

PAIRS = pairs(seed=7, count=4)
BATCH = on_device(batch(PAIRS, extra_source=1, extra_target=1, fillers=1))


def weights(kind, name):
    config = CONFIGS[name]
    program = compiled(LINK_WEIGHTS[kind].compute, static_argnums=0)
    return program(config, parameters(config), BATCH)


@pytest.mark.parametrize("name", [*IN_EACH_ORDER, "coverage"])
def test_the_posterior_equals_a_loop_over_steps_and_source_words(name, monkeypatch):
    config, params = CONFIGS[name], oracles.f64(parameters(CONFIGS[name]))
    plain, found = oracles.attend, weights("posterior", name)
    np.testing.assert_array_equal(found.log_p, weights("attention", name).log_p)
    for row, (source, target) in enumerate(PAIRS):
        alpha = oracles.translate_log_probabilities(config, params, source, target)[1]
        expected = np.array(alpha)
        for i, j in np.ndindex(alpha.shape):
            steps = iter(range(len(target)))

            def attend(*arguments, i=i, j=j, steps=steps):
                c, alpha = plain(*arguments)
                annotations = next(x for x in arguments if isinstance(x, list))
                return (annotations[j], alpha) if next(steps) == i else (c, alpha)

            monkeypatch.setattr(oracles, "attend", attend)
            log_p = oracles.translate_log_probabilities(config, params, source, target)[0]
            expected[i, j] *= np.exp(log_p[i, target[i]])
        monkeypatch.setattr(oracles, "attend", plain)
        expected /= expected.sum(axis=1, keepdims=True)
        ours = np.asarray(found.alpha)[row]
        T, S = expected.shape
        np.testing.assert_allclose(ours[:T, :S], expected, rtol=1e-4, atol=1e-6)
        assert not ours[:T, S:].any()


def test_shift_takes_the_next_row_and_eos_keeps_its_own():
    shifted, plain = weights("shift", "luong"), weights("attention", "luong")
    for row, (_, target) in enumerate(PAIRS):
        T = len(target)
        expected = np.concatenate([plain.alpha[row, 1:T], plain.alpha[row, T - 1 : T]])
        np.testing.assert_array_equal(shifted.alpha[row, :T], expected)


def test_saliency_is_a_distribution_over_real_positions():
    alpha = np.asarray(weights("saliency", "default").alpha)
    assert np.isfinite(alpha).all() and (alpha >= 0).all()
    for row, (source, target) in enumerate(PAIRS):
        np.testing.assert_allclose(alpha[row, : len(target)].sum(1), 1, rtol=1e-5)
        assert not alpha[row, : len(target), len(source) :].any()


def integrated_by_differences(config, params, source, target):
    """Integrated gradients from zero embeddings [T, S], by central differences of the loop."""
    x = np.array([oracles.embed(params["source_embedding"], word) for word in source])
    nodes, shares = np.polynomial.legendre.leggauss(POINTS)
    words, change = np.arange(len(target)), 1e-5

    def log_p(scales):
        own = params | {"source_embedding": {"E": x * scales[:, None]}}
        found, _ = oracles.translate_log_probabilities(config, own, range(len(source)), target)
        return found[words, target]

    A = np.zeros((len(target), len(source)))
    for t, share in zip((nodes + 1) / 2, shares / 2, strict=True):
        for j in range(len(source)):
            step = np.where(np.arange(len(source)) == j, change, 0)
            A[:, j] += share * (log_p(t + step) - log_p(t - step)) / (2 * change)
    return A


@pytest.mark.parametrize("name", each("default", of=["default", "words", "coverage"]))
def test_saliency_is_the_positive_part_of_the_integrated_gradients(name):
    config, row = CONFIGS[name], max(range(len(PAIRS)), key=lambda n: len(PAIRS[n][0]))
    source, target = PAIRS[row]
    A = integrated_by_differences(config, oracles.f64(parameters(config)), source, target)
    expected = np.maximum(A, 0) / np.maximum(A, 0).sum(axis=1, keepdims=True)
    found = np.asarray(weights("saliency", name).alpha)[row, : len(target), : len(source)]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_filler_row_stays_finite():
    assert np.isfinite(weights("posterior", "default").alpha).all()


def test_shift_needs_a_state_that_has_read_the_word():
    """In these orders the next state has read the target word, and in `paper` it has not."""
    for order in ORDERS:
        config = dataclasses.replace(CONFIGS["default"], order=order)
        params = parameters(config)
        program = compiled(LINK_WEIGHTS["attention"].compute, static_argnums=0)
        other = BATCH._replace(target=BATCH.target.at[:, 0].set((BATCH.target[:, 0] + 1) % 29))
        plain, changed = program(config, params, BATCH), program(config, params, other)
        long = [row for row, (_, target) in enumerate(PAIRS) if len(target) > 1]
        reads = (np.asarray(plain.alpha)[long, 1] != np.asarray(changed.alpha)[long, 1]).any()
        assert reads == (order in LINK_WEIGHTS["shift"].orders)
        unfed = dataclasses.replace(config, feed_previous=False)
        params = parameters(unfed)
        plain, changed = program(unfed, params, BATCH), program(unfed, params, other)
        np.testing.assert_array_equal(plain.alpha, changed.alpha)  # no state has read any word
    check_link_weights("shift", CONFIGS["luong"])
    unfed = dataclasses.replace(CONFIGS["luong"], feed_previous=False)
    with pytest.raises(ValueError, match="'shift' need a model with feed_previous True, but"):
        check_link_weights("shift", unfed)
    check_link_weights("posterior", unfed)
    with pytest.raises(ValueError, match="of order groundhog or luong or conditional, but"):
        check_link_weights("shift", CONFIGS["default"])
    with pytest.raises(ValueError, match="no link weights 'x'; known: attention, posterior"):
        check_link_weights("x", CONFIGS["default"])
