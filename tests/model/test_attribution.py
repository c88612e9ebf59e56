"""Attributions against finite differences, and their sums against differences of probabilities."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax.batch import UNK
from bahdanau_jax.model.attribution import (
    embedded,
    gradient_times_input,
    integrated_gradients,
    predict,
)
from bahdanau_jax.model.interventions import force
from bahdanau_jax.model.parameters import embed
from tests.model.worlds import CONFIGS, batch, compiled, on_device, pairs, parameters

PAIRS = pairs(seed=9, count=3)
CONFIG = CONFIGS["default"]


def test_gradient_times_input_is_the_slope_along_each_source_word():
    with jax.enable_x64(True):
        b, params = on_device(batch(PAIRS, extra_source=1)), parameters(CONFIG, np.float64)
        forced, A = compiled(gradient_times_input, static_argnums=0)(CONFIG, params, b)
        x = embedded(params, b)
        log_p = compiled(functools.partial(predict, CONFIG))
        np.testing.assert_array_equal(forced.log_p, log_p(params, b, x).log_p)
        for j in range(b.source.shape[1]):
            high, low = (log_p(params, b, x.at[j].multiply(1 + t)).log_p for t in (1e-6, -1e-6))
            real = np.asarray(b.target_mask)
            slope = np.asarray(high - low)[real] / 2e-6
            np.testing.assert_allclose(np.asarray(A[..., j])[real], slope, atol=1e-7)
        assert not np.asarray(A)[~np.asarray(b.source_mask)[:, None].repeat(A.shape[1], 1)].any()


def test_integrated_gradients_sum_to_the_difference_of_log_probabilities():
    config = dataclasses.replace(CONFIG, readout="tanh")  # maxout has kinks: it needs more points
    b, params = on_device(batch(PAIRS, extra_source=1)), parameters(config, scale=0.3)
    program = compiled(integrated_gradients, static_argnums=(0, 3))
    forced, A = program(config, params, b, 32)
    x = embedded(params, b)
    origin = embed(params["source_embedding"], jnp.full(x.shape[:2], UNK))
    start = compiled(predict, static_argnums=0)(config, params, b, origin)
    real, difference = np.asarray(b.target_mask), forced.log_p - start.log_p
    assert np.abs(np.asarray(difference)[real]).max() > 0.01
    np.testing.assert_allclose(np.asarray(A.sum(-1))[real], np.asarray(difference)[real], atol=2e-4)


def test_a_word_that_no_step_looks_at_matters_through_the_states_alone():
    """With attention fixed to the first word and no other path, other words have no attribution."""
    config = dataclasses.replace(CONFIG, encoder_directions="forward", initial_state="zero")
    b, params = on_device(batch(PAIRS)), parameters(config)
    first = force(np.zeros(b.target.shape, np.int32))
    _, A = compiled(gradient_times_input, static_argnums=0)(config, params, b, first)
    A = np.asarray(A)[np.asarray(b.target_mask)]
    assert A[:, 0].any() and not A[:, 1:].any()
