"""The Flax module: its parameters, their initial values, and equality with the functions."""

import dataclasses
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.config import PRESETS, ModelConfig
from bahdanau_jax.model import INITS, VARIANTS, Seq2Seq, count, encode, score_named, start
from bahdanau_jax.model import init as draw_model
from bahdanau_jax.model.attention import Score
from bahdanau_jax.model.decoder import stepper
from bahdanau_jax.model.loss import sums
from tests import small
from tests.model.worlds import CONFIGS, batch, compiled, each, on_device, pairs, parameters


def shapes(config):
    return jax.eval_shape(Seq2Seq(config).init, jax.random.key(0), batch(pairs()))["params"]


def test_parameter_count_at_the_size_of_the_paper():
    config = dataclasses.replace(
        PRESETS["groundhog"], source_vocabulary=30_001, target_vocabulary=30_001
    )
    parts = {name: count(part) for name, part in shapes(config).items()}
    assert parts == {
        "source_embedding": 37_202_480 // 2,
        "target_embedding": 37_202_480 // 2,
        "encoder": 9_722_000,
        "attention": 3_001_000,
        "initial_state": 1_001_000,
        "decoder": 10_861_000,
        "readout": 3_621_000,
        "output": 18_940_621,
    }
    assert count(shapes(config)) == 84_349_101


@pytest.mark.parametrize("name", ["default", "groundhog", "words_dot"])
def test_the_module_is_its_functions(name):
    config = dataclasses.replace(CONFIGS[name], readout_dropout=0.3)
    b = batch(pairs(), 2, 1, fillers=1)
    params, model, tokens = parameters(config), Seq2Seq(config), jnp.zeros(6, jnp.int32)

    @compiled
    def functions(params, b):
        memory = encode(config, params, b.source, b.source_mask)
        step = stepper(config, params, memory)(tokens, start(memory))
        return sums(config, params, b, jax.random.key(1), 0.1), memory, step

    @compiled
    def methods(params, b):
        bound = {"params": params}
        memory = model.apply(bound, b.source, b.source_mask, method="encode")
        step = model.apply(bound, memory, tokens, start(memory), method="step")
        return model.apply(bound, b, jax.random.key(1), 0.1), memory, step

    leaves = (jax.tree.leaves(f(params, b)) for f in (functions, methods))
    for a, e in zip(*leaves, strict=True):
        assert np.array_equal(a, e)


@pytest.mark.parametrize("side", ["source_vocabulary", "target_vocabulary"])
def test_a_size_that_waits_for_the_vocabulary_is_an_error(side):
    config = dataclasses.replace(CONFIGS["default"], **{side: 0})
    with pytest.raises(ValueError, match=f"model.{side} is 0: set it to the size"):
        shapes(config)


@pytest.mark.parametrize("init", INITS)
def test_float64_as_jaxs_default_draws_the_same_weights(init):
    config = dataclasses.replace(CONFIGS["default"], init=init)
    single = draw_model(config, jax.random.key(3))
    with jax.enable_x64(True):
        double = draw_model(config, jax.random.key(3))
    for a, b in zip(jax.tree.leaves(single), jax.tree.leaves(double), strict=True):
        assert b.dtype == np.float32 and np.array_equal(a, b)


def test_a_first_state_of_a_direction_that_is_not_encoded_is_an_error():
    config = dataclasses.replace(CONFIGS["default"], encoder_directions="forward")
    with pytest.raises(ValueError, match="model.initial_state is backward, but"):
        shapes(config)


@pytest.mark.parametrize("field", VARIANTS)
def test_an_unknown_variant_is_an_error_with_the_known_ones(field):
    config = dataclasses.replace(CONFIGS["default"], **{field: "papr"})
    with pytest.raises(ValueError, match=f"no model.{field} 'papr'; known: {min(VARIANTS[field])}"):
        shapes(config)


LARGE = dict(
    source_vocabulary=211,
    target_vocabulary=223,
    embedding_size=101,
    hidden_size=103,
    alignment_size=107,
    readout_size=109,
)


def scale_of(init, path, shape):
    if path[-1] in ("W_a", "U_a") and init != "glorot":
        return 0.001
    return 0.01 if init == "paper" else (2 / sum(shape)) ** 0.5


