"""Links, error rates and the Pharaoh format against cases worked by hand, and invariants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.evaluation.alignment import (
    aer,
    alignment_scores,
    diagonal,
    format_pharaoh,
    links,
    merge_pieces,
    read_gold,
    read_pharaoh,
)

LINKS = st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)
CORPUS = st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=5)

# Two target words and EOS over three source words and EOS, so that swapped axes fail.
ALPHA = np.array(
    [
        [0.1, 0.2, 0.6, 0.1],
        [0.5, 0.3, 0.1, 0.1],
        [0.0, 0.4, 0.0, 0.6],
    ],
    np.float32,
)


def test_links_are_source_first_and_drop_both_eos():
    assert links(ALPHA) == {(2, 0), (0, 1)}


def test_an_unfinished_hypothesis_keeps_its_last_word():
    looks_at_a_word = ALPHA[[0, 1, 0]]
    assert links(looks_at_a_word) == {(2, 0), (0, 1)}
    assert links(looks_at_a_word, target_eos=False) == {(2, 0), (0, 1), (2, 2)}


def test_a_word_that_looks_at_source_eos_has_no_link():
    assert links(ALPHA, target_eos=False) == {(2, 0), (0, 1)}
    assert links(ALPHA, target_eos=False, source_eos=False) == {(2, 0), (0, 1), (3, 2)}


def test_a_threshold_takes_away_weak_links():
    assert links(ALPHA, 0.55) == {(2, 0)}
    assert links(ALPHA, 0.5) == {(2, 0), (0, 1)}  # at the threshold counts


def test_links_of_ties_zeros_and_nothing():
    assert links(np.array([[0.3, 0.3, 0.3], [0, 0, 0], [0, 0, 1]])) == {(0, 0)}
    assert links(np.ones((1, 1))) == frozenset()
    assert links(np.zeros((3, 0))) == links(np.zeros((0, 3))) == frozenset()


def test_links_want_a_finite_matrix():
    with pytest.raises(ValueError, match="finite matrix"):
        links(np.array([[0.5, np.nan]]))
    with pytest.raises(ValueError, match="finite matrix"):
        links(np.ones(3))


def test_links_are_plain_integers():
    assert {type(index) for link in links(ALPHA) for index in link} == {int}


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


def test_pharaoh_is_sorted_by_number():
    assert format_pharaoh({(10, 0), (2, 1), (2, 0)}) == "2-0 2-1 10-0"
    assert format_pharaoh(frozenset()) == ""


@given(st.lists(LINKS))
def test_pharaoh_comes_back(corpus):
    assert read_pharaoh(format_pharaoh(links) + "\n" for links in corpus) == corpus


@given(st.lists(st.tuples(LINKS, LINKS)))
def test_gold_comes_back(corpus):
    written = [format_pharaoh(sure, possible) for sure, possible in corpus]
    assert read_gold(written) == [(sure, sure | possible) for sure, possible in corpus]


def test_marks_of_gold_links():
    assert format_pharaoh({(2, 1)}, possible={(0, 0), (2, 1)}) == "0?0 2-1"
    with pytest.raises(ValueError, match="line 1: a link reads source-target, such as 0-1, not '0"):
        read_pharaoh(["0?0"])
    with pytest.raises(ValueError, match="g:2: a link reads .* such as 0-1 or 0[?]1, not '0p0'"):
        read_gold(["", "0p0"], "g")


@pytest.mark.parametrize("bad", ["0", "0-", "-1-0", "0-1-2", "a-b", "1,2", "٣-٤"])
def test_pharaoh_errors_name_the_line(bad):
    with pytest.raises(ValueError, match="line 3: .*source-target.*'") as error:
        read_pharaoh(["0-0", "", f"1-1 {bad}"])
    assert repr(bad) in str(error.value)
    with pytest.raises(ValueError, match="^gold.txt:1: "):
        read_pharaoh([bad], name="gold.txt")


def test_merge_pieces_by_hand():
    merged = merge_pieces(ALPHA, [0, 1, 1, 2], [0, 0, 1])
    np.testing.assert_allclose(merged, [[0.3, 0.6, 0.1], [0, 0.4, 0.6]], atol=1e-6)


def test_whole_words_merge_to_themselves():
    np.testing.assert_array_equal(merge_pieces(ALPHA, range(4), range(3)), ALPHA)


@given(st.lists(st.integers(0, 1), max_size=5), st.lists(st.integers(0, 1), max_size=7))
def test_merged_rows_still_sum_to_one(target_steps, source_steps):
    target, source = np.cumsum([0, *target_steps]), np.cumsum([0, *source_steps])
    alpha = np.random.default_rng(2).dirichlet(np.ones(len(source)), len(target))
    merged = merge_pieces(alpha, source, target)
    assert merged.shape == (target[-1] + 1, source[-1] + 1)
    np.testing.assert_allclose(merged.sum(axis=1), 1)


@pytest.mark.parametrize("groups", [[1, 1, 2, 3], [0, 2, 2, 3], [0, 1, 0, 1], [-1, 0, 1, 2]])
def test_groups_must_count_words(groups):
    with pytest.raises(ValueError, match="source groups should count"):
        merge_pieces(ALPHA, groups, [0, 1, 2])


def test_groups_must_fit_alpha():
    with pytest.raises(ValueError, match="2 target groups for 3 target pieces"):
        merge_pieces(ALPHA, [0, 1, 2, 3], [0, 1])
