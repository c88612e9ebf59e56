"""The compiled search: its memory, teacher forcing through its step, ensembles."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from bahdanau_jax import model
from bahdanau_jax.batch import EOS, PAD, Batch, pad
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.decoding import search_program
from bahdanau_jax.decoding.constraints import FREE, Rules
from bahdanau_jax.decoding.ranking import Ranking
from bahdanau_jax.decoding.search import beam
from bahdanau_jax.decoding.search_program import Inputs, search
from bahdanau_jax.model import decoder
from tests import oracles
from tests.model import worlds

PAIRS = worlds.pairs(seed=3, count=5)


def forced(configs, weights, pairs, sizes=(7, 8), **settings):
    """The search with each target, its EOS included, as the prefix."""
    source, mask = pad([x for x, _ in pairs], sizes[0])
    prefix = np.full((len(pairs), sizes[1]), FREE, np.int32)
    for row, (_, y) in enumerate(pairs):
        prefix[row, : len(y)] = y
    rules = Rules(np.full(len(pairs), sizes[1], np.int32), None, prefix)
    inputs = Inputs(source, mask, rules, np.zeros((len(pairs), 2), np.int32), np.int32(1))
    decoding = DecodingConfig(beam_size=2, **settings)
    return jax.tree.map(np.asarray, search(configs, weights, inputs, sizes[1], decoding, 1))


def taught(config, params, pairs):
    """(log p [B, T], α [B, T, S]) of teacher forcing."""
    source, target = pad([x for x, _ in pairs], 7), pad([y for _, y in pairs], 8)
    batch = Batch(*source, *target, np.ones(len(pairs), np.float32))
    found = worlds.compiled(model.teacher_forced, static_argnums=0)(config, params, batch)
    return found.log_p, found.alpha


def agree(found, log_p, alpha, pairs):
    for row, (x, y) in enumerate(pairs):
        n = len(y)
        assert found.finished[row, 0] and found.tokens[row, 0, :n].tolist() == y
        np.testing.assert_allclose(found.log_probabilities[row, 0, :n], log_p[row, :n], atol=1e-5)
        np.testing.assert_allclose(
            found.aux[row, 0, :n, : len(x)], alpha[row, :n, : len(x)], atol=1e-5
        )
        assert math.isclose(found.score[row, 0], log_p[row, :n].sum(), abs_tol=1e-4)


@pytest.mark.parametrize(
    "name",
    worlds.each("groundhog", "coverage", of=[*worlds.IN_EACH_ORDER, "coverage", "tied"]),
)
def test_a_whole_target_as_prefix_is_forced_decoding(name):
    config = worlds.CONFIGS[name]
    params = jax.tree.map(jnp.asarray, worlds.parameters(config))
    found = forced((config,), (params,), PAIRS)
    agree(found, *taught(config, params, PAIRS), PAIRS)


@pytest.mark.parametrize("other", worlds.each("dot", of=["dot", "tied"]))
def test_an_ensemble_averages_log_probabilities_and_alignments(other):
    configs = worlds.CONFIGS["default"], worlds.CONFIGS[other]
    weights = tuple(
        jax.tree.map(jnp.asarray, worlds.parameters(config, seed=i))
        for i, config in enumerate(configs)
    )
    log_p, alpha = (
        np.mean(both, 0)
        for both in zip(
            *(taught(*each, PAIRS) for each in zip(configs, weights, strict=True)), strict=True
        )
    )
    agree(forced(configs, weights, PAIRS), log_p, alpha, PAIRS)


def test_search_counts_the_steps_of_local_attention():
    """The local windows of an ensemble by NumPy loops; the source is longer than a window."""
    configs = worlds.CONFIGS["local_m"], worlds.CONFIGS["local_p"]
    weights = [worlds.parameters(config, seed=i) for i, config in enumerate(configs)]
    rng = np.random.default_rng(4)
    pairs = [([*rng.integers(1, 23, n), EOS], [*rng.integers(1, 29, 17), EOS]) for n in (27, 4)]
    found = forced(configs, tuple(weights), pairs, sizes=(30, 18), coverage=0.2)
    for row, (x, y) in enumerate(pairs):
        each = [
            oracles.translate_log_probabilities(config, oracles.f64(params), x, y)
            for config, params in zip(configs, weights, strict=True)
        ]
        alpha = (each[0][1] + each[1][1]) / 2
        log_p = ((each[0][0] + each[1][0]) / 2)[np.arange(len(y)), y]
        assert found.tokens[row, 0].tolist() == y
        np.testing.assert_allclose(found.aux[row, 0, :, : len(x)], alpha, atol=1e-5)
        np.testing.assert_allclose(found.log_probabilities[row, 0], log_p, atol=1e-4)
        score = Ranking.of(DecodingConfig(coverage=0.2)).score(
            found.log_probabilities[row, 0], alpha
        )
        assert math.isclose(found.score[row, 0], score, abs_tol=1e-3)


@pytest.mark.slow
def test_an_ensemble_takes_the_words_that_are_best_for_all():
    """The best words of each model are in other windows of the vocabulary."""
    config = dataclasses.replace(worlds.CONFIGS["default"], target_vocabulary=300)
    weights = tuple(jax.tree.map(jnp.asarray, worlds.parameters(config, seed=i)) for i in (0, 1))
    bias = np.random.default_rng(1).normal(0, 3, (2, 300)).astype(np.float32)
    bias[:, EOS] = -30
    for params, own in zip(weights, bias, strict=True):
        params["output"]["b_w"] = jnp.asarray(own)
    source, mask = pad([x for x, _ in PAIRS], 7)
    rules = Rules(np.full(len(PAIRS), 5, np.int32))
    inputs = Inputs(source, mask, rules, np.zeros((len(PAIRS), 2), np.int32), np.int32(1))
    found = search((config,) * 2, weights, inputs, 5, DecodingConfig(beam_size=3), 3)

    memories = [model.encode(config, each, *map(jnp.asarray, (source, mask))) for each in weights]
    steps = [decoder.stepper(config, *each) for each in zip(weights, memories, strict=True)]

    def step(tokens, states):
        made = [one(tokens, state) for one, state in zip(steps, states, strict=True)]
        return (made[0][0] + made[1][0]) / 2, [state for _, state, _ in made], ()

    states = jax.tree.map(lambda leaf: leaf[:, None], [*map(model.start, memories)])
    expected = jax.jit(lambda: beam(step, states, rules, 5, 3))()
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_allclose(found.score, expected.score, atol=1e-4)


def intermediates(jaxpr, inside=False):
    """(array, whether in a loop) for everything that a program computes."""
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            yield variable.aval, inside
        for inner in jaxprs_in_params(equation.params):
            yield from intermediates(inner, inside or equation.primitive.name in ("while", "scan"))


# Sizes that no product of others can be taken for.
ROWS, LENGTH, BEAM, STEPS = 2, 19, 31, 61
MODEL = ModelConfig(
    source_vocabulary=23,
    target_vocabulary=401,
    embedding_size=3,
    hidden_size=37,
    alignment_size=43,
    readout_size=11,
)


@pytest.mark.parametrize("settings", [{}, {"coverage": 0.2, "length_normalization": "wu"}])
def test_nothing_that_search_computes_grows_too_fast(settings):
    """Every array of the program, its loops included, by its shape at sizes that are primes.

    No history holds a vocabulary or time twice, and there is no copy of keys or annotations for
    each hypothesis: all that is as large are the energies of one step, which the score itself is.
    """
    params, inputs = search_program.abstract(MODEL, ROWS, LENGTH)
    decoding = DecodingConfig(beam_size=BEAM, **settings)
    traced = jax.make_jaxpr(search, static_argnums=(0, 3, 4, 5))(
        (MODEL,), (params,), inputs, STEPS, decoding, 1
    )
    seen = [(a, inside) for a, inside in intermediates(traced.jaxpr) if hasattr(a, "shape")]
    assert len(seen) > 300
    A, C, V = MODEL.alignment_size, 2 * MODEL.hidden_size, MODEL.target_vocabulary
    logits, histories = ROWS * BEAM * V, STEPS * ROWS * BEAM * LENGTH
    energies = ROWS * BEAM * LENGTH * A
    wide = []
    for array, inside in seen:
        shape = array.shape
        assert shape.count(STEPS) <= 1, shape
        assert not (STEPS in shape and (V in shape or A in shape or C in shape)), shape
        assert not (BEAM in shape and LENGTH in shape and C in shape), shape
        if BEAM in shape and LENGTH in shape and A in shape:
            wide.append((math.prod(shape), inside))
        else:
            assert math.prod(shape) <= max(logits, histories), shape
    assert wide and all(size == energies and inside for size, inside in wide)


def loops(jaxpr):
    """All while loops of a program, inner ones too."""
    return (e for e in worlds.equations(jaxpr) if e.primitive.name == "while")


def test_weights_are_rounded_before_the_loop_and_states_within():
    """Loops round only arrays with a row for each hypothesis, so no matrix of weights."""
    config = dataclasses.replace(MODEL, compute_dtype="bfloat16")
    params, inputs = search_program.abstract(config, ROWS, LENGTH)
    traced = jax.make_jaxpr(search, static_argnums=(0, 3, 4, 5))(
        (config,), (params,), inputs, STEPS, DecodingConfig(beam_size=BEAM), 1
    )
    rounded = [
        equation.outvars[0].aval.shape
        for loop in loops(traced.jaxpr)
        for equation in worlds.equations(loop.params["body_jaxpr"].jaxpr)
        if equation.primitive.name == "convert_element_type"
        and equation.outvars[0].aval.dtype == jnp.bfloat16
    ]
    assert rounded and all(BEAM in shape or ROWS * BEAM in shape for shape in rounded), rounded


@pytest.mark.parametrize("attention", ["additive", "general", "none"])
def test_all_hypotheses_share_one_memory(attention):
    """The loop carries and reads no copy of the memory for each hypothesis."""
    config = dataclasses.replace(MODEL, attention=attention)
    params, inputs = search_program.abstract(config, ROWS, LENGTH)
    traced = jax.make_jaxpr(search, static_argnums=(0, 3, 4, 5))(
        (config,), (params,), inputs, 3, DecodingConfig(beam_size=BEAM), 1
    )
    found = list(loops(traced.jaxpr))
    assert found
    for equation in found:
        for variable in (*equation.invars, *equation.outvars):
            assert variable.aval.size < BEAM * ROWS * LENGTH * config.hidden_size, variable.aval


def test_coverage_is_kept_only_where_it_counts():
    params, inputs = search_program.abstract(MODEL, ROWS, LENGTH)
    carried = {}
    for beta in (0.0, 0.3):
        traced = jax.make_jaxpr(search, static_argnums=(0, 3, 4, 5))(
            (MODEL,), (params,), inputs, 3, DecodingConfig(beam_size=BEAM, coverage=beta), 1
        )
        shapes = [v.aval.shape for loop in loops(traced.jaxpr) for v in loop.outvars]
        carried[beta] = shapes.count((ROWS, BEAM, LENGTH))
    assert carried == {0.0: 0, 0.3: 1}


@pytest.mark.slow
def test_memory_is_asked_of_the_compiler_without_any_parameters():
    small = search_program.planned_memory(MODEL, 2, 8, DecodingConfig(beam_size=3))
    params, _ = search_program.abstract(MODEL, 2, 8)
    sizes = [math.prod(leaf.shape) * 4 for leaf in jax.tree.leaves(params)]
    assert small.parameters == sum(sizes)
    assert small.temporary > 0 and small.output > 0 and small.peak == sum(small)
    larger = search_program.planned_memory(MODEL, 2, 8, DecodingConfig(beam_size=12))
    assert 1 < larger.temporary / small.temporary < 6  # of beam 3 and 12: no square


def test_settings_that_do_not_shape_a_program_do_not_compile_another():
    one = DecodingConfig(beam_size=3, max_ratio=2.0, min_ratio=0.1, batch_size=3, seed=4)
    other = DecodingConfig(beam_size=3)
    assert search_program.inside(one) == search_program.inside(other)
    assert search_program.inside(dataclasses.replace(one, coverage=0.1)) != search_program.inside(
        other
    )


assert EOS == PAD  # what the prefixes above rely on


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
def test_sentences_that_are_searched_on_alone_find_the_same(monkeypatch, beam_size):
    config = worlds.CONFIGS["default"]
    params = jax.tree.map(jnp.asarray, worlds.parameters(config))
    x = [[2, 3, 0], [4, 0], [5, 2, 3, 4, 0], [3, 0], [2, 2, 0], [4, 4, 4, 0], [5, 0], [3, 5, 0]]
    source, mask = pad(x, 7)
    limits = np.array([8, 2, 5, 1, 3, 8, 2, 0], np.int32)  # stop at different times
    inputs = Inputs(source, mask, Rules(limits), np.zeros((8, 2), np.int32), np.int32(1))

    def found():
        search_program._search.clear_cache()
        decoding = DecodingConfig(beam_size=beam_size, length_normalization="wu", coverage=0.1)
        return jax.tree.map(
            np.asarray, search((config,), (params,), inputs, 8, decoding, beam_size)
        )

    whole = found()
    monkeypatch.setattr(search_program, "FEWEST", 1)
    widths = []
    monkeypatch.setattr(
        search_program,
        "beam",
        lambda *args, **more: widths.append(more["widths"]) or beam(*args, **more),
    )
    parts = found()
    assert widths == [(4,)]
    for ours, theirs in zip(*map(jax.tree.leaves, (parts, whole)), strict=True):
        if ours.dtype == np.float32:
            np.testing.assert_allclose(ours, theirs, atol=2e-6)
        else:
            np.testing.assert_array_equal(ours, theirs)
    search_program._search.clear_cache()
