"""Counts of operations, compared with those that JAX and XLA count in the programs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bahdanau_jax as bj
from benchmarks import sizes, updates
from benchmarks.peers import plain

SIZE = sizes.Size(V=53, m=11, n=17, a=13, l=7, B=3, S=5, T=4)


def multiplications(jaxpr) -> int:
    """The operations of all matrix products of a program, for every iteration of its loops."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += math.prod(equation.outvars[0].aval.shape) * math.prod(
                left[i] for i in contracted
            )
        turns = equation.params["length"] if equation.primitive.name == "scan" else 1
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(inner):
                total += turns * multiplications(getattr(inner, "jaxpr", inner))
    return total


def _is_jaxpr(value) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


@pytest.fixture(scope="module")
def problem():
    config = updates.architecture(SIZE)
    return config, updates.parameters(config), updates.random_batch(SIZE)


@pytest.mark.slow
def test_the_count_is_that_of_plain_autodiff_to_the_last_product(problem):
    _, params, batch = problem
    program = jax.make_jaxpr(jax.value_and_grad(plain.loss))(params, batch)
    assert 2 * multiplications(program.jaxpr) == sizes.flops(SIZE)


@pytest.mark.slow
def test_ours_makes_no_fewer_products_and_hardly_more(problem):
    config, params, batch = problem
    state, step, *_ = updates.ours(config, params)
    made = 2 * multiplications(step.trace(state, batch).jaxpr.jaxpr)
    again = SIZE.B * 2 * SIZE.S * SIZE.T * SIZE.a  # energies, which the backward pass makes anew
    _, _, n, _, l, B, S, T = SIZE  # noqa: E741
    # Gradients of the biases of the output, encoder, decoder, readout and initial state are
    # products with ones.
    biases = B * 2 * (T * SIZE.V + 2 * S * 3 * n + T * 3 * n + T * 2 * l + n)
    assert sizes.flops(SIZE) + biases <= made <= sizes.flops(SIZE) + biases + 2 * again


def test_the_cost_analysis_of_xla_finds_as_much():
    """XLA counts the body of a loop once, so the lengths are 1; other operations are few.

    The one word before is none, so that its products W y and V_o y give it no gradient.
    """
    size = sizes.Size(V=160, m=96, n=96, a=96, l=96, B=16, S=1, T=1)
    config = updates.architecture(size)
    params = jax.eval_shape(lambda: updates.parameters(config))
    lowered = jax.jit(jax.value_and_grad(plain.loss)).lower(params, updates.random_batch(size))
    none = size.B * 2 * (3 * size.m * size.n + 2 * size.m * size.l)
    assert 1 <= lowered.cost_analysis()["flops"] / (sizes.flops(size) - none) < 1.05


def test_the_paper_needs_254_million_operations_a_word():
    for size in sizes.SIZES["paper"]:
        assert 253e6 < sizes.flops(size) / (size.B * size.T) < 255e6


def test_only_the_attention_is_made_for_pairs_of_positions():
    def beyond(size):
        """The cost of doubling both lengths beyond that of doubling each: 2·2 − 2 − 2 + 1 = 1."""
        counts = [sizes.flops(size._replace(S=i * size.S, T=j * size.T)) for i, j in CORNERS]
        return counts[3] - counts[1] - counts[2] + counts[0]

    assert beyond(SIZE) == sizes.pairwise(SIZE) == SIZE.B * 6 * SIZE.S * SIZE.T * (13 + 2 * 17)


CORNERS = ((1, 1), (2, 1), (1, 2), (2, 2))


@pytest.mark.slow
def test_plain_jax_computes_our_loss_and_gradients_also_of_padded_rows(problem):
    config, params, batch = problem
    source_mask = np.arange(SIZE.S) < np.array([[5], [3], [1]])
    target_mask = np.arange(SIZE.T) < np.array([[2], [4], [3]])
    batch = batch._replace(source_mask=source_mask, target_mask=target_mask)
    batch = jax.tree.map(jnp.asarray, batch)
    theirs = jax.jit(jax.value_and_grad(plain.loss))(params, batch)
    ours = jax.jit(jax.value_and_grad(bj.loss, argnums=1), static_argnums=0)(config, params, batch)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
def test_plain_jax_makes_our_updates(problem):
    """Equal losses of the same batch, update after update: clipping and Adadelta are the same."""
    config, params, batch = problem
    losses = []
    for program in (updates.ours, updates.simple):
        state, step, loss, *_ = program(config, jax.tree.map(jnp.copy, params))
        found = []
        for _ in range(4):
            state, result = step(state, batch)
            found.append(float(loss(result)))
        losses.append(found)
    assert losses[0][3] < losses[0][0] - 1e-3
    np.testing.assert_allclose(*losses, rtol=1e-5)
