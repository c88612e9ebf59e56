"""Products of rounded factors: values, gradients, and their places in the model."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from bahdanau_jax.model.loss import sums
from bahdanau_jax.model.matrix_products import matmul
from bahdanau_jax.model.recurrence import GRADIENTS
from tests.model.worlds import CONFIGS, batch, compiled, equations, on_device, pairs, parameters

BOTH = [((7, 3, 5), (5, 4)), ((3, 7, 5), (3, 5, 4))]


def rounded(x):
    return np.asarray(jnp.asarray(x, jnp.float32).astype(jnp.bfloat16), np.float64)


@pytest.mark.parametrize(("left", "right"), BOTH)
def test_factors_are_rounded_and_sums_are_not(left, right):
    rng = np.random.default_rng(0)
    x, weight = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in (left, right))
    found, pullback = jax.vjp(lambda x, w: matmul("bfloat16", x, w), x, weight)
    d = jnp.asarray(rng.normal(size=found.shape), jnp.float32)
    d_x, d_weight = pullback(d)
    spec = "...i,io->...o" if weight.ndim == 2 else "bni,bio->bno"
    gradients = (
        ("...o,io->...i", "tbi,tbo->io") if weight.ndim == 2 else ("bno,bio->bni", "bni,bno->bio")
    )
    X, W, D = map(rounded, (x, weight, d))
    for got, expected in (
        (found, np.einsum(spec, X, W)),
        (d_x, np.einsum(gradients[0], D, W)),
        (d_weight, np.einsum(gradients[1], X, D)),
    ):
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    exact = np.einsum(spec, np.asarray(x, np.float64), np.asarray(weight, np.float64))
    assert 1e-3 < np.abs(np.asarray(found) - exact).max() < 0.1


def test_float32_is_the_plain_product():
    x, weight = jnp.ones((3, 5)), jnp.ones((5, 4))
    program = jax.make_jaxpr(lambda x, w: matmul("float32", x, w))(x, weight)
    assert str(program) == str(jax.make_jaxpr(lambda x, w: x @ w)(x, weight))


def dots(jaxpr):
    """(types of both factors, type of the result, shape of the second factor) of every product."""
    for equation in equations(jaxpr):
        if equation.primitive.name == "dot_general":
            a, b = (v.aval for v in equation.invars)
            yield (str(a.dtype), str(b.dtype), str(equation.outvars[0].aval.dtype)), b.shape


@pytest.mark.parametrize("name", ["default", "groundhog", "tied"])
@pytest.mark.parametrize("gradients", ["deferred", "autodiff"])
def test_every_product_of_an_update_is_rounded_but_the_energies(name, gradients):
    config = dataclasses.replace(CONFIGS[name], compute_dtype="bfloat16", gradients=gradients)
    params = jax.tree.map(jnp.asarray, parameters(config))
    b = on_device(batch(pairs()))
    program = jax.make_jaxpr(jax.grad(lambda p: sums(config, p, b).loss))(params)
    found = list(dots(program.jaxpr))
    other = [shape for types, shape in found if types != ("bfloat16", "bfloat16", "float32")]
    assert len(found) > 20 and len(other) < len(found) / 3
    assert all(config.alignment_size in shape or len(shape) < 3 for shape in other), other


def canonical(equation) -> bool:
    """Whether a product is [rows, inner] times [inner, columns], or has more axes than these.

    XLA on a CPU puts the latter into that form, and makes all others float32.
    """
    (left, right), (batch, _) = equation.params["dimension_numbers"]
    ranks = [v.aval.ndim - len(batch) for v in equation.invars]
    return ranks != [2, 2] or (left, right) == ((len(batch) + 1,), (len(batch),))


@pytest.mark.parametrize("name", ["default", "tied"])
def test_a_cpu_rounds_the_products_of_loops_and_of_weight_gradients(name):
    config = dataclasses.replace(CONFIGS[name], compute_dtype="bfloat16")
    params = jax.tree.map(jnp.asarray, parameters(config))
    b = on_device(batch(pairs()))
    program = jax.make_jaxpr(jax.grad(lambda p: sums(config, p, b).loss))(params).jaxpr

    def compute_dtype(jaxpr):
        for equation in equations(jaxpr):
            a = equation.invars[0].aval if equation.primitive.name == "dot_general" else None
            if a is not None and a.dtype == jnp.bfloat16:
                yield equation

    loops = [e for e in equations(program) if e.primitive.name in ("scan", "while")]
    bodies = [body for loop in loops for body in jaxprs_in_params(loop.params)]
    inside = [equation for body in bodies for equation in compute_dtype(body)]
    # Less one: d of the logits times W_oᵀ is as fast with float32 products, and needs no copy.
    words = config.target_vocabulary
    read_twice = lambda e: [v.aval.shape[-1] for v in e.invars] == [words, words]  # noqa: E731
    assert sum(map(read_twice, inside)) == 1
    inside = [equation for equation in inside if not read_twice(equation)]
    assert len(inside) > 10
    wrong = [equation for equation in inside if not canonical(equation)]
    wrong += [  # a matrix that is turned here becomes part of the product
        e
        for body in bodies
        for e in equations(body)
        if e.primitive.name == "transpose" and e.invars[0].aval.ndim == 2
    ]
    firsts = [e for e in compute_dtype(program) if e.params["dimension_numbers"][0][0] == (0,)]
    assert not wrong and all(e.invars[0].aval.ndim > 2 for e in firsts), (wrong, firsts)


@pytest.mark.parametrize("name", ["default", "tied"])
def test_no_weight_is_rounded_again_in_every_turn_of_a_loop(name):
    config = dataclasses.replace(CONFIGS[name], compute_dtype="bfloat16")
    params = jax.tree.map(jnp.asarray, parameters(config))
    b = on_device(batch(pairs(count=31)))  # a number that no size of the model is
    program = jax.make_jaxpr(jax.grad(lambda p: sums(config, p, b).loss))(params).jaxpr
    loops = [e for e in equations(program) if e.primitive.name in ("scan", "while")]
    shapes = [
        e.invars[0].aval.shape
        for loop in loops
        for body in jaxprs_in_params(loop.params)
        for e in equations(body)
        if e.primitive.name == "convert_element_type" and e.params["new_dtype"] == jnp.bfloat16
    ]
    words = b.target.size
    assert len(shapes) > 5
    assert all(31 in shape or words in shape for shape in shapes), shapes


def distance(a, b) -> float:
    """‖a − b‖ / ‖b‖ over all leaves together."""
    norm = lambda tree: np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(tree)))  # noqa: E731
    return norm(jax.tree.map(jnp.subtract, a, b)) / norm(b)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("default", 0.03),
        pytest.param("groundhog", 0.03, marks=pytest.mark.slow),
        pytest.param("luong", 0.03, marks=pytest.mark.slow),
        pytest.param("conditional", 0.03, marks=pytest.mark.slow),
        pytest.param("local_p", 0.1, marks=pytest.mark.slow),
        pytest.param("tied", 0.03, marks=pytest.mark.slow),
    ],
)
def test_loss_and_gradients_are_near_and_keep_their_type(name, limit):
    b = on_device(batch(pairs(), 2, 1, fillers=1))
    params = jax.tree.map(jnp.asarray, parameters(CONFIGS[name]))

    def measured(compute_dtype, gradients):
        config = dataclasses.replace(
            CONFIGS[name], compute_dtype=compute_dtype, gradients=gradients
        )
        return compiled(jax.value_and_grad(lambda p: sums(config, p, b).loss))(params)

    loss, gradient = measured("float32", "deferred")
    ways = [measured("bfloat16", way) for way in GRADIENTS]
    for near, rough in ways:
        assert loss != near and abs(near / loss - 1) < 5e-3
        assert 1e-4 < distance(rough, gradient) < limit
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(rough))
    assert distance(ways[0][1], ways[1][1]) < 1e-3  # the same roundings in another order
