"""Interventions against a NumPy loop, and interventions that change nothing."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from bahdanau_jax.batch import START
from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.decoding import search_program
from bahdanau_jax.decoding.constraints import Rules
from bahdanau_jax.model import encode, teacher_forced, teacher_forced_states
from bahdanau_jax.model.attention_weights import masked_softmax
from bahdanau_jax.model.interventions import (
    at,
    changed,
    check,
    force,
    harden,
    mask,
    padded,
    replace,
    select,
)
from bahdanau_jax.model.memory import intervene
from tests import oracles
from tests.model.worlds import CONFIGS, batch, compiled, each, on_device, pairs, parameters

PAIRS = pairs(seed=5, count=7)
BATCH = on_device(batch(PAIRS, extra_source=1, extra_target=2))
REAL = np.asarray(BATCH.target_mask)
T, S = BATCH.target.shape[1], BATCH.source.shape[1]
NAMES = ("default", "groundhog", "local_p", "conditional", "coverage")
forced = compiled(teacher_forced, static_argnums=0)


def oracle(name, monkeypatch, change):
    """log p of the target words [B][T] and alpha by the loop, whose rows go through `change`."""
    config, params = CONFIGS[name], oracles.f64(parameters(CONFIGS[name]))
    plain, found = oracles.attend, []
    for row, (source, target) in enumerate(PAIRS):
        steps = iter(range(len(target)))

        def attend(*arguments, row=row, steps=steps):
            alpha = change(row, next(steps), plain(*arguments)[1])
            annotations = next(x for x in arguments if isinstance(x, list))
            return sum(a * h for a, h in zip(alpha, annotations, strict=True)), alpha

        monkeypatch.setattr(oracles, "attend", attend)
        log_p, alpha = oracles.translate_log_probabilities(config, params, source, target)
        found.append((log_p[np.arange(len(target)), target], alpha))
    monkeypatch.setattr(oracles, "attend", plain)
    return found


def renormalised(alpha, keep):
    """The other weights, with the sum that all of them had: less than 1 in local-p."""
    kept = alpha * keep[: len(alpha)]
    return kept * (alpha.sum() / kept.sum()) if kept.sum() else kept


GIVEN = np.random.default_rng(1).dirichlet(np.ones(S), (len(PAIRS), T)).astype(np.float32)
REMOVED = np.arange(S)[None] == np.array([[0], [1], [0], [2], [1], [0], [3]])
CHOSEN = np.random.default_rng(2).random((len(PAIRS), T)) < 0.5
POSITIONS = np.where(CHOSEN, 0, -1)
CHANGES = {
    "replace": (replace(GIVEN), lambda b, i, alpha: GIVEN[b, i, : len(alpha)]),
    "mask": (mask(REMOVED), lambda b, i, alpha: renormalised(alpha, ~REMOVED[b])),
    "harden": (harden(), lambda b, i, alpha: np.eye(len(alpha))[alpha.argmax()]),
    "force": (
        force(POSITIONS),
        lambda b, i, alpha: np.eye(len(alpha))[0] if CHOSEN[b, i] else alpha,
    ),
    "harden at chosen steps": (
        at(CHOSEN, harden()),
        lambda b, i, alpha: np.eye(len(alpha))[alpha.argmax()] if CHOSEN[b, i] else alpha,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", each("local_p", of=NAMES))
def test_changed_weights_equal_the_loop(name, change, monkeypatch):
    intervention, by_hand = CHANGES[change]
    found = forced(CONFIGS[name], parameters(CONFIGS[name]), BATCH, intervention)
    for row, (log_p, alpha) in enumerate(oracle(name, monkeypatch, by_hand)):
        size = alpha.shape
        np.testing.assert_allclose(found.log_p[row, : size[0]], log_p, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(found.alpha[row, : size[0], : size[1]], alpha, atol=1e-6)
        assert not np.asarray(found.alpha[row, :, size[1] :]).any()


@pytest.mark.parametrize("name", each("default", of=NAMES))
def test_alpha_in_place_of_itself_changes_no_bit(name):
    config, params = CONFIGS[name], parameters(CONFIGS[name])
    plain = forced(config, params, BATCH)
    changes = (replace(plain.alpha), at(np.zeros((len(PAIRS), 1), bool), harden()))
    for intervention in (*changes, mask(np.zeros((len(PAIRS), 1), bool))):
        for ours, theirs in zip(forced(config, params, BATCH, intervention), plain, strict=True):
            np.testing.assert_array_equal(np.asarray(ours)[REAL], np.asarray(theirs)[REAL])


def test_hardening_a_one_hot_alpha_changes_no_bit():
    config, params = CONFIGS["rnnencdec"], parameters(CONFIGS["rnnencdec"])
    plain, hard = forced(config, params, BATCH), forced(config, params, BATCH, harden())
    np.testing.assert_array_equal(np.asarray(hard.log_p)[REAL], np.asarray(plain.log_p)[REAL])


@pytest.mark.parametrize("folded", [False, True])
def test_search_sees_the_number_of_the_step(folded):
    """Forced steps of search give the log-probabilities of teacher forcing, for each hypothesis."""
    config, params = CONFIGS["default"], parameters(CONFIGS["default"])
    intervention = CHANGES["harden at chosen steps"][0]

    def walk(params, b, intervention):
        stepping, state = search_program.combined(
            (config,), (params,), b.source, b.source_mask, folded, intervention
        )
        step, tokens, rows = stepping(None), jnp.full((len(PAIRS), 1), START), []
        for i in range(T):
            log_p, state, _ = step(tokens, state)
            tokens = b.target[:, i : i + 1]
            rows.append(jnp.take_along_axis(log_p.log_p, tokens[..., None], axis=2)[:, 0, 0])
        return jnp.stack(rows, axis=1)

    ours = np.asarray(compiled(walk)(params, BATCH, intervention))
    theirs = np.asarray(forced(config, params, BATCH, intervention).log_p)
    np.testing.assert_allclose(ours[REAL], theirs[REAL], rtol=2e-5, atol=2e-6)


def test_a_beam_looks_where_it_is_forced_to():
    config, params = CONFIGS["default"], parameters(CONFIGS["default"])
    rows, steps = len(PAIRS), 5
    inputs = search_program.Inputs(
        BATCH.source,
        BATCH.source_mask,
        Rules(np.full(rows, steps, np.int32), ban_unk=np.zeros(rows, bool)),
        np.zeros((rows, 2), np.int32),
        np.int32(1),
        force(np.zeros((rows, 2), np.int32)),
    )
    settings = DecodingConfig(beam_size=3)
    found = search_program.search((config,), (params,), inputs, steps, settings, 1)
    later = 0
    for row, (alpha, length) in enumerate(zip(found.aux[:, 0], found.length[:, 0], strict=True)):
        np.testing.assert_array_equal(alpha[: min(2, length), 0], 1)
        own = alpha[2:length, : len(PAIRS[row][0])]  # of the model again: on all words
        assert own.shape[1] == 1 or (own > 0).all()
        later += own.shape[1] > 1 and len(own)
    assert later > 0


@pytest.mark.parametrize("gradients", each("deferred", of=["deferred", "autodiff"]))
def test_gradients_flow_through_changed_weights(gradients):
    """Both gradients agree, and the gradient of replaced weights is that of finite differences."""
    config, params = CONFIGS["default"], parameters(CONFIGS["default"], np.float64)
    config = dataclasses.replace(config, gradients=gradients)
    with jax.enable_x64(True):
        b = on_device(batch(PAIRS))
        given = np.asarray(GIVEN[:, :, : b.source.shape[1]], np.float64)

        def total(params, given):
            return jnp.sum(teacher_forced(config, params, b, replace(given)).log_p * b.target_mask)

        grads, by_given = jax.jit(jax.grad(total, argnums=(0, 1)))(params, given)
        assert not np.asarray(grads["attention"]["v_a"]).any()  # alpha no longer depends on scores
        assert np.asarray(grads["encoder"]["forward"]["W"]).any()
        move = np.random.default_rng(3).normal(size=given.shape)
        high, low = (jax.jit(total)(params, given + t * move) for t in (1e-6, -1e-6))
        slope = (float(high) - float(low)) / 2e-6
        np.testing.assert_allclose(np.sum(np.asarray(by_given) * move), slope, rtol=1e-6)


def test_gradients_are_finite_where_the_derivative_at_padding_is_not():
    flatter = Partial(lambda alpha, i: jnp.sqrt(alpha) / jnp.sqrt(alpha).sum())

    def first_weight(e):
        real = jnp.arange(e.size)[None] < 3
        return changed(flatter, masked_softmax(e[None], real), jnp.zeros(1), real)[0, 0]

    alone, with_padding = (
        jax.grad(first_weight)(jnp.array([0.3, -0.2, 0.1, 0.0][:n])) for n in (3, 4)
    )
    assert alone[0] > 0.05
    np.testing.assert_allclose(with_padding, [*alone, 0], rtol=1e-5)


def test_arrays_are_padded_selected_and_checked():
    stacked = padded([np.ones((2, 3)), 2 * np.ones((4, 1))])
    assert stacked.shape == (2, 4, 3) and stacked.sum() == 6 + 8
    chosen = select(replace(stacked), [1], 3)
    assert chosen.args[0].shape == (3, 4, 3) and chosen.args[0][0, 3, 0] == 2
    assert select(None, [0], 1) is None
    with pytest.raises(ValueError, match=r"shape \[2, 4, 3\], but there are 3 sentences: give"):
        check(replace(stacked), 3)
    with pytest.raises(ValueError, match=r"shape \[\], but there are 3 sentences: give"):
        check(Partial(lambda share, alpha, i: alpha * share, np.float32(2)), 3)
    with pytest.raises(ValueError, match="Partial, but this is a function"):
        check(lambda alpha, i: alpha, 1)


@pytest.mark.parametrize(
    ("own", "returned"),
    [
        (lambda alpha, i: alpha[:2], r"array of shape \[2\]"),
        (lambda alpha, i: alpha.max(), r"array of shape \[\]"),
        (lambda alpha, i: (alpha, i), "tuple"),
    ],
)
def test_what_an_intervention_returns_is_checked(own, returned):
    config, params = CONFIGS["default"], parameters(CONFIGS["default"])
    b = on_device(batch(pairs()))

    def forced(params):
        memory = intervene(encode(config, params, b.source, b.source_mask), Partial(own))
        return teacher_forced_states(config, params, memory, b.target)

    with pytest.raises(ValueError, match=f"intervention returns the {returned}; expected the wei"):
        jax.eval_shape(forced, params)


@pytest.mark.parametrize(
    "construct, arguments",
    [
        (force, [[[0.7]]]),
        (force, [[1]]),
        (mask, [[[2]]]),
        (mask, [[True]]),
        (replace, [np.ones((1, 5))]),
        (at, [[True], harden()]),
    ],
)
def test_arrays_of_another_rank_or_kind_are_errors(construct, arguments):
    unchecked = inspect.unwrap(construct)  # outside the tests nothing compares the signature
    with pytest.raises(ValueError, match="should have [23] axes of"):
        unchecked(*arguments)


def test_what_is_no_intervention_and_no_matrix_is_an_error():
    with pytest.raises(ValueError, match="Partial, but this is a function"):
        inspect.unwrap(at)(np.ones((1, 2), bool), lambda alpha, i: alpha)
    with pytest.raises(ValueError, match=r"array 1 has shape \[3\]; expected \[T, S\]"):
        inspect.unwrap(padded)([np.ones((2, 3)), np.ones(3)])
    assert padded([]).shape == (0, 0, 0)


@pytest.mark.parametrize("length", [2, 3, 9])
def test_positions_beyond_the_sentence_give_the_same_at_every_padding(length):
    """The sentence has two words. Its padded length depends on the other sentences of a batch."""
    real = jnp.arange(length)[None] < 2
    alpha = jnp.zeros((1, length)).at[0, :2].set(jnp.array([0.2, 0.8]))
    step = jnp.zeros(1)
    for position, expected in ((-1, [0.2, 0.8]), (1, [0, 1]), (2, [0, 0]), (5, [0, 0])):
        found = changed(force(np.array([[position]])), alpha, step, real)
        np.testing.assert_array_equal(found[0, :2], np.array(expected, np.float32))
        assert not found[0, 2:].any()
    beyond = np.zeros((1, 1, 7), np.float32)
    for place, expected in ((0, [1, 0]), (5, [0, 0])):
        beyond[:] = np.eye(7)[place]
        found = changed(replace(beyond), alpha, step, real)
        np.testing.assert_array_equal(found[0, :2], np.array(expected, np.float32))


def test_a_memory_without_an_intervention_is_itself():
    config, params = CONFIGS["default"], on_device(parameters(CONFIGS["default"]))
    memory = encode(config, params, BATCH.source, BATCH.source_mask)
    assert intervene(memory, None) is memory


@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.uint32])
def test_a_step_beyond_the_forced_ones_is_unchanged_whatever_their_type(kind):
    alpha, mask = jnp.array([[0.2, 0.8]]), jnp.array([[True, True]])
    for step, expected in ((0, [[1.0, 0.0]]), (1, [[0.2, 0.8]])):
        found = changed(force(np.array([[0]], kind)), alpha, jnp.array([float(step)]), mask)
        np.testing.assert_allclose(found, expected)
