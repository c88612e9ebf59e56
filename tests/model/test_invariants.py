"""Changes that must have no effect, and values that must be exactly 0, 1 or uniform."""

import dataclasses

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from bahdanau_jax.batch import START, Batch
from bahdanau_jax.model import Seq2Seq, start, teacher_forced
from bahdanau_jax.model.attention_weights import masked_softmax
from bahdanau_jax.model.decoder import stepper
from bahdanau_jax.model.loss import loss
from bahdanau_jax.model.parameters import embed
from bahdanau_jax.model.readout import maxout
from tests import oracles
from tests.model.worlds import (
    CONFIGS,
    IN_EACH_ORDER,
    batch,
    compiled,
    each,
    equations,
    everything,
    on_device,
    pairs,
    parameters,
    relative,
)

TOLERANCES = {np.float64: 1e-12, np.float32: 1e-5}
BOTH_WAYS = {np.float64: ("deferred", "autodiff"), np.float32: ("deferred",)}
every_precision = pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(np.float64, id="float64"),
        pytest.param(np.float32, id="float32", marks=pytest.mark.slow),
    ],
)
FILLER = 5  # its row in `padded()`
each_order = pytest.mark.parametrize("name", IN_EACH_ORDER)


def results(name, b, dtype=np.float64, change=lambda params: params, gradients=None):
    """`everything` as NumPy arrays. The padded batch of the oracles' tests shares its program."""
    gradients = BOTH_WAYS[dtype] if gradients is None else gradients
    with jax.enable_x64(dtype is np.float64):
        params = change(parameters(CONFIGS[name], dtype))
        return jax.tree.map(np.asarray, everything(CONFIGS[name], params, b, gradients))


def padded() -> Batch:
    return batch(pairs(), 2, 1, fillers=1)


def assert_same_rows(a, b, rows, tolerance):
    """Row `rows[i]` of the padded batch is row i of the other one; the filler may be anywhere."""
    for i, row in enumerate(rows):
        if row == FILLER:
            continue
        n, m = (len(sentence) for sentence in pairs()[row])
        for of_a, of_b in [
            (a.memory.annotations[row, :n], b.memory.annotations[i, :n]),
            (a.memory.initial[row], b.memory.initial[i]),
            (a.alpha[row, :m, :n], b.alpha[i, :m, :n]),
            (a.log_p[row, :m], b.log_p[i, :m]),
        ]:
            assert np.allclose(of_a, of_b, rtol=tolerance, atol=tolerance)


@every_precision
@pytest.mark.parametrize(
    "name", each("default", of=[*IN_EACH_ORDER, "coverage", "rnnencdec", "tied", "words"])
)
def test_padding_batch_size_and_order_change_no_result(name, dtype):
    tolerance, double = TOLERANCES[dtype], dtype is np.float64
    a = results(name, padded(), dtype)

    order = [4, FILLER, 0, 2, 1, 3]
    shuffled = results(name, Batch(*(field[order] for field in padded())), dtype)
    assert_same_rows(a, shuffled, order, tolerance)

    # Float32 gradients are compared with float64 ones where the oracles are.
    bare = results(name, batch(pairs()), dtype, gradients=("deferred",) if double else ())
    assert_same_rows(a, bare, range(5), tolerance)

    longest = max(range(5), key=lambda row: len(pairs()[row][0]))
    alone = results(name, batch([pairs()[longest]]), dtype, gradients=())
    assert_same_rows(a, alone, [longest], tolerance)
    log_p = a.log_p[longest, : len(pairs()[longest][1])]
    assert relative(alone.smoothed.nll, -log_p.sum()) < tolerance

    for b in (shuffled, bare):
        for way in b.sums:
            assert np.allclose(a.sums[way], b.sums[way], rtol=tolerance)
        assert np.allclose(a.smoothed, b.smoothed, rtol=tolerance)
    for b in (shuffled, bare) if double else ():
        leaves = (jax.tree.leaves(x.gradients["deferred"]) for x in (a, b))
        for of_a, of_b in zip(*leaves, strict=True):
            assert np.isfinite(of_a).all()
            assert np.allclose(of_a, of_b, rtol=0, atol=10 * tolerance * np.abs(of_b).max())


