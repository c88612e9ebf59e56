import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.data.batches.bucket_shapes import choose, place

quick = settings(max_examples=100, deadline=None)
any_extents = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=80
).map(np.array)


def cost(extents, shapes):
    """The oracle, a loop: all positions where each extent gets its cheapest shape."""
    return sum(
        min(s + t for s, t in shapes if source <= s and target <= t) for source, target in extents
    )


@given(extents=any_extents, most=st.integers(1, 9))
@quick
def test_cells_are_few_and_the_last_holds_everything(extents, most):
    shapes = choose(extents, most)
    assert 1 <= len(shapes) <= most
    assert len(set(shapes)) == len(shapes)
    assert shapes[-1] == tuple(extents.max(0))
    assert [sum(shape) for shape in shapes] == sorted(sum(shape) for shape in shapes)
    assert choose(extents, most) == shapes


@given(extents=any_extents, most=st.integers(1, 6))
@quick
def test_no_exchange_of_one_cell_is_better(extents, most):
    shapes = choose(extents, most)
    corners = list(itertools.product(*(sorted(set(side.tolist())) for side in extents.T)))
    least = cost(extents, shapes)
    for i in range(len(shapes) - 1):
        for other in corners:
            assert cost(extents, [*shapes[:i], other, *shapes[i + 1 :]]) >= least
    if len(shapes) < most:
        assert least == extents.sum()


@given(
    extents=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=7).map(
        np.array
    ),
    most=st.integers(1, 3),
)
@quick
def test_against_all_choices(extents, most):
    """Exchanges of single shapes find the best choice, or one within a tenth of it."""
    corners = list(itertools.product(*(sorted(set(side.tolist())) for side in extents.T)))
    top = tuple(extents.max(0))
    choices = itertools.combinations_with_replacement(corners, most - 1)
    best = min(cost(extents, [top, *some]) for some in choices)
    assert best <= cost(extents, choose(extents, most)) <= 1.1 * best


def test_enough_cells_pad_nothing():
    extents = np.array([(s, t) for s in range(1, 5) for t in range(3, 6)])
    assert set(choose(extents, 100)) == {tuple(extent) for extent in extents.tolist()}


@pytest.mark.slow
def test_more_cells_pad_less():
    extents = np.random.default_rng(0).integers(1, 50, (5_000, 2))
    costs = [cost(extents, choose(extents, most)) for most in (1, 2, 6, 12, 24)]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == 5


def test_one_very_long_pair_costs_one_cell():
    extents = np.vstack([np.random.default_rng(0).integers(1, 30, (2_000, 2)), [[9_000, 4]]])
    shapes = choose(extents, 8)
    assert [shape for shape in shapes if shape[0] > 30] == [(9_000, 29)]


def test_many_different_lengths_are_rounded_up():
    extents = np.random.default_rng(0).integers(1, 3_000, (4_000, 2))
    shapes = choose(extents, 12)
    assert shapes[-1] == tuple(extents.max(0))
    assert (extents <= np.array(shapes)[place(extents, shapes)]).all()


def test_a_larger_last_cell():
    assert choose(np.array([[2, 3]]), 3, (9, 9)) == ((2, 3), (9, 9))


@given(extents=any_extents, most=st.integers(1, 9))
@quick
def test_each_gets_its_cheapest_cell(extents, most):
    shapes = choose(extents, most)
    for (source, target), i in zip(extents.tolist(), place(extents, shapes), strict=True):
        fitting = [sum(c) for c in shapes if source <= c[0] and target <= c[1]]
        assert source <= shapes[i][0] and target <= shapes[i][1]
        assert sum(shapes[i]) == min(fitting)


def test_nothing_to_hold():
    assert choose(np.zeros((0, 2), int), 3) == ()
    with pytest.raises(ValueError, match="no shape of .* holds 5 source, 2 target tokens"):
        place(np.array([[5, 2]]), [(4, 4)])
