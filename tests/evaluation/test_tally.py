"""Scores from counts against sacreBLEU's own, for the corpus and for selections of sentences."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from bahdanau_jax.evaluation import tally as tallying
from bahdanau_jax.evaluation.tally import TOKENIZERS, bleu_tally, chrf_tally

LINES = st.lists(st.sampled_from(["a", "b", "cd", "Ef", ".", "é"]), max_size=9).map(" ".join)
CORPUS = st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6)


@given(CORPUS)
def test_corpus_scores_equal_sacrebleus(pairs):
    ours, theirs = map(list, zip(*pairs, strict=True))
    for low in (False, True):
        expected = BLEU(tokenize="none", lowercase=low, force=True).corpus_score(ours, [theirs])
        assert bleu_tally(ours, theirs, "none", low).score() == pytest.approx(expected.score)
    expected = CHRF().corpus_score(ours, [theirs])
    assert chrf_tally(ours, theirs).score() == pytest.approx(expected.score)


@pytest.mark.parametrize("tokenize", TOKENIZERS)
def test_every_tokeniser_equals_sacrebleus(tokenize):
    ours, theirs = ["Il dort, dit-on. 我爱吃苹果。"] * 2, ["Il dort, dit-elle. 我爱苹果。", "Non."]
    metric = BLEU(tokenize=tokenize, force=True)
    tally = bleu_tally(ours, theirs, tokenize)
    assert tally.score() == pytest.approx(metric.corpus_score(ours, [theirs]).score)
    assert tally.signature == str(metric.get_signature())
    assert f"tok:{tokenize}" in tally.signature


def test_a_selection_scores_as_the_corpus_of_its_sentences():
    ours = ["the cat sat on the mat", "", "a dog ran away from it", "no match at all"]
    theirs = ["the cat sat on a mat", "x", "a dog ran away from us", "something else"]
    rows = [2, 0, 0]
    for make in (bleu_tally, chrf_tally):
        alone = make([ours[i] for i in rows], [theirs[i] for i in rows]).score()
        whole = make(ours, theirs)
        assert whole.take(rows).score() == pytest.approx(alone) and alone > 10
        weights = np.array([[2.0, 0, 1, 0], [0, 0, 0, 1]])
        first, second = whole.formula(weights @ whole.counts)
        assert first == pytest.approx(alone)
        assert second == pytest.approx(make(["no match at all"], ["something else"]).score())
    assert math.isnan(whole.take([]).score())


def test_counts_are_made_once_for_each_pair(monkeypatch):
    counted, count = [], BLEU._extract_corpus_statistics

    def noted(self, hypotheses, references):
        counted.extend(hypotheses)
        return count(self, hypotheses, references)

    monkeypatch.setattr(BLEU, "_extract_corpus_statistics", noted)
    tallying._kept_counts.cache_clear()
    long = "x " * tallying.LONGEST_KEPT
    references = ["a line of the test", "and one more", long]
    first = bleu_tally(["a line of a test", "one more", long], references, "none")
    again = bleu_tally(["a line of a test", "and more", long], references, "none")
    assert counted == ["a line of a test", "one more", long, "and more", long]
    assert (again.counts[0] == first.counts[0]).all()
    assert (again.counts[1] != first.counts[1]).any()