@pytest.mark.parametrize("init", each("paper", of=["paper", "scaled", "glorot"]))
def test_initial_weights(init):
    config = ModelConfig(**LARGE, init=init, embedding_bias=True, output_size=113)
    model, b = Seq2Seq(config), on_device(batch(pairs()))
    params = compiled(lambda key: model.init(key, b)["params"])(jax.random.key(5))
    seen = set()
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        names, leaf = [entry.key for entry in path], np.asarray(leaf)
        assert leaf.dtype == np.float32
        assert leaf.tobytes() not in seen or leaf.ndim == 1  # no two are drawn from one key
        seen.add(leaf.tobytes())
        if leaf.ndim == 1:  # v_a and the biases
            assert (leaf == 0).all(), names
        elif names[-1] in ("U", "U_z", "U_r"):
            assert np.abs(leaf.T @ leaf - np.eye(len(leaf))).max() < 1e-5, names
        else:
            assert leaf.std() == pytest.approx(scale_of(init, names, leaf.shape), rel=0.05), names
            assert abs(leaf.mean()) < 5 * leaf.std() / leaf.size**0.5, names
    assert {"v_a", "b", "b_z", "b_r", "b_s", "b_o", "b_w"} <= {
        path[-1].key for path, _ in jax.tree_util.tree_leaves_with_path(params)
    }


ONE_WAY = dataclasses.replace(CONFIGS["tanh"], encoder_directions="forward")  # few matrices


@pytest.mark.slow
def test_init_under_vmap():
    model, b = Seq2Seq(ONE_WAY), on_device(batch(pairs()))
    keys = jax.random.split(jax.random.key(0), 10)
    init = compiled(lambda key: model.init(key, b)["params"])
    many = compiled(jax.vmap(lambda key: model.init(key, b)["params"]))(keys)
    for i in (0, 9):
        alone = init(keys[i])
        for a, e in zip(jax.tree.leaves(many), jax.tree.leaves(alone), strict=True):
            assert np.allclose(a[i], e, atol=1e-6)
    assert np.std(many["readout"]["U_o"], axis=0).min() > 0


DRAWS = """
import jax
import bahdanau_jax as bj
config = bj.ModelConfig(
    source_vocabulary=30, target_vocabulary=31, embedding_size=32, hidden_size=32,
    alignment_size=16, readout_size=16,
)
draw = lambda key: bj.init(config, key)
keys = jax.random.split(jax.random.key(0), 10)
for _ in range(3):
    many = jax.block_until_ready(jax.jit(jax.vmap(draw))(keys))
last = jax.jit(draw)(keys[9])
assert all((a[9] == b).all() for a, b in zip(jax.tree.leaves(many), jax.tree.leaves(last)))
"""


@pytest.mark.slow
def test_jitted_draws_of_many_seeds_end():
    """Without `orthogonal`, this program waits forever on two cores."""
    subprocess.run([sys.executable, "-c", DRAWS], check=True, timeout=300, cwd=small.ROOT)


def cosine(params, query, keys):
    norms = jnp.linalg.norm(query, axis=-1)[:, None] * jnp.linalg.norm(keys, axis=-1)
    return params["scale"] * jnp.einsum("ba,bsa->bs", query, keys) / (norms + 1e-6)


COSINE = Score(
    init=lambda key, config: {
        "W": jax.random.normal(key, (config.hidden_size, 2 * config.hidden_size)),
        "scale": jnp.ones((1, 1)),
    },
    keys=lambda config, params, annotations, mask: annotations,
    query=lambda params: params["W"],
    score=cosine,
)


def test_a_score_of_your_own_trains():
    config = dataclasses.replace(CONFIGS["default"], attention=f"{__name__}:COSINE")
    params, b = parameters(config, scale=0.3), on_device(batch(pairs()))
    assert set(params["attention"]) == {"W", "scale"}
    step = compiled(jax.value_and_grad(lambda params: sums(config, params, b).loss))
    first, gradient = step(params)
    for name in ("W", "scale"):
        assert np.isfinite(gradient["attention"][name]).all()
        assert np.abs(gradient["attention"][name]).max() > 1e-6
    for _ in range(5):
        params = jax.tree.map(lambda p, g: p - 0.02 * g, params, gradient)
        loss, gradient = step(params)
    assert loss < 0.9 * first


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aditive", "'aditive'; known: additive, additive_coverage, .*or module:attribute"),
        (
            "no_such_module:SCORE",
            "'no_such_module:SCORE', but ModuleNotFoundError: No module",
        ),
        (
            f"{__name__}:MISSING",
            "MISSING', but AttributeError: .* no attribute 'MISSING'",
        ),
        (f"{__name__}:LARGE", "LARGE', which is a dict; expected a Score"),
    ],
)
def test_unknown_scores(name, message):
    with pytest.raises(ValueError, match=message):
        score_named(name)
