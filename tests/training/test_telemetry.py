"""Telemetry from the accumulators equals statistics of the updates themselves."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bahdanau_jax import training
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import OptimizerConfig
from bahdanau_jax.training import optimizer, telemetry
from bahdanau_jax.training.optimizer import make
from bahdanau_jax.training.step import init_state, train_step
from tests.training import toy

STEPS = 50


def norm(tree) -> float:
    return float(np.sqrt(sum(np.sum(np.square(leaf, dtype=float)) for leaf in leaves(tree))))


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def difference(new, old):
    return jax.tree.map(lambda a, b: np.asarray(a) - np.asarray(b), new, old)


def trained(config: OptimizerConfig, updates: int):
    """Successive parameters and squared gradients in NumPy, and the last state."""
    tx = make(config, STEPS)
    state = init_state(toy.init(), tx, jax.random.key(0), config)
    step = train_step(toy.loss_fn, tx, config)
    seen = [jax.tree.map(np.asarray, jax.tree.map(jnp.copy, state.params))]
    for i in range(updates):
        state, _ = step(state, toy.batch(i))
        seen.append(jax.tree.map(np.asarray, jax.tree.map(jnp.copy, state.params)))
    return seen, state


def test_of_adam_it_is_the_last_update():
    config = OptimizerConfig(name="adam", learning_rate=0.01, schedule="cosine", warmup_steps=2)
    seen, state = trained(config, 4)
    found = training.Telemetry(config, STEPS).measure(state)
    expected = norm(difference(seen[4], seen[3])) / norm(seen[4])
    assert float(found["update_to_weight"]) == pytest.approx(expected, rel=1e-3)


def test_of_adadelta_it_is_the_decayed_mean_of_the_updates():
    config = OptimizerConfig(learning_rate=0.5)
    seen, state = trained(config, 6)
    squares = [norm(difference(b, a)) ** 2 / 0.25 for a, b in zip(seen[:-1], seen[1:], strict=True)]
    weights = [config.rho ** (len(squares) - 1 - i) for i in range(len(squares))]
    mean = float(np.dot(weights, squares) / sum(weights))
    found = training.Telemetry(config, STEPS).measure(state)
    expected = 0.5 * np.sqrt(mean) / norm(seen[-1])
    assert float(found["update_to_weight"]) == pytest.approx(expected, rel=1e-3)
    accumulated = np.concatenate(
        [leaf.ravel() for leaf in leaves(optax.tree.get(state.opt_state, "e_g"))]
    )
    accumulated = accumulated.astype(float) / (1 - config.rho**6)
    assert float(found["gradient_rms"]) == pytest.approx(np.sqrt(accumulated.mean()), rel=1e-5)
    assert float(found["below_epsilon"]) == pytest.approx(np.mean(accumulated < config.epsilon))


@pytest.mark.parametrize(("ratio", "below"), [(0.5, 0.0), (2.0, 1.0)])
def test_adams_epsilon_is_compared_with_the_root_of_the_mean_square(ratio, below):
    """All gradients are the same number, and ε is `ratio` times as large."""
    gradient = 1e-3
    config = OptimizerConfig(name="adam", epsilon=ratio * gradient)
    state, step = toy.parts(config)
    nu = jax.tree.map(lambda leaf: 0 * leaf + gradient**2, optax.tree.get(state.opt_state, "nu"))
    opt_state = optax.tree.set(state.opt_state, nu=nu)
    found = training.Telemetry(config, STEPS).measure(
        state.replace(opt_state=opt_state, step=jnp.int32(10**6))
    )
    assert float(found["below_epsilon"]) == pytest.approx(below)


def test_the_first_update_of_adadelta_is_no_smaller_than_it_was():
    """Accumulators begin at 0: without the correction the ratio would be a fifth of the truth."""
    seen, state = trained(OptimizerConfig(), 1)
    found = training.Telemetry(OptimizerConfig(), STEPS).measure(state)
    expected = norm(difference(seen[1], seen[0])) / norm(seen[1])
    assert float(found["update_to_weight"]) == pytest.approx(expected, rel=1e-3)


def test_a_skipped_update_does_not_count():
    config = OptimizerConfig(name="adam", learning_rate=0.01, schedule="cosine", warmup_steps=2)
    tx = make(config, STEPS)
    step = train_step(toy.loss_fn, tx, config)
    skipped = Batch(*toy.batch(0)[:4], np.full(toy.ROWS, np.nan, np.float32))
    state = init_state(toy.init(), tx, jax.random.key(0), config)
    state, sums = step(state, skipped)
    assert float(sums.skipped) == 1
    seen = jax.tree.map(lambda leaf: np.array(leaf), state.params)
    state, _ = step(state, toy.batch(0))
    found = training.Telemetry(config, STEPS).measure(state)
    expected = norm(difference(state.params, seen)) / norm(state.params)
    assert float(found["update_to_weight"]) == pytest.approx(expected, rel=1e-3)


LINE = {"gradient_rms": 1e-5, "clipped_share": 0.02}


@pytest.mark.parametrize(
    ("change", "line", "warns"),
    [
        ({"loss_normalization": "token"}, {}, True),
        (
            {"loss_normalization": "token"},
            {"clipped_share": 1.0},
            False,
        ),  # as in the paper's recipe
        (
            {"loss_normalization": "token"},
            {"gradient_rms": 1e-3},
            False,
        ),  # E[g²] is not far below ε
        ({"loss_normalization": "token", "epsilon": 1e-12}, {}, False),
        ({"name": "adam"}, {}, False),
        ({}, {"gradient_rms": None}, False),
        ({}, {"clipped_share": None}, False),
    ],
)
def test_the_warning(change, line, warns):
    config = dataclasses.replace(OptimizerConfig(), **change)
    found = training.Telemetry(config, STEPS).warning(LINE | line)
    assert bool(found) == warns
    if found:
        assert "far below √ε = 1.0e-03" in found and "(it is token)" in found
        assert "optimizer.epsilon to 1e-10 or less" in found and "\n" not in found


def test_every_optimizer_of_the_table_has_a_reading():
    assert set(telemetry.READINGS) == set(optimizer.OPTIMIZERS)


def test_an_unknown_optimizer():
    with pytest.raises(ValueError, match="no optimizer.name 'nonsense'; known: adadelta, adam"):
        training.Telemetry(OptimizerConfig(name="nonsense"), STEPS)
