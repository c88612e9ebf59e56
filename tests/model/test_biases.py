"""Biases: their sum with every position, and its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.model.parameters import add_bias
from tests.model.worlds import equations

# The shapes of x and b, and the axes of x that b does not have.
SHAPES = [((7, 3, 5), (5,), (0, 1)), ((2, 7, 3, 5), (2, 5), (1, 2)), ((3, 5), (3, 5), ())]


@pytest.mark.parametrize(("shape", "of_bias", "axes"), SHAPES)
def test_a_bias_is_added_at_every_position_and_its_gradient_is_the_sum_over_them(
    shape, of_bias, axes
):
    x, d_x, d, b, d_b = (
        jnp.asarray(np.random.default_rng(i).normal(size=size), jnp.float32)
        for i, size in enumerate([shape] * 3 + [of_bias] * 2)
    )
    found, tangent = jax.jvp(add_bias, (x, b), (d_x, d_b))
    np.testing.assert_array_equal(found, x + np.expand_dims(b, axes))
    np.testing.assert_allclose(tangent, d_x + np.expand_dims(d_b, axes), rtol=1e-6)
    of_x, of_b = jax.vjp(add_bias, x, b)[1](d)
    np.testing.assert_array_equal(of_x, d)
    np.testing.assert_allclose(of_b, np.asarray(d, np.float64).sum(axes), rtol=1e-5, atol=1e-6)


def test_a_vmapped_bias_has_the_gradients_of_each():
    x, d = jnp.asarray(np.random.default_rng(1).normal(size=(2, 4, 7, 3, 5)), jnp.float32)
    b = jnp.zeros((4, 5))
    found = jax.vmap(lambda x, b, d: jax.vjp(add_bias, x, b)[1](d)[1])(x, b, d)
    np.testing.assert_allclose(found, d.sum((1, 2)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("platform", "summed"), [("cpu", False), ("gpu", True)])
def test_a_cpu_multiplies_with_ones_where_a_gpu_sums(platform, summed, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    x, b = jnp.zeros((7, 3, 5)), jnp.zeros(5)
    program = jax.make_jaxpr(lambda x, b, d: jax.vjp(add_bias, x, b)[1](d))(x, b, x).jaxpr
    names = [equation.primitive.name for equation in equations(program)]
    assert ("dot_general" in names) is not summed
    assert ("reduce_sum" in names) is summed
