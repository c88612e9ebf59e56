"""The model against loops in NumPy float64: 1e-10 in float64, 1e-5 in float32."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax.model import encode
from bahdanau_jax.model.decoder import teacher_force
from tests import oracles
from tests.model.worlds import (
    CONFIGS,
    batch,
    compiled,
    everything,
    on_device,
    pairs,
    parameters,
    relative,
)

TOLERANCES = {np.float64: 1e-10, np.float32: 1e-5}
every_config = pytest.mark.parametrize("name", CONFIGS)
# Float32 repeats what float64 shows, with a wider tolerance: for most variants in `make test-all`.
every_precision = pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(
            name,
            dtype,
            id=f"{name}-{dtype.__name__}",
            marks=pytest.mark.exhaustive if dtype is np.float32 and name != "default" else (),
        )
        for name in CONFIGS
        for dtype in TOLERANCES
    ],
)


@functools.cache
def computed(name, dtype):
    """The results of the model for `pairs()`, with padding and a filler row."""
    # Float32 needs no second way to differentiate: float64's stands beside its first.
    ways = ("deferred", "autodiff") if dtype is np.float64 else ("deferred",)
    with jax.enable_x64(dtype is np.float64):
        params, b = parameters(CONFIGS[name], dtype), batch(pairs(), 2, 1, fillers=1)
        return jax.tree.map(np.asarray, everything(CONFIGS[name], params, b, ways))


@functools.cache
def weights(name):
    return oracles.f64(parameters(CONFIGS[name]))


@functools.cache
def expected(name):
    """(log p of every word, alpha) of each of `pairs()`."""
    return [
        oracles.translate_log_probabilities(CONFIGS[name], weights(name), source, target)
        for source, target in pairs()
    ]


@every_precision
def test_encoder(name, dtype):
    memory, tolerance = computed(name, dtype).memory, TOLERANCES[dtype]
    assert memory.annotations.dtype == memory.initial.dtype == dtype
    for row, (source, _) in enumerate(pairs()):
        annotations, s_0 = oracles.encode(CONFIGS[name], weights(name), source)
        assert relative(memory.annotations[row, : len(source)], annotations) < tolerance
        assert np.abs(memory.initial[row] - s_0).max() < tolerance


@every_precision
def test_log_probabilities_and_alpha_of_every_word(name, dtype):
    got, tolerance = computed(name, dtype), TOLERANCES[dtype]
    for row, (source, target) in enumerate(pairs()):
        log_p, alpha = expected(name)[row]
        log_p = log_p[np.arange(len(target)), target]
        assert relative(got.log_p[row, : len(target)], log_p) < tolerance
        assert relative(got.alpha[row, : len(target), : len(source)], alpha) < tolerance
        assert (got.alpha[row, :, len(source) :] == 0).all()


@every_precision
def test_sums(name, dtype):
    got, config, tolerance = computed(name, dtype), CONFIGS[name], TOLERANCES[dtype]
    plain = oracles.loss(config, weights(name), pairs())
    smoothed = oracles.loss(config, weights(name), pairs(), smoothing=0.1)
    covered = oracles.loss(config, weights(name), pairs(), coverage=0.7)
    words = [word for _, target in pairs() for word in target]
    likeliest = [step.argmax() for log_p, _ in expected(name) for step in log_p]
    losses = [(got.smoothed, smoothed), (got.covered, covered)]
    for sums, loss in [*losses, *((s, plain) for s in got.sums.values())]:
        assert relative(sums.loss, loss) < tolerance
        assert relative(sums.nll, plain) < tolerance
        assert sums.words == len(words)
        assert sums.sentences == len(pairs())
        assert sums.correct == np.equal(words, likeliest).sum()


@functools.cache
def slopes(name):
    """For each leaf of the parameters, a direction and the oracle's derivative along it."""
    rng = np.random.default_rng(1)
    leaves, tree = jax.tree.flatten(weights(name))
    found = []
    for i, leaf in enumerate(leaves):
        direction = rng.normal(size=leaf.shape)

        def at(step, i=i, direction=direction):
            moved = [*leaves[:i], leaves[i] + step * direction, *leaves[i + 1 :]]
            return oracles.loss(CONFIGS[name], tree.unflatten(moved), pairs())

        h = 1e-5
        # Five points: the error is of order h⁴, so what is left is rounding.
        slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
        found.append((direction, slope))
    return found


@pytest.mark.parametrize("gradients", ["deferred", "autodiff"])
@every_config
def test_gradients_equal_finite_differences_of_the_oracle(name, gradients):
    leaves = jax.tree.leaves(computed(name, np.float64).gradients[gradients])
    for grad, (direction, slope) in zip(leaves, slopes(name), strict=True):
        assert np.vdot(grad, direction) == pytest.approx(slope, rel=2e-7, abs=2e-7)


@every_precision
def test_deferred_gradients_equal_autodiff(name, dtype):
    got = jax.tree.leaves(computed(name, dtype).gradients["deferred"])
    wanted = jax.tree.leaves(computed(name, np.float64).gradients["autodiff"])
    for a, e in zip(got, wanted, strict=True):
        assert a.dtype == dtype
        assert relative(a, e) < TOLERANCES[dtype] * 10


def test_deferred_gradients_have_gradients():
    """Reverse mode twice: the slope of a gradient's norm."""
    slopes = []
    for gradients in ("deferred", "autodiff"):
        config = dataclasses.replace(CONFIGS["default"], gradients=gradients, readout="tanh")
        with jax.enable_x64(True):
            b = on_device(batch(pairs(count=2)))
            params = jax.tree.map(jnp.asarray, parameters(config, np.float64, scale=0.3))

            def norm(params, config=config, b=b):
                gradient = jax.grad(bj.loss, argnums=1)(config, params, b)
                return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))

            slopes.append(jax.tree.leaves(compiled(jax.grad(norm))(params)))
    for deferred, autodiff in zip(*slopes, strict=True):
        assert relative(deferred, autodiff) < 1e-9


def test_autodiff_serves_forward_mode_and_second_order():
    config = dataclasses.replace(CONFIGS["default"], gradients="autodiff", readout="tanh")
    with jax.enable_x64(True):
        b = batch(pairs(count=2))
        params = jax.tree.map(jnp.asarray, parameters(config, np.float64, scale=0.3))
        target = jnp.asarray(b.target)
        memory = compiled(encode, static_argnums=0)(config, params, b.source, b.source_mask)

        def of_annotations(x):
            t, _ = teacher_force(config, params, memory._replace(annotations=x), target)
            return jnp.sum(t**2)

        x, v = memory.annotations, np.ones(memory.annotations.shape)
        gradient = compiled(jax.grad(of_annotations))
        _, slope = compiled(lambda x: jax.jvp(of_annotations, (x,), (v,)))(x)
        assert relative(slope, np.vdot(gradient(x), v)) < 1e-10
        _, curvature = compiled(lambda x: jax.jvp(jax.grad(of_annotations), (x,), (v,)))(x)
        h = 1e-5
        numeric = (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)
        assert relative(curvature, numeric) < 1e-7
