"""Statistics of aligned sentences, against sums by hand; tests/cli has the whole command."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bahdanau_jax import data
from bahdanau_jax.aligner import LONGEST, Aligned
from bahdanau_jax.alignment import gold
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.report import aligned_corpus
from bahdanau_jax.report.aligned_corpus import LinkSettings, Pair, Summary, ways

# Two target over three source words and EOS.
ALPHA = np.array([[0.5, 0.5, 0.0, 0.0], [0.75, 0.25, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
SEEN = Aligned(("a", "b", "c"), ("x", "y"), ALPHA, -3.0)
UNSEEN = Aligned(("a",), ("x",), np.zeros((0, 0)), None)
BLANK = Aligned((), ("x",), np.zeros((0, 0)), None)
BACK = Aligned(("x", "y"), ("a", "b", "c"), np.eye(4, 3)[[0, 0, 1, 2]], -3.0)


def test_means_by_hand():
    summary = Summary()
    for aligned in (SEEN, UNSEEN, BLANK):
        summary.add(Pair(aligned, None), {"forward": aligned.links()})
    table = summary.table("forward")
    assert (table["sentences"], table["left_out"], summary.left_out) == (3, 1, [1])
    entropies = np.log(2) - (0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert table["entropy"] == pytest.approx(entropies / 2)
    assert table["coverage"] == pytest.approx((1 + 0.75 + 0) / 3)
    assert "AER" not in table and summary.links == {}


def test_a_pair_that_the_backward_model_left_out_is_left_out():
    summary = Summary()
    for backward in (BACK, dataclasses.replace(BACK, score=None), None):
        summary.add(Pair(SEEN, backward), {})
    assert summary.left_out == [1] and summary.target_words == 6


def test_nothing_read_is_no_mean():
    assert Summary().table("forward")["entropy"] is None


def test_a_pair_left_out_has_no_links_by_any_way():
    """Otherwise the diagonal would be scored on other pairs than the ways beside it."""
    summary = Summary(gold.read(["0-0"], "g"))
    summary.add(Pair(UNSEEN, None), {"forward": UNSEEN.links()})
    assert summary.links == {"forward": [frozenset()], "diagonal": [frozenset()]}


def test_scores_of_every_way_by_hand():
    summary = Summary(gold.read(["0-0 1-1", ""], "g"))
    links = {"forward": SEEN.links(), "mine": frozenset({(0, 0), (1, 1)})}
    summary.add(Pair(SEEN, None), links)
    summary.add(Pair(BLANK, None), {"forward": BLANK.links(), "mine": frozenset()})
    table = summary.table("mine")
    assert SEEN.links() == {(0, 0), (0, 1)}
    assert (table["AER"], table["precision"], table["recall"]) == (0, 1, 1)
    assert table["ways"]["forward"] == {"AER": 0.5, "precision": 0.5, "recall": 0.5}
    assert set(table["ways"]) == {"forward", "mine", "diagonal"}


def test_gold_links_of_other_sentences_are_refused():
    summary = Summary(gold.read(["0-0 1-1"], "g"))
    with pytest.raises(ValueError, match="^g has links of 1 sentences, but the text has 0"):
        summary.table("forward")
    with pytest.raises(ValueError, match="^g:1: the link from source word 1 to target"):
        summary.add(Pair(BLANK, None), {})


def test_links_of_the_backward_model_are_turned_round():
    found = ways(Pair(SEEN, BACK))
    assert found["forward"] == {(0, 0), (0, 1)}
    assert found["backward"] == {(0, 0), (1, 0), (2, 1)}
    assert found["intersection"] == {(0, 0)}
    assert list(ways(Pair(SEEN, None))) == ["forward"]


@pytest.mark.parametrize(
    "pair",
    [
        Pair(SEEN, dataclasses.replace(BACK, alpha=np.zeros((0, 0)), score=None)),
        Pair(dataclasses.replace(SEEN, alpha=np.zeros((0, 0)), score=None), BACK),
    ],
    ids=["backward", "forward"],
)
def test_a_pair_that_one_model_left_out_has_no_links(pair):
    found = ways(pair)
    assert found.keys() == ways(Pair(SEEN, BACK)).keys() and not any(found.values())


def test_links_of_shares_and_priors():
    # Shares of the first source word are 0.4 and 0.6, of the second 2/3 and 1/3.
    assert ways(Pair(SEEN, None), LinkSettings("share"))["forward"] == {(1, 0), (0, 1)}
    prior = np.array([[1.0, 1, 0], [0.1, 1, 0]])
    assert ways(Pair(SEEN, None), prior=prior)["forward"] == {(0, 0), (1, 1)}
    turned = ways(Pair(SEEN, BACK), prior=np.array([[0.0, 1, 1], [1, 1, 1]]))["backward"]
    assert turned == {(1, 0), (2, 1)}
    above = LinkSettings(threshold=0.5)
    assert ways(Pair(SEEN, None), above)["forward"] == {(0, 0), (1, 0), (0, 1)}


def test_a_pair_that_is_left_out_has_no_coefficients_and_no_weights():
    codecs = codec.learn(DataConfig(tokenizer="none"), [data.Pair("a b", "x y")])
    run: Any = SimpleNamespace(codecs=codecs)
    sources, training = ["a b", "a " * (LONGEST + 1), ""], [(["a"], ["x"]), (["b"], ["y"])]
    found = aligned_corpus.dice(run, sources, ["x y", "x", "x"], "word", training)
    assert [scores.shape for scores in found] == [(2, 2), (0, 0), (1, 0)]
    np.testing.assert_array_equal(found[0], np.eye(2))
    left_out = Aligned(("a", "b", "c"), ("x", "y"), np.zeros((0, 0)), None)
    assert ways(Pair(left_out, None), prior=found[1])["forward"] == set()
    assert not any(ways(Pair(left_out, BACK), prior=found[1]).values())
    assert Pair(left_out, None).to_json(left_out.links())["alpha"] == []


class Model:
    def __init__(self, aligned):
        self.aligned = aligned

    def align(self, sources, targets, level, advance=None, weights=""):
        return [self.aligned]


def test_models_that_count_other_words_are_refused():
    other = Aligned(("x", "yy"), ("a", "b", "c"), BACK.alpha, -1.0)
    with pytest.raises(ValueError, match="do not count the same tokens: 'a b c'"):
        aligned_corpus.align(Model(SEEN), Model(other), ["a b c"], ["x y"], "token")
    assert aligned_corpus.align(Model(SEEN), Model(BACK), [""], [""], "word") == [Pair(SEEN, BACK)]
