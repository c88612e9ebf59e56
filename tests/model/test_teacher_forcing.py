"""Predictions under teacher forcing, against the step function word by word."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.batch import START
from bahdanau_jax.model import (
    decoder,
    encode,
    fold,
    start,
    teacher_forced,
    teacher_forced_ensemble,
)
from bahdanau_jax.model.decoder import stepper
from bahdanau_jax.model.memory import Folded
from bahdanau_jax.model.orders import Order, State
from tests.model.worlds import CONFIGS, batch, compiled, each, on_device, pairs, parameters

PAIRS = pairs(seed=3, count=31)


def walk(config, folded, params, b):
    """The same as `teacher_forced`, by the step function of search."""
    log_p, alpha = steps(config, folded, params, b)
    own = jnp.take_along_axis(log_p, b.target[..., None], axis=2)[..., 0]
    return own, jnp.exp(log_p).max(2), jnp.argmax(log_p, 2) == b.target, alpha


def steps(config, folded, params, b):
    """log p [B, T, V] and alpha [B, T, S] by the step function of search."""
    memory = encode(config, params, b.source, b.source_mask)
    if folded:
        memory = fold(config, params, memory)
        assert isinstance(memory, Folded) == (config.order != "bounded")
    step, state = stepper(config, params, memory), start(memory)
    before, columns = jnp.full(len(b.weight), START), []
    for t in range(b.target.shape[1]):
        log_p, state, alpha = step(before, state)
        columns.append((log_p, alpha))
        before = b.target[:, t]
    return [jnp.stack(column, 1) for column in zip(*columns, strict=True)]


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("name", each("default", "luong"))
def test_teacher_forced_equals_a_walk(name, folded):
    config, params = CONFIGS[name], parameters(CONFIGS[name])
    b = on_device(batch(PAIRS, extra_source=1, extra_target=2, fillers=1))
    found = compiled(teacher_forced, static_argnums=0)(config, params, b)
    expected = compiled(walk, static_argnums=(0, 1))(config, folded, params, b)
    real = np.asarray(b.target_mask)
    for ours, theirs in zip(found, expected, strict=True):
        ours, theirs = np.asarray(ours)[real], np.asarray(theirs)[real]
        # A step's log p is a logit of about 10 less another, each rounded to 1e-6.
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)
    if name != "local_p":  # whose weights fall with the distance from their centre
        np.testing.assert_allclose(found.alpha.sum(2)[real], 1, rtol=1e-5)
    correct = np.asarray(found.correct)[real]
    assert not correct.all() and (correct.any() or name in ("relu", "local_p"))
    assert (np.log(found.confidence) >= found.log_p - 1e-5)[real].all()


def test_of_words_that_are_equally_likely_the_lowest_id_is_the_likeliest():
    config, b = CONFIGS["default"], on_device(batch(PAIRS[:5]))
    params = jax.tree.map(np.zeros_like, parameters(config))
    found = compiled(teacher_forced, static_argnums=0)(config, params, b)
    np.testing.assert_array_equal(found.correct, b.target == 0)


def test_an_ensemble_predicts_by_the_normalised_geometric_mean():
    configs = CONFIGS["default"], CONFIGS["luong"]
    params, b = [parameters(config) for config in configs], on_device(batch(PAIRS[:9]))
    found = compiled(teacher_forced_ensemble, static_argnums=0)(configs, params, b)
    walked = [
        compiled(steps, static_argnums=(0, 1))(config, False, each, b)
        for config, each in zip(configs, params, strict=True)
    ]
    each, alphas = zip(*walked, strict=True)
    p = np.exp(np.mean(np.asarray(each, np.float64), axis=0))  # not yet normalised
    assert np.abs(p.sum(-1) - 1).max() > 1e-3
    p /= p.sum(-1, keepdims=True)
    target, real = np.asarray(b.target), np.asarray(b.target_mask)
    own = np.take_along_axis(np.log(p), target[..., None], -1)[..., 0]
    for ours, theirs in zip(
        found, (own, p.max(-1), p.argmax(-1) == target, np.mean(alphas, axis=0)), strict=True
    ):
        np.testing.assert_allclose(np.asarray(ours)[real], theirs[real], rtol=2e-5, atol=1e-6)


def bounded(update, context_of, state, start):
    """Attend, and update with a context that is no sum of annotations."""
    c, alpha = context_of(state.s)
    return State(update(state.s, jnp.tanh(3 * c)), c), alpha


def test_the_memory_of_an_order_that_is_not_linear_is_not_folded(monkeypatch):
    config = dataclasses.replace(CONFIGS["default"], order="bounded")
    monkeypatch.setattr(decoder, "ORDERS", {"bounded": Order(bounded)})
    params, b = parameters(CONFIGS["default"]), on_device(batch(PAIRS[:5]))
    found = compiled(teacher_forced, static_argnums=0)(config, params, b)
    walked = compiled(walk, static_argnums=(0, 1))(config, True, params, b)
    real = np.asarray(b.target_mask)
    for ours, theirs in zip(found, walked, strict=True):
        np.testing.assert_allclose(
            np.asarray(ours)[real], np.asarray(theirs)[real], rtol=2e-5, atol=1e-6
        )
