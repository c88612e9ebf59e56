"""An update in blocks, compared with the same update at once."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bahdanau_jax.training.blockwise import blockwise

# Of blocks of at most 12: 35 = 5 x 7 numbers, a prime number of them, one block, a scalar.
SHAPES = {"a": (5, 7), "b": {"prime": (97,), "small": (3, 4)}, "c": (2, 3, 8), "d": ()}
RULES = {
    "adadelta": optax.chain(optax.scale_by_adadelta(), optax.scale_by_learning_rate(0.5)),
    "adam": optax.adam(optax.linear_schedule(1.0, 0.0, 10)),  # counts its updates
    "none": optax.sgd(0.1),  # has no state
}


def tree(seed):
    rng = np.random.default_rng(seed)
    leaf = lambda shape: jnp.asarray(rng.normal(0, 1, shape), jnp.float32)  # noqa: E731
    return jax.tree.map(leaf, SHAPES, is_leaf=lambda node: isinstance(node, tuple))


def changes(tx):
    def change(gradient, state):
        params, opt_state, average = state
        updates, opt_state = tx.update(gradient, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, jax.tree.map(lambda a, p: 0.9 * a + 0.1 * p, average, params)

    return change


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("size", [1, 12, 1000])
def test_blocks_give_what_the_whole_gives(name, size):
    change = changes(RULES[name])
    state = tree(0), RULES[name].init(tree(0)), tree(1)
    whole = jax.jit(change)
    parts = jax.jit(lambda wanted, *rest: blockwise(wanted, change, *rest, size))
    expected = found = state
    for step in range(3):
        expected, found = whole(tree(step), expected), parts(True, tree(step), found)
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for ours, theirs in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)
        unwanted = parts(False, tree(9), found)
        assert jax.tree.all(jax.tree.map(np.array_equal, unwanted, found))


def test_what_lies_between_takes_the_memory_of_blocks():
    leaf = jax.ShapeDtypeStruct((1000, 1024), jnp.float32)
    tx = RULES["adadelta"]
    state = {"a": leaf}, jax.eval_shape(tx.init, {"a": leaf}), {"a": leaf}

    def planned(size):
        jitted = jax.jit(
            lambda wanted, state, gradient: blockwise(wanted, changes(tx), gradient, state, size),
            donate_argnums=1,
        )
        wanted = jax.ShapeDtypeStruct((), bool)
        return jitted.lower(wanted, state, {"a": leaf}).compile().memory_analysis()

    one = 4 * 1000 * 1024
    assert planned(2**10).temp_size_in_bytes < one / 20
    assert planned(2**30).temp_size_in_bytes > one
