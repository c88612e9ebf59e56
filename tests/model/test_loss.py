"""The chunked cross-entropy, compared with log-softmax, and its memory."""

import dataclasses
import importlib
import math

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import ORDERS
from bahdanau_jax.model.loss import loss, sums
from tests import oracles
from tests.model.worlds import SIZES, batch, compiled, on_device, pairs, parameters, relative

# The package gives away a function of the module's name.
module = importlib.import_module("bahdanau_jax.model.loss")
TIME, ROWS, SIZE, WORDS = 7, 3, 5, 11


def cross_entropy(smoothing, *arrays):
    return module.cross_entropy(smoothing, "float32", *arrays)


@pytest.fixture(params=[21, 8, 5, 1], ids="{} words a chunk".format)
def chunked(request, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_WORDS", 1)
    monkeypatch.setattr(module, "CHUNK_BYTES", request.param * WORDS * 4)
    t = jnp.zeros((TIME, ROWS, SIZE))
    chunks, *_ = module._chunks(t, t[..., 0], t[..., 0], WORDS)
    count = math.ceil(TIME * ROWS / request.param)
    assert chunks.shape[:2] == (count, math.ceil(TIME * ROWS / count))


@pytest.mark.parametrize(
    ("words", "vocabulary", "count"),
    [(2400, 30_000, 4), (1280, 8_000, 2), (1280, 100, 1), (480, 250_000, 4), (80, 10**8, 80)],
)
def test_a_chunk_is_neither_large_nor_low(words, vocabulary, count):
    t = jax.ShapeDtypeStruct((words // 80, 80, SIZE), jnp.float32)
    one = jax.ShapeDtypeStruct(t.shape[:2], jnp.float32)
    chunks, *_ = jax.eval_shape(lambda *x: module._chunks(*x, vocabulary), t, one, one)
    assert chunks.shape == (count, words // count, SIZE)
    assert count == words or chunks.shape[1] * vocabulary * 4 <= 4 * module.CHUNK_BYTES


@pytest.mark.parametrize(("words", "count"), [(2_400, 1), (122_880, 30)])
def test_an_accelerator_has_larger_chunks(words, count, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    t = jax.ShapeDtypeStruct((words // 80, 80, SIZE), jnp.float32)
    one = jax.ShapeDtypeStruct(t.shape[:2], jnp.float32)
    chunks, *_ = jax.eval_shape(lambda *x: module._chunks(*x, 30_000), t, one, one)
    assert chunks.shape == (count, words // count, SIZE)


def problem():
    rng = np.random.default_rng(2)
    t, W_o = rng.normal(size=(TIME, ROWS, SIZE)), rng.normal(size=(SIZE, WORDS))
    weight = rng.uniform(0.5, 2, (TIME, ROWS)) * (rng.uniform(size=(TIME, ROWS)) < 0.7)
    target = rng.integers(0, WORDS, (TIME, ROWS)).astype(np.int32)
    return t, W_o, rng.normal(size=WORDS), target, weight


def plain(smoothing, t, W_o, b_w, target, weight):
    log_p = jax.nn.log_softmax(t @ W_o + b_w[None, None])
    right = jnp.take_along_axis(log_p, target[..., None], axis=-1)[..., 0]
    loss = (1 - smoothing) * right + smoothing / WORDS * jnp.sum(log_p, axis=-1)
    correct = jnp.argmax(log_p, axis=-1) == target
    return -jnp.sum(loss * weight), -jnp.sum(right * weight), jnp.sum(correct * weight)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_log_softmax(smoothing, chunked):
    def total(of):
        def scaled(t, W_o, b_w, target, weight):
            found = of(smoothing, t, W_o, b_w, target, weight)
            return 3 * found[0], found

        return compiled(jax.value_and_grad(scaled, argnums=(0, 1, 2), has_aux=True))

    with jax.enable_x64(True):
        (_, got), of_got = total(cross_entropy)(*problem())
        (_, wanted), of_wanted = total(plain)(*problem())
        assert np.allclose(got, wanted, rtol=1e-12)
        assert np.allclose(compiled(cross_entropy, static_argnums=0)(smoothing, *problem()), wanted)
        for a, e in zip(of_got, of_wanted, strict=True):
            assert relative(a, e) < 1e-12


def test_weight_0_counts_for_nothing():
    t, W_o, b_w, target, weight = (jnp.asarray(x) for x in problem())
    run = compiled(jax.value_and_grad(lambda t, *rest: cross_entropy(0.1, t, *rest)[0]))
    loss, gradient = run(t, W_o, b_w, target, weight)
    assert (np.asarray(gradient)[np.asarray(weight) == 0] == 0).all()
    assert (np.asarray(gradient)[np.asarray(weight) != 0] != 0).all()
    other = jnp.where(weight == 0, (target + 1) % WORDS, target)
    assert run(t, W_o, b_w, other, weight)[0] == loss
    assert run(t, W_o, b_w, target, weight * 0)[0] == 0


@pytest.mark.parametrize(
    ("bias", "target", "correct"),
    [
        ([0, 3, 1], [1, 1, 0], 2),
        ([0, 3, 3], [1, 2, 0], 2),  # any of the likeliest words is right
        ([5, 5, 5], [0, 1, 2], 3),
    ],
)
def test_correct_words_and_ties(bias, target, correct):
    t, W_o = jnp.ones((3, 1, 2)), jnp.zeros((2, 3))
    target = jnp.array(target, jnp.int32)[:, None]
    bias = jnp.array(bias, jnp.float32)
    assert cross_entropy(0.0, t, W_o, bias, target, jnp.ones((3, 1)))[2] == correct
    assert cross_entropy(0.0, t, W_o, bias, target, jnp.zeros((3, 1)))[2] == 0


def test_without_smoothing_the_nll_has_the_gradient_of_the_loss():
    def gradient(result):
        return compiled(jax.grad(lambda *x: cross_entropy(0.0, *x)[result], (0, 1, 2)))(*problem())

    with jax.enable_x64(True):
        for loss, nll in zip(gradient(0), gradient(1), strict=True):
            assert np.abs(loss).max() > 0
            np.testing.assert_array_equal(loss, nll)


def test_with_smoothing_the_nll_has_no_gradient():
    with jax.enable_x64(True):
        nll = compiled(jax.grad(lambda *x: cross_entropy(0.1, *x)[1], (0, 1, 2)))
        assert not any(np.any(gradient) for gradient in nll(*problem()))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_of_a_weight_is_what_its_word_adds(smoothing, chunked):
    def gradient(of):
        def total(weight, *given):
            return sum(n * x for n, x in enumerate(of(smoothing, *given, weight), 2))

        *given, weight = problem()
        return compiled(jax.grad(total))(weight, *given)

    with jax.enable_x64(True):
        assert relative(gradient(cross_entropy), gradient(plain)) < 1e-12


@pytest.mark.slow
def test_autodiff_differentiates_the_loss_in_forward_mode_and_twice():
    """`jax.jvp` is the gradient times a direction, and of the gradient the Hessian times it."""
    config = dataclasses.replace(ModelConfig(**SIZES), gradients="autodiff")
    b = on_device(batch(pairs()))
    with jax.enable_x64(True):
        params, d = (parameters(config, np.float64, seed, scale=0.3) for seed in (0, 1))

        def total(params):
            return loss(config, params, b)

        @compiled
        def derivatives(params, d):
            forward = jax.jvp(total, (params,), (d,))
            return *forward, *jax.jvp(jax.grad(total), (params,), (d,))

        value, slope, gradient, curved = derivatives(params, d)

        def times_d(tree):
            return sum(jax.tree.leaves(jax.tree.map(lambda a, b: float(np.sum(a * b)), tree, d)))

        def moved(step):
            return jax.tree.map(lambda a, b: a + step * b, params, d)

        run, step = compiled(total), 1e-4
        above, below = float(run(moved(step))), float(run(moved(-step)))
        value, slope = float(value), float(slope)
        assert slope == pytest.approx(times_d(gradient), rel=1e-10)
        assert slope == pytest.approx((above - below) / (2 * step), rel=1e-5)
        assert times_d(curved) == pytest.approx((above - 2 * value + below) / step**2, rel=1e-3)
    default = dataclasses.replace(config, gradients="deferred")
    assert relative(compiled(loss, static_argnums=0)(default, params, b), value) < 1e-6


@pytest.mark.parametrize("coverage", [0.0, 0.7])
def test_a_sentence_has_a_gradient_of_its_weight(coverage):
    """The gradient with respect to the weight of a sentence is its own loss."""
    config = ModelConfig(**SIZES)
    params, b = jax.tree.map(jnp.asarray, parameters(config)), on_device(batch(pairs(count=3)))

    def losses(weight):
        return sums(config, params, b._replace(weight=weight), coverage=coverage).loss

    each = compiled(jax.vmap(losses))(jnp.eye(3))
    np.testing.assert_allclose(compiled(jax.grad(losses))(b.weight), each, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("gradients", ["deferred", "autodiff"])
def test_the_gradient_of_uncovered_words(order, gradients):
    config = ModelConfig(**SIZES, order=order, gradients=gradients)
    numbers = parameters(config, np.float64)
    with jax.enable_x64():
        params, b = jax.tree.map(jnp.asarray, numbers), on_device(batch(pairs(), 2, 1, fillers=1))
        grads = jax.grad(lambda p: sums(config, p, b, coverage=0.7).loss)(params)
        plain = jax.grad(lambda p: sums(config, p, b).loss)(params)
        grads, plain = jax.tree.map(np.asarray, (grads, plain))
    leaves, tree = jax.tree.flatten(numbers)
    rng, h = np.random.default_rng(1), 1e-5
    direction = [rng.normal(size=leaf.shape) for leaf in leaves]

    def along(gradient):
        return sum(map(np.vdot, jax.tree.leaves(gradient), direction))

    def at(step):
        moved = [leaf + step * d for leaf, d in zip(leaves, direction, strict=True)]
        return oracles.loss(config, oracles.f64(tree.unflatten(moved)), pairs(), coverage=0.7)

    slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    assert along(grads) == pytest.approx(slope, rel=1e-8)
    assert abs(along(plain) - slope) > 1e-3 * abs(slope)


def test_uncovered_words_by_hand():
    alpha = np.zeros((3, 1, 5))
    alpha[:, 0] = [[0.5, 0.5, 0, 0, 0], [0, 0.5, 0.25, 0.25, 0], [0, 0, 1, 0, 0]]
    masks = jnp.array([[True, True, False]]), jnp.array([[True, True, True, True, False]])
    # The third target word is padding, and the fourth source position is EOS.
    assert module.uncovered(jnp.asarray(alpha), *masks).tolist() == [0.5**2 + 0 + 0.75**2]


def sizes(jaxpr):
    """The number of elements of every array in a program, those of its inner programs too."""
    inner = (jax.extend.core.Jaxpr, jax.extend.core.ClosedJaxpr)
    for equation in jaxpr.eqns:
        yield from (math.prod(v.aval.shape) for v in [*equation.invars, *equation.outvars])
        for leaf in jax.tree.leaves(equation.params, is_leaf=lambda x: isinstance(x, inner)):
            if isinstance(leaf, inner):
                yield from sizes(getattr(leaf, "jaxpr", leaf))


@pytest.mark.parametrize("chunk", [4096, 2**25], ids=["chunked", "whole"])
def test_no_array_holds_all_logits(chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(module, "CHUNK_WORDS", 1)
    config = ModelConfig(**SIZES | {"target_vocabulary": 1009})
    params, b = parameters(config), batch(pairs())
    logits = b.target.size * 1009
    assert max(leaf.size for leaf in jax.tree.leaves(params)) < logits / 2
    for f in (lambda p, b: sums(config, p, b, smoothing=0.1).loss, lambda p, b: sums(config, p, b)):
        gradient = jax.grad(lambda p, b, f=f: jax.tree.leaves(f(p, b))[0])
        for program in (f, gradient):
            largest = max(sizes(jax.make_jaxpr(program)(params, b).jaxpr))
            assert (largest < logits) == (chunk == 4096)