def test_filler_rows_look_nowhere():
    b = padded()
    got = results("default", b)
    assert b.weight[FILLER] == 0
    assert (got.alpha[FILLER] == 0).all()
    assert np.isfinite(got.memory.annotations).all()
    assert np.isfinite(got.log_p).all()


def own_rows(b: Batch) -> Batch:
    """The batch with a different id, and so a different embedding, at every position."""
    ids = [np.arange(x.size, dtype=np.int32).reshape(x.shape) for x in (b.source, b.target)]
    return b._replace(source=ids[0], target=ids[1])


@pytest.mark.parametrize(
    "name", each("luong", of=[*IN_EACH_ORDER, "coverage", "rnnencdec", "words", "words_dot"])
)
def test_gradient_to_padding_is_exactly_zero(name):
    b = own_rows(padded())
    config = dataclasses.replace(
        CONFIGS[name], source_vocabulary=b.source.size, target_vocabulary=b.target.size
    )
    with jax.enable_x64(True):
        gradient = compiled(jax.grad(loss, argnums=1), static_argnums=0)
        grads = gradient(config, parameters(config, np.float64), b)
    of_source = np.asarray(grads["source_embedding"]["E"]).reshape(*b.source.shape, -1)
    of_target = np.asarray(grads["target_embedding"]["E"]).reshape(*b.target.shape, -1)
    assert (of_source[~b.source_mask] == 0).all()
    assert (of_source[b.source_mask] != 0).all()
    # A target word is read by the steps after it: EOS, the last, by none.
    read = np.pad(b.target_mask, ((0, 0), (0, 1)))[:, 1:]
    assert (of_target[~read] == 0).all()
    assert (of_target[read] != 0).all()


@each_order
def test_future_target_words_change_nothing_before_them(name):
    b = padded()
    a = results(name, b)
    for i in range(b.target.shape[1]):
        target = b.target.copy()
        target[:, i:] = (target[:, i:] + 7) % 29
        changed = results(name, b._replace(target=target))
        assert (a.log_p[:, :i] == changed.log_p[:, :i]).all()
        assert (a.log_p[:5, i] != changed.log_p[:5, i]).all()
        # The word of step i itself is read only after step i.
        assert (a.alpha[:, : i + 1] == changed.alpha[:, : i + 1]).all()


@each_order
def test_gradient_to_future_target_words_is_exactly_zero(name):
    b = own_rows(batch(pairs(count=3, longest=5)))
    config = dataclasses.replace(
        CONFIGS[name], source_vocabulary=b.source.size, target_vocabulary=b.target.size
    )

    def at_step(params, b, i):
        return jnp.sum(jnp.take(teacher_forced(config, params, b).log_p, i, axis=1))

    with jax.enable_x64(True):
        params, gradient = parameters(config, np.float64), compiled(jax.grad(at_step))
        for i in range(b.target.shape[1]):
            of_target = np.asarray(gradient(params, b, i)["target_embedding"]["E"])
            of_target = of_target.reshape(*b.target.shape, -1)
            assert (of_target[:, i:] == 0).all()
            assert (of_target[:, :i] != 0).all()


@pytest.mark.parametrize("name", ["default", "tanh"])
def test_backward_direction_starts_at_zero_at_the_last_real_word(name):
    config, weights = CONFIGS[name], oracles.f64(parameters(CONFIGS[name]))
    h = results(name, padded()).memory.annotations
    for row, (source, _) in enumerate(pairs()):
        x = oracles.embed(weights["source_embedding"], source[-1])
        first = oracles.CELLS[config.cell](
            weights["encoder"]["backward"], np.zeros(config.hidden_size), W=x
        )
        assert np.allclose(h[row, len(source) - 1, config.hidden_size :], first, rtol=0, atol=1e-12)


@every_precision
@pytest.mark.parametrize("name", [*IN_EACH_ORDER, "tanh", "tied"])
def test_stepwise_equals_teacher_forced(name, dtype):
    b, config = padded(), CONFIGS[name]
    got = results(name, b, dtype)

    @compiled
    def one(params, memory, tokens, state):
        return stepper(config, params, memory)(tokens, state)

    with jax.enable_x64(dtype is np.float64):
        params = parameters(config, dtype)
        state, before = start(jax.tree.map(jnp.asarray, got.memory)), np.full(6, START, np.int32)
        for i in range(b.target.shape[1]):
            log_p, state, alpha = one(params, got.memory, before, state)
            before = b.target[:, i]
            log_p = np.asarray(log_p)[np.arange(6), before]
            assert np.allclose(log_p, got.log_p[:, i], rtol=0, atol=TOLERANCES[dtype])
            assert np.allclose(alpha, got.alpha[:, i], rtol=0, atol=TOLERANCES[dtype])


