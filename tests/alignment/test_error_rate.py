"""Error rates against cases worked by hand, and invariants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.alignment.error_rate import aer, alignment_scores

LINKS = st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)
CORPUS = st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=5)


def test_aer_by_hand():
    # A = {00, 11, 22}, S = {00, 12}, P adds {11}: 1 - (1 + 2) / (3 + 2).
    predicted, sure = [{(0, 0), (1, 1), (2, 2)}], [{(0, 0), (1, 2)}]
    result = alignment_scores(predicted, sure, [{(1, 1)}])
    assert result == pytest.approx((2 / 5, 2 / 3, 1 / 2))
    assert aer(predicted, sure, [{(1, 1)}]) == result.aer


def test_aer_sums_over_sentences_before_it_divides():
    # The first sentence perfect with one link, the second all wrong with three:
    # 1 - 2 / (4 + 4), where the mean of the sentences' rates would be 1/2.
    right, wrong = {(0, 0)}, {(0, 1), (1, 2), (2, 0)}
    gold = {(0, 0), (1, 1), (2, 2)}
    assert aer([right, wrong], [right, gold], [right, gold]) == pytest.approx(3 / 4)


@given(CORPUS)
def test_scores_lie_between_0_and_1_and_sure_counts_as_possible(corpus):
    predicted, sure, possible = zip(*corpus, strict=True)
    result = alignment_scores(predicted, sure, possible)
    assert all(0 <= value <= 1 for value in result)
    both = [s | p for s, p in zip(sure, possible, strict=True)]
    assert result == alignment_scores(predicted, sure, both)


@given(CORPUS)
def test_anything_between_sure_and_possible_is_perfect(corpus):
    _, sure, possible = zip(*corpus, strict=True)
    both = [s | p for s, p in zip(sure, possible, strict=True)]
    assert alignment_scores(sure, sure, possible) == (0, 1, 1)
    assert alignment_scores(both, sure, possible) == (0, 1, 1)


@given(CORPUS)
def test_with_sure_links_alone_aer_is_one_minus_f1(corpus):
    predicted, sure, _ = zip(*corpus, strict=True)
    result = alignment_scores(predicted, sure, sure)
    if any(predicted) and any(sure) and result.precision + result.recall:
        f1 = 2 * result.precision * result.recall / (result.precision + result.recall)
        assert result.aer == pytest.approx(1 - f1)


def test_aer_wants_as_many_sentences_of_each():
    with pytest.raises(ValueError, match="1 predicted, 2 sure, 1 possible"):
        aer([set()], [set(), set()], [set()])
    with pytest.raises(ValueError, match="at least one"):
        aer([], [], [])
