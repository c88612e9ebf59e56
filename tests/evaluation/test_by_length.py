"""Scores by length: the bin of each sentence, and empty bins."""

import pytest

from bahdanau_jax.evaluation.by_length import by_length
from bahdanau_jax.evaluation.significance import intervals
from bahdanau_jax.evaluation.tally import bleu_tally

OURS = ["a b c d", "a b c d e", "x", "a b x d e f g", "a b c d e f g h"]
THEIRS = ["a b c d", "a b c x e", "y", "a b c d e f g", "a b c d e f g h"]
LENGTHS = [4, 5, 0, 10, 11]
TALLY = bleu_tally(OURS, THEIRS, "none")


def test_each_bin_scores_its_own_sentences():
    bins = by_length(LENGTHS, TALLY, edges=[4, 10])
    assert [(one.name, one.sentences) for one in bins] == [
        ("up to 4", 2),
        ("5–10", 2),
        ("over 10", 1),
    ]
    assert [one.words for one in bins] == [2, 7.5, 11]
    middle = bleu_tally([OURS[1], OURS[3]], [THEIRS[1], THEIRS[3]], "none")
    assert bins[1].score == pytest.approx(middle.score()) and bins[2].score == 100
    assert bins[1].interval == intervals({"x": middle})["x"]


def test_an_empty_bin_has_no_score():
    bins = by_length(LENGTHS, TALLY, edges=[1, 3, 100])
    assert [one.sentences for one in bins] == [1, 0, 4, 0]
    assert (bins[1].words, bins[1].score, bins[1].interval) == (None, None, None)
    assert bins[3].name == "over 100"


def test_one_sentence_has_a_band_of_no_width():
    (first, _) = by_length([3], TALLY.take([3]), edges=[5])
    assert first.interval == (first.score, first.score) and first.score > 0


@pytest.mark.parametrize("edges", [[], [0, 5], [5, 5], [7, 3]])
def test_edges_must_grow(edges):
    with pytest.raises(ValueError, match="positive and grow"):
        by_length(LENGTHS, TALLY, edges=edges)


def test_every_sentence_needs_a_length():
    with pytest.raises(ValueError, match="2 lengths for 5 sentences"):
        by_length([1, 2], TALLY)
