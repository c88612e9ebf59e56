"""Local attention, whose window moves with the step, in sentences longer than the window."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from bahdanau_jax.model import encode, init, start, teacher_forced
from bahdanau_jax.model.attention import SCORES
from bahdanau_jax.model.attention_weights import WINDOW, masked_softmax
from tests import oracles
from tests.model.worlds import CONFIGS, batch, compiled, on_device, pairs, parameters, relative

LOCAL = ["local_m", "local_p"]


def test_the_shapes_in_signatures_are_checked():
    """By tests/conftest.py, for all modules of bahdanau_jax.model."""
    with pytest.raises(TypeCheckError, match="masked_softmax"):
        masked_softmax(jnp.ones((2, 3)), jnp.ones((2, 4), bool))


def long_pairs():
    """A long source, and a translation that is longer than its source by more than the window."""
    rng = np.random.default_rng(1)
    sizes = (2 * WINDOW + 7, 5), (3, WINDOW + 11)
    return [tuple([*rng.integers(1, 23, n), 0] for n in pair) for pair in sizes]


@pytest.mark.parametrize("name", LOCAL)
def test_windows_move_with_the_step_and_stay_at_the_end(name):
    config, params = CONFIGS[name], parameters(CONFIGS[name])
    found = compiled(teacher_forced, static_argnums=0)(
        config, params, batch(long_pairs(), 2, 1, fillers=1)
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    for row, (source, target) in enumerate(long_pairs()):
        n, m = len(source), len(target)
        log_p, alpha = oracles.translate_log_probabilities(
            config, oracles.f64(params), source, target
        )
        assert relative(found.alpha[row, :m, :n], alpha) < 1e-5
        assert (found.alpha[row, :m, n:] == 0).all()
        assert relative(found.log_p[row, :m], log_p[np.arange(m), target]) < 1e-5
        assert (alpha == 0).any() == (n > WINDOW)
        assert (alpha.max(1) > 0).all()  # no step looks nowhere
    assert (found.alpha[-1] == 0).all()


def weighed(name, e, mask, query, i, v_p=1.0):
    params = {"v_p": jnp.full((1, 1), v_p)}
    arguments = (jnp.asarray(argument) for argument in (e, mask, query, i))
    return np.asarray(SCORES[name].weights(params, *arguments))


def test_the_window_of_local_m_is_that_of_each_step():
    """With equal scores all weights of a window are equal."""
    mask = np.arange(31)[None] < np.array([[31], [31], [13], [13], [0]])
    alpha = weighed("local_m", np.zeros((5, 31)), mask, np.zeros((5, 3)), [0.0, 15, 13, 40, 5])
    windows = [(0, 11), (5, 26), (2, 13), (2, 13), (0, 0)]
    for row, (first, end) in zip(alpha, windows, strict=True):
        inside = (np.arange(31) >= first) & (np.arange(31) < end)
        np.testing.assert_allclose(row, inside / max(1, end - first), rtol=1e-6)


@pytest.mark.parametrize("logit", [-30.0, 0.0, 0.7, 30.0])
def test_the_weights_of_local_p_fall_with_the_distance(logit):
    size = 29
    query = np.array([[5.0, 5.0, np.arctanh(logit / 40)]], np.float32)
    p = size * oracles.sigmoid(logit)
    mask = np.arange(37)[None] < size
    alpha = weighed("local_p", np.zeros((1, 37)), mask, query, [0.0], v_p=40.0)[0]
    distance = np.abs(np.arange(37) - p)
    inside = (distance <= WINDOW) & (np.arange(37) < size)
    expected = inside / inside.sum() * np.exp(-(distance**2) / (2 * 5**2))
    np.testing.assert_allclose(alpha, expected, atol=1e-6)
    assert 0 < alpha.sum() < 1


def test_a_new_model_with_coverage_looks_as_the_additive_one_does():
    config, b = CONFIGS["coverage"], on_device(batch(pairs()))
    drawn = init(config, jax.random.key(3))["attention"]
    additive = init(CONFIGS["default"], jax.random.key(3))["attention"]
    assert not drawn.pop("V_c").any()
    jax.tree.map(np.testing.assert_array_equal, drawn, additive)
    params = parameters(config)
    params["attention"]["V_c"] *= 0
    found = compiled(teacher_forced, static_argnums=0)(config, params, b)
    del params["attention"]["V_c"]
    plain = compiled(teacher_forced, static_argnums=0)(CONFIGS["default"], params, b)
    np.testing.assert_allclose(found.alpha, plain.alpha, atol=1e-6)


def test_only_the_states_that_scores_read_are_kept():
    b = on_device(batch(pairs()))
    for name, config in CONFIGS.items():
        memory = jax.eval_shape(
            lambda params, config=config: encode(config, params, b.source, b.source_mask),
            parameters(config),
        )
        state = jax.eval_shape(start, memory)
        assert isinstance(state.i, tuple) == (name not in LOCAL)  # empty, or the number of the step
        assert isinstance(state.coverage, tuple) == (name != "coverage")
