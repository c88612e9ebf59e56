"""Whole updates against NumPy loops, and the shape of each schedule."""

import dataclasses
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bahdanau_jax import training
from bahdanau_jax.config import Config, ModelConfig, OptimizerConfig
from bahdanau_jax.run import check
from bahdanau_jax.training.optimizer import SCHEDULES, clipping, make, schedule

SHAPES = {"a": (3, 5), "b": (7,)}


def clip(grads, limit):
    """g min(1, limit / |g|), |g| over all arrays together."""
    norm = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads.values()))
    return {k: g * (limit / norm) if limit and norm > limit else g for k, g in grads.items()}


def adadelta(config, params, grads_of_steps):
    """Zeiler 2012, algorithm 1, number by number."""
    square = {k: np.zeros_like(v) for k, v in params.items()}
    change = {k: np.zeros_like(v) for k, v in params.items()}
    for grads in grads_of_steps:
        grads = clip(grads, config.clip_norm)
        for name in params:
            for i in np.ndindex(params[name].shape):
                g = grads[name][i]
                square[name][i] = config.rho * square[name][i] + (1 - config.rho) * g * g
                top = np.sqrt(change[name][i] + config.epsilon)
                delta = -top / np.sqrt(square[name][i] + config.epsilon) * g
                change[name][i] = config.rho * change[name][i] + (1 - config.rho) * delta * delta
                params[name][i] += config.learning_rate * delta
    return params, square, change


def adam(config, params, grads_of_steps):
    """Kingma and Ba 2014, algorithm 1."""
    first = {k: np.zeros_like(v) for k, v in params.items()}
    second = {k: np.zeros_like(v) for k, v in params.items()}
    for t, grads in enumerate(grads_of_steps, 1):
        grads = clip(grads, config.clip_norm)
        for name, g in grads.items():
            first[name] = config.beta1 * first[name] + (1 - config.beta1) * g
            second[name] = config.beta2 * second[name] + (1 - config.beta2) * g * g
            m = first[name] / (1 - config.beta1**t)
            v = second[name] / (1 - config.beta2**t)
            params[name] = params[name] - config.learning_rate * m / (np.sqrt(v) + config.epsilon)
    return params, first, second


CASES = [
    (OptimizerConfig(), adadelta, ("e_g", "e_x")),
    (OptimizerConfig(learning_rate=0.5, clip_norm=0.0), adadelta, ("e_g", "e_x")),
    (OptimizerConfig(name="adam", learning_rate=2e-3, epsilon=1e-8), adam, ("mu", "nu")),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-10), (np.float32, 1e-5)])
@pytest.mark.parametrize("config, oracle, accumulators", CASES)
def test_steps_equal_the_oracle(config, oracle, accumulators, dtype, tolerance):
    rng = np.random.default_rng(0)
    params = {k: rng.normal(0, 1, s).astype(dtype) for k, s in SHAPES.items()}
    scales = (0.01, 30.0, 1.0, 1e-4, 5.0)  # some are clipped, some are not
    steps = [
        {k: (scale * rng.normal(0, 1, s)).astype(dtype) for k, s in SHAPES.items()}
        for scale in scales
    ]
    expected = oracle(config, {k: v.copy() for k, v in params.items()}, steps)
    with jax.enable_x64(True) if dtype == np.float64 else nullcontext():
        tx = make(config, 100)
        ours = jax.tree.map(jnp.asarray, params)
        opt_state = tx.init(ours)
        for grads in steps:
            factor = clipping(optax.tree.norm(grads), config.clip_norm)
            grads = jax.tree.map(lambda g, factor=factor: jnp.asarray(g) * factor, grads)
            changes, opt_state = tx.update(grads, opt_state, ours)
            ours = optax.apply_updates(ours, changes)
        found = [ours] + [optax.tree.get(opt_state, name) for name in accumulators]
        for tree, oracle_tree in zip(found, expected, strict=True):
            for name in SHAPES:
                assert tree[name].dtype == dtype
                np.testing.assert_allclose(
                    np.asarray(tree[name]), oracle_tree[name], rtol=tolerance, atol=tolerance / 1e3
                )