def test_start_has_no_embedding_and_no_bias():
    params = jax.tree.map(jnp.asarray, parameters(CONFIGS["groundhog"])["target_embedding"])
    ids = jnp.array([START, 3])
    x = np.asarray(embed(params, ids))
    assert (x[0] == 0).all()
    assert np.allclose(x[1], params["E"][3] + params["b"], rtol=1e-6)
    of_numpy = jax.jit(lambda ids: embed({**params, "E": np.asarray(params["E"])}, ids))
    assert (np.asarray(of_numpy(ids)) == x).all()


@every_precision
@pytest.mark.parametrize("name", each("default", of=["default", "relu"]))
def test_alpha_is_uniform_where_v_a_is_zero(name, dtype):
    def without(params):
        v_a = np.zeros_like(params["attention"]["v_a"])
        return {**params, "attention": {**params["attention"], "v_a": v_a}}

    b = padded()
    alpha = results(name, b, dtype, without).alpha
    for row, n in enumerate(b.source_mask.sum(axis=1)[:5]):
        assert (alpha[row, :, :n] == dtype(1) / dtype(n)).all()


@every_precision
@pytest.mark.parametrize("name", each("default", of=["default", "dot", "luong", "rnnencdec"]))
def test_alpha_is_one_where_there_is_one_word(name, dtype):
    assert len(pairs()[0][0]) == 1
    assert (results(name, padded(), dtype).alpha[0, :, 0] == 1).all()


