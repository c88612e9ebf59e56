"""The model against loops in NumPy float64: 1e-10 in float64, 1e-5 in float32."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.model import alignment, encode
from bahdanau_jax.model.loss import loss, sums
from tests import oracles
from tests.model.worlds import CONFIGS, batch, pairs, parameters, relative

PRECISIONS = [(np.float64, 1e-10), (np.float32, 1e-5)]
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
every_precision = pytest.mark.parametrize(
    ("dtype", "tolerance"), PRECISIONS, ids=["float64", "float32"]
)


@every_precision
@every_config
def test_encoder(config, dtype, tolerance):
    with jax.enable_x64(dtype is np.float64):
        params, some = parameters(config, dtype), pairs()
        b = batch(some, extra_source=2)
        memory = encode(config, params, b.source, b.source_mask)
        for row, (source, _) in enumerate(some):
            annotations, s_0 = oracles.encode(config, oracles.f64(params), source)
            got = memory.annotations[row, : len(source)]
            assert got.dtype == dtype
            assert relative(got, annotations) < tolerance
            assert np.abs(memory.initial[row] - s_0).max() < tolerance


@every_precision
@every_config
def test_log_probabilities_and_alpha_of_every_word(config, dtype, tolerance):
    with jax.enable_x64(dtype is np.float64):
        params, some = parameters(config, dtype), pairs()
        log_p, alpha, _ = alignment(config, params, batch(some, 2, 1))
        for row, (source, target) in enumerate(some):
            expected, expected_alpha = oracles.translate_log_probabilities(
                config, oracles.f64(params), source, target
            )
            expected = [step[word] for step, word in zip(expected, target, strict=True)]
            assert relative(log_p[row, : len(target)], expected) < tolerance
            assert relative(alpha[row, : len(target), : len(source)], expected_alpha) < tolerance
            assert (np.asarray(alpha)[row, :, len(source) :] == 0).all()


@every_precision
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@every_config
def test_loss(config, smoothing, dtype, tolerance):
    with jax.enable_x64(dtype is np.float64):
        params, some = parameters(config, dtype), pairs()
        got = sums(config, params, batch(some, 2, 1, fillers=1), smoothing=smoothing)
        weights = oracles.f64(params)
        assert relative(got.loss, oracles.loss(config, weights, some, smoothing)) < tolerance
        assert relative(got.nll, oracles.loss(config, weights, some)) < tolerance
        assert got.words == sum(len(target) for _, target in some)
        assert got.sentences == len(some)
        right = [
            step.argmax() == word
            for source, target in some
            for step, word in zip(
                oracles.translate_log_probabilities(config, weights, source, target)[0],
                target,
                strict=True,
            )
        ]
        assert got.correct == sum(right)


@pytest.mark.parametrize("gradients", ["deferred", "autodiff"])
@every_config
def test_gradients_equal_finite_differences_of_the_oracle(config, gradients):
    config = dataclasses.replace(config, gradients=gradients)
    with jax.enable_x64(True):
        params, some = parameters(config, np.float64), pairs(count=3, longest=4)
        grads = jax.jit(jax.grad(loss, argnums=1), static_argnums=0)(config, params, batch(some))
        rng = np.random.default_rng(1)
        leaves, tree = jax.tree.flatten(params)
        for i, (leaf, grad) in enumerate(zip(leaves, jax.tree.leaves(grads), strict=True)):
            direction = rng.normal(size=leaf.shape)

            def at(step, i=i, direction=direction):
                moved = [*leaves[:i], leaves[i] + step * direction, *leaves[i + 1 :]]
                return oracles.loss(config, tree.unflatten(moved), some)

            h = 1e-5
            # Five points: the error is of order h⁴, so what is left is rounding.
            slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
            assert np.vdot(grad, direction) == pytest.approx(slope, rel=2e-7, abs=2e-7)


@every_config
def test_deferred_gradients_equal_autodiff(config):
    for dtype, tolerance in PRECISIONS:
        with jax.enable_x64(dtype is np.float64):
            params, b = parameters(config, dtype), batch(pairs(), 1, 2, fillers=1)
            value, got = jax.value_and_grad(loss, argnums=1)(config, params, b)
            plain = dataclasses.replace(config, gradients="autodiff")
            expected_value, expected = jax.value_and_grad(loss, argnums=1)(plain, params, b)
            assert relative(value, expected_value) < tolerance
            for a, e in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
                assert relative(a, e) < tolerance * 10
                assert a.dtype == dtype


def test_autodiff_serves_forward_mode_and_second_order():
    config = dataclasses.replace(CONFIGS["default"], gradients="autodiff", readout="tanh")
    with jax.enable_x64(True):
        params, b = parameters(config, np.float64, scale=0.3), batch(pairs(count=2))
        memory = encode(config, params, b.source, b.source_mask)

        def of_annotations(x):
            from bahdanau_jax.model import teacher_force

            return jnp.sum(
                teacher_force(config, params, memory._replace(annotations=x), b.target)[0] ** 2
            )

        x, v = memory.annotations, jnp.ones_like(memory.annotations)
        _, slope = jax.jvp(of_annotations, (x,), (v,))
        assert relative(slope, jnp.vdot(jax.grad(of_annotations)(x), v)) < 1e-10
        _, curvature = jax.jvp(jax.grad(of_annotations), (x,), (v,))
        h = 1e-5
        numeric = (jax.grad(of_annotations)(x + h * v) - jax.grad(of_annotations)(x - h * v)) / (
            2 * h
        )
        assert relative(curvature, numeric) < 1e-7
