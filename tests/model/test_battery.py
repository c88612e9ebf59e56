"""Properties of every pure function of the model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.model import encode, start
from bahdanau_jax.model.decoder import stepper, teacher_force
from bahdanau_jax.model.loss import loss, sums
from tests.model.worlds import (
    CONFIGS,
    batch,
    compiled,
    each,
    on_device,
    pairs,
    parameters,
    relative,
)

# Both have every bias and layer but the gates' biases.
CONFIG, TIED = CONFIGS["groundhog"], CONFIGS["tied"]
TOKENS = np.array([-1, 0, 3, 5, 8, 2], np.int32)


def memory_of(params, b, config=CONFIG):
    return encode(config, params, b.source, b.source_mask)


def step(params, b, config=CONFIG):
    memory = memory_of(params, b, config)
    return stepper(config, params, memory)(jnp.asarray(TOKENS), start(memory))


FUNCTIONS = {
    "encode": memory_of,
    "teacher_force": lambda params, b: teacher_force(
        CONFIG, params, memory_of(params, b), b.target
    ),
    "step": step,
    "sums": lambda params, b: sums(CONFIG, params, b, smoothing=0.1),
    "loss": lambda params, b: loss(CONFIG, params, b),
    "tied step": lambda params, b: step(params, b, TIED),
    "tied sums": lambda params, b: sums(TIED, params, b, smoothing=0.1),
}
COMPILED = {name: compiled(f) for name, f in FUNCTIONS.items()}


def world(name, dtype=np.float32, seed=0):
    b = on_device(batch(pairs(), 2, 1, fillers=1))
    config = TIED if name.startswith("tied") else CONFIG
    return jax.tree.map(jnp.asarray, parameters(config, dtype, seed)), b


def close(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        x, y = (np.asarray(leaf, np.float64) for leaf in (x, y))
        assert np.allclose(x, y, rtol=1e-5, atol=1e-5 * np.abs(y).max())
    assert jax.tree.structure(a) == jax.tree.structure(b)


def compiled_equals_eager(name):
    close(COMPILED[name](*world(name)), FUNCTIONS[name](*world(name)))


def vmap_equals_a_loop(name):
    worlds = [world(name, seed=seed) for seed in (0, 1)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)
    many = compiled(jax.vmap(FUNCTIONS[name]))(*stacked)
    for i, one in enumerate(worlds):
        close(jax.tree.map(lambda leaf, i=i: leaf[i], many), COMPILED[name](*one))


def gradients_are_finite(name):
    def total(params, b):
        leaves = jax.tree.leaves(FUNCTIONS[name](params, b))
        return sum(jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))

    params, b = world(name)
    gradients = compiled(jax.grad(total))(params, b)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))
    assert any(np.any(leaf != 0) for leaf in jax.tree.leaves(gradients))
    assert jax.tree.structure(gradients) == jax.tree.structure(params)


def bfloat16_is_finite_and_of_the_same_structure(name):
    got, full = COMPILED[name](*world(name, jnp.bfloat16)), COMPILED[name](*world(name))
    assert jax.tree.structure(got) == jax.tree.structure(full)
    for a, e in zip(jax.tree.leaves(got), jax.tree.leaves(full), strict=True):
        assert a.shape == e.shape
        assert np.isfinite(np.asarray(a, np.float32)).all()
        assert a.dtype in (jnp.bfloat16, e.dtype)
        assert relative(a, e) < 0.03


def dtypes_are_those_of_the_parameters(name):
    def dtypes(dtype):
        found = jax.eval_shape(FUNCTIONS[name], *world(name, dtype))
        return [leaf.dtype for leaf in jax.tree.leaves(found)]

    single = dtypes(np.float32)
    assert jnp.float32 in single
    for dtype in (jnp.bfloat16, np.float32, np.float64):
        with jax.enable_x64(True):
            under_x64 = dtypes(dtype)
        if dtype is np.float64:
            assert under_x64 == [np.float64 if d == np.float32 else d for d in single]
        else:
            assert under_x64 == dtypes(dtype)


PROPERTIES = {
    property.__name__: property
    for property in (
        compiled_equals_eager,
        vmap_equals_a_loop,
        gradients_are_finite,
        bfloat16_is_finite_and_of_the_same_structure,
        dtypes_are_those_of_the_parameters,
    )
}


@pytest.mark.parametrize("name", each("encode", "step", "loss", of=FUNCTIONS))
@pytest.mark.parametrize("holds", PROPERTIES.values(), ids=PROPERTIES)
def test_battery(holds, name):
    holds(name)