def test_large_scores_in_the_model_stay_finite():
    def sharper(params):
        v_a = np.full_like(params["attention"]["v_a"], 100)
        return {**params, "attention": {**params["attention"], "v_a": v_a}}

    got = results("default", padded(), np.float32, sharper)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(got))
    assert np.allclose(got.alpha[:5].sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(
    "e", [[100, -100, 99], [-100, -99, -100], [1e4, 0, -1e4], [100, 100, 100]], ids=str
)
def test_softmax_of_large_scores(e, dtype):
    e, mask = jnp.array([e, e], dtype), jnp.array([[True] * 3, [False, True, False]])
    alpha, pullback = jax.vjp(lambda e: masked_softmax(e, mask), e)
    (gradient,) = pullback(jnp.ones_like(alpha).at[:, 1].set(2))
    assert alpha.dtype == jnp.float32
    exact = oracles.softmax(np.asarray(e[0], np.float64))
    assert np.allclose(alpha[0], exact, rtol=1e-6, atol=1e-30)
    assert np.array_equal(alpha[1], [0, 1, 0])
    assert np.isfinite(gradient).all()
    tolerance = 1e-2 if dtype == jnp.bfloat16 else 1e-6
    assert np.allclose(gradient[0], exact * ([1, 2, 1] - exact @ [1, 2, 1]), atol=tolerance)
    assert (gradient[1] == 0).all()


SCORES = arrays.arrays(np.float32, (3, 7), elements=st.floats(-100, 100, width=32))
MASKS = arrays.arrays(np.bool_, (3, 7))
softmax = compiled(masked_softmax)
softmax_gradient = compiled(jax.grad(lambda e, mask, w: jnp.sum(masked_softmax(e, mask) * w)))


@settings(max_examples=100)
@given(SCORES, MASKS, st.permutations(range(7)))
def test_masked_softmax(e, mask, order):
    alpha = np.asarray(softmax(e, mask))
    some = mask.any(axis=1)
    assert np.allclose(alpha.sum(axis=1), some, atol=1e-6)
    assert (alpha[~mask] == 0).all()
    assert (alpha >= 0).all()
    # Order, shift and the scores under the mask do not matter.
    assert np.allclose(softmax(e[:, order], mask[:, order]), alpha[:, order], atol=1e-6)
    assert np.allclose(softmax(e + 3, mask), alpha, atol=1e-4)
    assert np.array_equal(softmax(np.where(mask, e, 77), mask), alpha)
    gradient = np.asarray(softmax_gradient(e, mask, e[::-1] / 100))
    assert np.isfinite(gradient).all()
    assert (gradient[~mask] == 0).all()
    # A shift changes nothing, so the gradient of a row sums to 0.
    assert np.allclose(gradient.sum(axis=1), 0, atol=1e-6)


@pytest.mark.slow
def test_without_attention_every_step_sees_the_last_forward_state():
    config, b = CONFIGS["rnnencdec"], padded()
    got = results("rnnencdec", b)
    rows, last = np.arange(5), b.source_mask.sum(axis=1)[:5] - 1
    one_hot = np.zeros(got.alpha[:5].shape)
    one_hot[rows, :, last] = 1
    assert np.array_equal(got.alpha[:5], one_hot)
    final = got.memory.annotations[rows, last]
    p = oracles.f64(parameters(config))["initial_state"]
    assert np.allclose(got.memory.initial[:5], np.tanh(final @ p["W_s"] + p["b_s"]), atol=1e-12)

    @compiled
    def one(params, memory, tokens, state):
        return stepper(config, params, memory)(tokens, state)

    with jax.enable_x64(True):
        params, state = parameters(config, np.float64), start(jax.tree.map(jnp.asarray, got.memory))
        for tokens in b.target.T:
            _, state, _ = one(params, got.memory, tokens, state)
            assert np.array_equal(state.c[:5], final)


def test_rnnencdec_is_the_same_code_without_the_parameters_of_attention():
    """With a source of one word, attention has no choice, so both models are equal."""
    config = CONFIGS["rnnencdec"]
    attending = dataclasses.replace(config, attention="additive")
    with jax.enable_x64(True):
        params = parameters(config, np.float64)
        b = batch([(source[-1:], target) for source, target in pairs()])
        shapes = jax.eval_shape(Seq2Seq(attending).init, jax.random.key(0), b)["params"]
        assert {part for part in shapes if shapes[part]} - {"attention"} == {
            part for part in params if params[part]
        }
        looking = {**params, "attention": parameters(attending, np.float64)["attention"]}
        run = compiled(teacher_forced, static_argnums=0)
        for a, e in zip(run(config, params, b), run(attending, looking, b), strict=True):
            assert np.array_equal(a, e)


def test_padding_holds_the_state():
    """At padding the forward state is carried on, and the backward one is still 0."""
    b, size = padded(), CONFIGS["default"].hidden_size
    h = results("default", b).memory.annotations
    for row, n in enumerate(b.source_mask.sum(axis=1)[:5]):
        carried = np.broadcast_to(h[row, n - 1, :size], h[row, n:, :size].shape)
        assert np.array_equal(h[row, n:, :size], carried)
        assert (h[row, n:, size:] == 0).all()
    assert (h[FILLER] == 0).all()


def test_the_gradient_of_maxout_is_that_of_the_maximum():
    """Equal neighbours share the gradient, in forward mode and in reverse mode."""
    t = jnp.array([[1.0, 3.0, 2.0, 2.0, -1.0, -4.0], [0.0, 0.0, 5.0, -5.0, 1e-30, 0.0]])
    plain = lambda t: jnp.max(t.reshape(2, 3, 2), axis=-1)  # noqa: E731
    ours, theirs = jax.jacrev(maxout)(t), jax.jacrev(plain)(t)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(jax.jacfwd(maxout)(t), theirs)
    assert ours[0, 1, 0, 2] == ours[0, 1, 0, 3] == 0.5


@pytest.mark.parametrize("gradients", ["deferred", "autodiff"])
def test_the_energies_of_no_two_steps_are_kept(gradients):
    """Of B sentences, S and T positions and A units there would be B·S·T·A numbers."""
    config = dataclasses.replace(CONFIGS["default"], gradients=gradients)
    params = jax.tree.map(jnp.asarray, parameters(config))
    b = on_device(batch(pairs(count=31)))
    program = jax.make_jaxpr(jax.grad(lambda params: loss(config, params, b)))(params).jaxpr
    largest = max(v.aval.size for e in equations(program) for v in e.outvars if v.aval.shape)
    assert largest < b.source.size * b.target.shape[1] * config.alignment_size