def rates(name, steps=20, warmup=4):
    config = OptimizerConfig(schedule=name, warmup_steps=warmup, learning_rate=2.0)
    rate = schedule(config, steps)
    return np.array([float(rate(jnp.int32(n))) for n in range(steps + 1)])


@pytest.mark.parametrize("name", SCHEDULES)
def test_warm_up_is_linear_to_the_peak(name):
    np.testing.assert_allclose(
        rates(name)[:5],
        [0.5, 1.0, 1.5, 2.0, 2.0 if name != "inverse_sqrt" else 2.0 * np.sqrt(4 / 5)],
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    "name, half, end",
    [
        ("constant", 2.0, 2.0),
        ("cosine", 1.0, 0.0),
        ("linear", 1.0, 0.0),
        ("inverse_sqrt", 2.0 * np.sqrt(4 / 13), 2.0 * np.sqrt(4 / 21)),
    ],
)
def test_decay(name, half, end):
    found = rates(name)
    np.testing.assert_allclose(found[[12, 20]], [half, end], rtol=1e-6, atol=1e-6)
    assert (np.diff(found[4:]) <= 1e-6).all()


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_warm_up_starts_at_the_peak(name):
    assert rates(name, warmup=0)[0] == pytest.approx(2.0)


@pytest.mark.parametrize("field, known", [("name", "adadelta, adam"), ("schedule", "constant, co")])
def test_unknown_names_list_the_known(field, known):
    config = dataclasses.replace(OptimizerConfig(), **{field: "adadleta"})
    with pytest.raises(ValueError, match=f"no optimizer.{field} 'adadleta'; known: {known}"):
        make(config, 10)


def lion(config, steps):
    return optax.lion(training.schedule(config, steps), config.beta1, weight_decay=0.0)


def no_optimizer(config, steps):
    return 3


def failing(config, steps):
    return optax.sgd(config.lerning_rate)


def ending(config, steps):
    raise SystemExit(3)


def of_one_number(config, steps):
    return optax.GradientTransformation(lambda params: (), lambda g, state, params: (1.0, state))


def forgetful(config, steps):
    return optax.GradientTransformation(lambda params: 0.0, lambda g, state, params: (g, ()))


def test_an_optimizer_of_ones_own_moves_by_its_rule_and_the_configured_rate():
    config = OptimizerConfig(name=f"{__name__}:lion", learning_rate=0.5, warmup_steps=2)
    tx, params = make(config, 10), {"a": jnp.ones(3), "b": jnp.zeros((2, 1))}
    gradient = {"a": jnp.array([1.0, -2.0, 3.0]), "b": jnp.ones((2, 1))}
    changes, _ = tx.update(gradient, tx.init(params), params)
    np.testing.assert_allclose(changes["a"], [-0.25, 0.25, -0.25])
    np.testing.assert_allclose(changes["b"], [[-0.25], [-0.25]])
    training.check_optimizer(config, 10, jax.eval_shape(lambda: params))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no_optimizer", "which returns 'int'; expected an optax.GradientTransformation"),
        ("failing", "which fails with AttributeError: .*lerning_rate.*test_optimizer.py:"),
        ("ending", "which fails with SystemExit: 3 .*test_optimizer.py:"),
        ("of_one_number", "which returns changes of other shapes or types than it was given"),
        ("forgetful", "which returns a state of other shapes or types than it was given"),
        ("SHAPES", "which is a dict; expected a function"),
        ("missing", "but AttributeError: module .* has no attribute 'missing'"),
    ],
)
def test_an_optimizer_of_ones_own_that_cannot_train_is_refused_in_one_line(name, problem):
    config = Config(optimizer=OptimizerConfig(name=f"{__name__}:{name}"))
    small = ModelConfig(embedding_size=3, hidden_size=5, alignment_size=7, readout_size=2)
    with pytest.raises(
        ValueError, match=f"^optimizer.name is '{__name__}:{name}', {problem}"
    ) as no:
        check(dataclasses.replace(config, model=small))
    assert "\n" not in str(no.value)
