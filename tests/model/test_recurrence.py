"""The scan with deferred weight gradients."""

import jax
import jax.numpy as jnp
import pytest

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
