"""The forms of the model that only accelerators use, on a CPU, beside those of a CPU.

`make accelerator` compares the results of a real GPU or TPU.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.model import loss as loss_module
from bahdanau_jax.model import recurrence
from bahdanau_jax.model.loss import sums
from bahdanau_jax.model.matrix_products import ALIGNED, matmul, repeated, rounded
from tests.model.worlds import (
    CONFIGS,
    batch,
    each,
    equations,
    on_device,
    pairs,
    parameters,
    relative,
)

# More target positions than a block of deferred steps has, and no multiple of it.
BATCH = on_device(batch(pairs(count=7), 2, 12, 1))


@pytest.fixture
def by_each(monkeypatch):
    """A function that calls another as a CPU does, and then as an accelerator does."""

    def both(function):
        ours = function()
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        return ours, function()

    return both


def gradients(config, params, smoothing=0.0):
    """Compiled anew, since a program that exists already would be used again."""

    def program(params):
        found = sums(config, params, BATCH, smoothing=smoothing)
        return found.loss, found

    return jax.jit(jax.value_and_grad(program, has_aux=True))(params)


@pytest.mark.parametrize("name", each("default", "coverage"))
def test_every_variant_has_the_gradients_of_a_cpu(name, by_each):
    config = CONFIGS[name]
    with jax.enable_x64(True):
        params = parameters(config, np.float64)
        cpu, accelerator = by_each(lambda: gradients(config, params, smoothing=0.1))
    for ours, theirs in zip(*map(jax.tree.leaves, (accelerator, cpu)), strict=True):
        assert relative(ours, theirs) <= 1e-12


def test_no_step_of_an_accelerator_sums_the_gradient_of_keys(monkeypatch):
    """Keys [B, S, A] are carried through the backward loop of a CPU, where they are summed."""
    config, (rows, positions) = CONFIGS["default"], BATCH.source.shape
    params = jax.tree.map(jnp.asarray, parameters(config))
    keys, steps = (rows, positions, config.alignment_size), BATCH.target.shape[1]

    def sizes():
        program = jax.make_jaxpr(lambda: gradients(config, params))().jaxpr
        loops = [e for e in equations(program) if e.primitive.name == "scan"]
        assert any(loop.params["length"] == steps for loop in loops)
        return {
            loop.params["length"]
            for loop in loops
            if keys in [v.aval.shape for v in loop.outvars[: loop.params["num_carry"]]]
        }

    assert sizes() == {steps}
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.clear_caches()
    assert sizes() == {-(-steps // recurrence.BLOCK)}


@pytest.mark.parametrize("smoothing", each(0.1, of=[0.0, 0.1]))
def test_bfloat16_products_of_odd_sizes_are_those_of_a_cpu(smoothing, by_each):
    """All sizes of these models are odd, also those of the vocabularies."""
    config = dataclasses.replace(CONFIGS["default"], compute_dtype="bfloat16")
    sizes = config.target_vocabulary, config.embedding_size, config.readout_size
    assert all(size % ALIGNED for size in sizes)
    cpu, accelerator = by_each(lambda: gradients(config, parameters(config), smoothing))
    for ours, theirs in zip(*map(jax.tree.leaves, (accelerator, cpu)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-2, atol=2e-3)
    assert accelerator[0][0] == pytest.approx(float(cpu[0][0]), rel=1e-5)


def test_rows_of_the_output_layer_fill_units_of_16_bytes(monkeypatch):
    """In the paper's sizes, with a chunk of words that is no multiple of 8."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    t, W_o = jax.ShapeDtypeStruct((7, 9, 500), jnp.float32), (500, 30_001)

    def gradient(t, W_o, b_w, target, weight):
        found = loss_module.cross_entropy(0.0, "bfloat16", t, W_o, b_w, target, weight)
        return found.loss

    shapes = [t, W_o, W_o[1:], jax.ShapeDtypeStruct((7, 9), jnp.int32), (7, 9)]
    given = [jax.ShapeDtypeStruct(x, jnp.float32) if isinstance(x, tuple) else x for x in shapes]
    program = jax.make_jaxpr(jax.grad(gradient, argnums=(0, 1, 2)))(*given).jaxpr
    dots = [e for e in equations(program) if e.primitive.name == "dot_general"]
    sizes = [v.aval.shape for e in dots for v in e.invars if v.aval.dtype == jnp.bfloat16]
    assert len(sizes) == 6
    # The rows of t and of its transposition, of W_o and of the gradient of the logits.
    assert all(shape[-1] % ALIGNED == 0 for shape in sizes), sizes


def test_a_chunk_of_an_accelerator_has_a_multiple_of_8_words(monkeypatch):
    t, one = jnp.ones((7, 9, 5)), jnp.ones((7, 9))
    assert loss_module._chunks(t, one, one, 100)[0].shape == (1, 63, 5)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    rows, _, weight = loss_module._chunks(t, one, one, 100)
    assert rows.shape == (1, 64, 5) and weight.sum() == 63


def test_a_padded_product_is_the_product(monkeypatch):
    rng = np.random.default_rng(5)
    x, weight = rng.normal(size=(3, 2, 13)), rng.normal(size=(13, 8))
    x, weight = jnp.asarray(x, jnp.float32), jnp.asarray(weight, jnp.float32)
    cpu = matmul("bfloat16", x, weight)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    of_loop = rounded("bfloat16", {"W": weight})["W"]
    assert of_loop.shape == (16, 8) and of_loop.dtype == jnp.bfloat16
    np.testing.assert_allclose(matmul("bfloat16", x, of_loop), cpu, rtol=1e-6)
    assert rounded("float32", {"W": weight})["W"].shape == (13, 8)


@pytest.mark.parametrize(
    ("positions", "summed"), [(1, 1), (4, 1), (7, 7), (30, 5), (35, 7), (50, 10)]
)
def test_the_gradient_of_a_repeated_query_adds_groups_of_positions(positions, summed, monkeypatch):
    rng = np.random.default_rng(positions)
    x, d = (jnp.asarray(rng.normal(size=(2, n, 3)), jnp.float32) for n in (1, positions))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def gradient(x, d):
        rows, pull = jax.vjp(lambda x: repeated(x, d), x)
        return rows, *pull(d)

    rows, total = gradient(x[:, 0], d)
    np.testing.assert_array_equal(rows, np.broadcast_to(x, d.shape))
    np.testing.assert_allclose(total, np.sum(d, axis=1), rtol=1e-5, atol=1e-6)
    program = jax.make_jaxpr(gradient)(x[:, 0], d).jaxpr
    reduced = [
        e.invars[0].aval.shape for e in equations(program) if "reduce_sum" in str(e.primitive)
    ]
    assert [shape for shape in reduced if shape[1:] == (summed, 3)] == [(2, summed, 3)]
