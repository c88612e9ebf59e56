"""Links, merged weights, entropy and coverage against cases worked by hand, and invariants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.alignment.linking import (
    coverage,
    diagonal,
    entropy,
    links,
    links_above,
    merge_pieces,
    share,
)

# Two target words and EOS over three source words and EOS, so that swapped axes fail.
ALPHA = np.array(
    [
        [0.1, 0.2, 0.6, 0.1],
        [0.5, 0.3, 0.1, 0.1],
        [0.0, 0.4, 0.0, 0.6],
    ],
    np.float32,
)


def membership(groups):
    """For each word its pieces [W, P], from the number of each piece's word."""
    numbers = np.asarray(groups, np.int64)
    return np.arange(numbers.max() + 1)[:, None] == numbers


def test_links_are_source_first_and_drop_both_eos():
    assert links(ALPHA) == {(2, 0), (0, 1)}


def test_a_word_that_looks_at_source_eos_is_linked_by_its_next_look_or_not_at_all():
    three_words = ALPHA[[0, 1, 2, 2]]
    assert links(three_words) == {(2, 0), (0, 1), (1, 2)}
    assert links(three_words, eos="none") == {(2, 0), (0, 1)}


def test_links_of_ties_zeros_and_nothing():
    assert links(np.array([[0.3, 0.3, 0.4], [0, 0, 1], [0, 0, 1]])) == {(0, 0)}
    assert links(np.ones((1, 1))) == frozenset()
    assert links(np.ones((3, 1))) == links(np.ones((3, 1)), eos="none") == frozenset()
    assert links(np.zeros((3, 0))) == links(np.zeros((0, 3))) == frozenset()


def test_links_want_a_finite_matrix():
    with pytest.raises(ValueError, match="alpha has NaN or infinity: the model may have diverged"):
        links(np.array([[0.5, np.nan]]))
    with pytest.raises(ValueError, match=r"a matrix \[T, S\], not of shape \(3,\)"):
        links(np.ones(3))


def test_links_are_plain_integers():
    for found in (links(ALPHA), links_above(ALPHA, 0.1)):
        assert {type(index) for link in found for index in link} == {int}


def test_every_weight_at_or_above_the_threshold_is_a_link():
    assert links_above(ALPHA, 0.55) == {(2, 0)}
    assert links_above(ALPHA, 0.5) == {(2, 0), (0, 1)}  # at the threshold counts
    assert links_above(ALPHA, 0.2) == {(1, 0), (2, 0), (0, 1), (1, 1)}
    assert links_above(ALPHA[[0, 1, 2, 2]], 0.4) == {(2, 0), (0, 1), (1, 2)}
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            links_above(ALPHA, wrong)


def test_diagonal_by_hand():
    assert diagonal(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal(4, 2) == {(1, 0), (3, 1)}
    assert diagonal(1, 3) == {(0, 0), (0, 1), (0, 2)}
    assert diagonal(0, 3) == diagonal(3, 0) == frozenset()


@given(st.integers(1, 60), st.integers(1, 60))
def test_diagonal_is_monotone_and_gives_each_target_word_one_link(source, target):
    ordered = sorted(diagonal(source, target), key=lambda link: link[1])
    assert [t for _, t in ordered] == list(range(target))
    sources = [s for s, _ in ordered]
    assert sources == sorted(sources) and sources[0] >= 0 and sources[-1] < source


def test_merge_pieces_by_hand():
    merged = merge_pieces(ALPHA, membership([0, 1, 1, 2]), membership([0, 0, 1]))
    np.testing.assert_allclose(merged, [[0.3, 0.6, 0.1], [0, 0.4, 0.6]], atol=1e-6)


def test_a_piece_of_two_words_is_shared_in_the_source_and_counts_for_both_in_the_target():
    # Piece 1 belongs to words 1 and 2 of the source; piece 0 to words 0 and 1 of the target, and
    # word 2 of the target has no piece.
    source = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], bool)
    target = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]], bool)
    expected = [
        [0.1, 0.1, 0.7, 0.1],
        [0.3, 0.125, 0.475, 0.1],
        [0, 0, 0, 0],
        [0, 0.2, 0.2, 0.6],
    ]
    np.testing.assert_allclose(merge_pieces(ALPHA, source, target), expected, atol=1e-6)


def test_whole_words_merge_to_themselves():
    merged = merge_pieces(ALPHA, membership(range(4)), membership(range(3)))
    np.testing.assert_array_equal(merged, ALPHA)


@given(st.lists(st.integers(0, 1), max_size=5), st.lists(st.integers(0, 1), max_size=7))
def test_merged_rows_still_sum_to_one(target_steps, source_steps):
    target, source = np.cumsum([0, *target_steps]), np.cumsum([0, *source_steps])
    alpha = np.random.default_rng(2).dirichlet(np.ones(len(source)), len(target))
    merged = merge_pieces(alpha, membership(source), membership(target))
    assert merged.shape == (target[-1] + 1, source[-1] + 1)
    np.testing.assert_allclose(merged.sum(axis=1), 1)


def test_words_must_fit_alpha():
    with pytest.raises(ValueError, match="target words over 2 pieces, but alpha has 3"):
        merge_pieces(ALPHA, membership([0, 1, 2, 3]), membership([0, 1]))
    with pytest.raises(ValueError, match="source words over 3 pieces, but alpha has 4"):
        merge_pieces(ALPHA, membership([0, 1, 2]), membership([0, 1, 2]))


def test_entropy_is_0_for_one_look_and_largest_for_all():
    alpha = np.array([[0, 1, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]])
    np.testing.assert_allclose(entropy(alpha), [0, np.log(3), np.log(2)], atol=1e-12)


def test_coverage_sums_what_each_source_position_got():
    np.testing.assert_allclose(coverage(ALPHA), [0.6, 0.9, 0.7, 0.8], atol=1e-6)


def test_a_share_is_of_the_looks_of_target_words_alone():
    expected = ALPHA[:2] / (ALPHA[0] + ALPHA[1])
    np.testing.assert_allclose(share(ALPHA)[:2], expected, atol=1e-6)
    np.testing.assert_allclose(share(ALPHA)[:2].sum(axis=0), 1)


def test_an_article_that_looks_at_its_noun_gives_way_to_it():
    # Both target words look at source word 1 most; the first of them less than the second.
    alpha = np.array([[0.4, 0.6, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    assert links(alpha) == {(1, 0), (1, 1)}
    assert links(share(alpha)) == {(0, 0), (1, 1)}


def test_a_source_word_that_nobody_looks_at_has_no_share():
    alpha = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(share(alpha)[0], [1, 0, 0])
    assert np.isfinite(share(alpha)).all()


def test_an_unknown_rule_for_eos_is_refused():
    with pytest.raises(ValueError, match="no rule for EOS 'nxt'.*did you mean 'next'"):
        links(np.eye(3), eos="nxt")
