"""The scan with deferred weight gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from bahdanau_jax.model import recurrence

WEIGHTS = {"U": jnp.eye(3) / 2}
INPUTS = jnp.ones((5, 2, 3))


def twice(dot, rest, carry, x):
    h = jnp.tanh(dot("U", carry) + x)
    return jnp.tanh(dot("U", h)), None


def last(weights, gradients):
    carries, _ = recurrence.scan(twice, weights, None, jnp.zeros((2, 3)), INPUTS, gradients)
    return jnp.sum(carries[-1])


def test_a_weight_used_twice_in_a_step_has_no_deferred_gradient():
    """One product is stored for each weight: the second would replace the first."""
    assert last(WEIGHTS, "deferred") == last(WEIGHTS, "autodiff")
    assert jnp.any(jax.grad(last)(WEIGHTS, "autodiff")["U"] != 0)
    with pytest.raises(ValueError, match="twice with the weight 'U'.*autodiff"):
        jax.grad(last)(WEIGHTS, "deferred")


def of_vector(matrix, places, operand):
    """A function in place of a product, which has no gradient at an operand of zeros."""
    unit = operand / jnp.linalg.norm(operand, axis=-1, keepdims=True)
    return jnp.tanh(unit @ matrix)[:, places] ** 2


def scored(dot, rest, carry, x):
    return jnp.tanh(dot("f", dot("U", carry)) + rest * x), carry


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 5, recurrence.BLOCK, recurrence.BLOCK + 3])
def test_a_function_in_place_of_a_product_has_its_gradients(steps):
    with jax.enable_x64(True):
        rng = np.random.default_rng(steps)
        U, matrix, x, start = (
            jnp.asarray(rng.normal(size=shape)) for shape in ((3, 4), (4, 3), (steps, 2, 3), (2, 3))
        )

        def total(gradients, U, matrix, rest):
            weights = {"U": U, "f": Partial(of_vector, matrix, jnp.array([2, 0, 1]))}
            carries, outputs = recurrence.scan(scored, weights, rest, start, x, gradients)
            return jnp.sum(carries**3) + jnp.sum(outputs**2)

        found, expected = (
            jax.grad(total, argnums=(1, 2, 3))(way, U, matrix, 0.5)
            for way in ("deferred", "autodiff")
        )
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
