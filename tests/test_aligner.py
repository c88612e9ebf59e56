"""Alignment of given translations at every level, with a stand-in model of known weights."""

import dataclasses

import numpy as np
import pytest

from bahdanau_jax import aligner, alignment, data
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.reporting import ignore

CONFIG = DataConfig(
    lowercase=True,
    vocabulary="sentencepiece",
    source_vocabulary_size=60,
    joint_vocabulary=True,
)
TEXT = data.Pair("The man's house is on the sea, not on the hill.", "La maison de l'homme est là.")
CODECS = codec.learn(CONFIG, [TEXT])
asked = []


def score(sources, targets, weights="attention", advance=ignore):
    """Unit i of a target attends most to unit i of its source, and a little to all others."""
    advance(len(sources))
    found = []
    for source, target in zip(sources, targets, strict=True):
        asked.append((source, target))
        x, y = CODECS[0].units(source), CODECS[1].units(target)
        alpha = np.full((len(y), len(x)), 0.1 / len(x), np.float32)
        for i in range(len(y)):
            alpha[i, min(i, len(x) - 1)] += 0.9
        found.append(Hypothesis(target, y, (-1.0,) * len(y), 0.0, True, x, alpha))
    return found


def align(sources, targets, level="word"):
    asked.clear()
    return aligner.align(score, CODECS, sources, targets, level)


@pytest.mark.parametrize("level", data.LEVELS)
def test_words_keep_their_case_and_rows_sum_to_one(level):
    (found,) = align([TEXT.source], [TEXT.target], level)
    sizes = len(found.target) + 1, len(found.source) + 1
    assert found.alpha.shape == sizes
    np.testing.assert_allclose(found.alpha.sum(axis=1), 1, atol=1e-6)
    assert found.score == -len(CODECS[1].encode(TEXT.target))
    if level in ("word", "hansards"):
        assert found.source == tuple(TEXT.source.split())
        assert found.target == tuple(TEXT.target.split())
    if level == "token":
        assert found.target == ("La", "maison", "de", "l'", "homme", "est", "là", ".")


def test_units_of_the_same_characters_keep_their_own_weights():
    """A space and what follows it are two units, written at one place."""
    config = DataConfig(vocabulary="characters", tokenizer="none")
    codecs = codec.learn(config, [data.Pair("a b", "a b")])

    def itself(sources, targets, **options):
        units = codecs[0].units(sources[0])
        alpha = np.eye(len(units), dtype=np.float32)
        return [Hypothesis("a b", units, (-1.0,) * len(units), 0.0, True, units, alpha)]

    (found,) = aligner.align(itself, codecs, ["a b"], ["a b"], "piece")
    np.testing.assert_array_equal(found.alpha, np.eye(len(found.source) + 1))
    assert found.links() == {(0, 0), (1, 1), (2, 2)}


def test_a_prior_of_words_does_not_make_eos_the_largest_look():
    alpha = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    found = aligner.Aligned(("a", "b"), ("x", "y"), alpha, -1.0)
    prior = np.array([[0.1, 0.01], [0.01, 0.1]])
    for eos in ("next", "none"):
        assert found.links(eos=eos, prior=prior) == {(0, 0), (1, 1)}
    away = np.array([[0.3, 0.1, 0.6], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    found = aligner.Aligned(("a", "b"), ("x", "y"), away, -1.0)
    assert found.links(eos="none", prior=prior) == {(1, 1)}
    assert found.links(eos="next", prior=prior) == {(0, 0), (1, 1)}


def test_the_same_text_is_aligned_with_itself_at_every_level():
    same = "The house is on the sea, not on the hill."
    for level in data.LEVELS:
        (found,) = align([same], [same], level)
        assert found.links() == {(i, i) for i in range(len(found.source))}
        assert found.links(threshold=0.4) == found.links()


def test_the_hansards_words_are_read_as_ordinary_text_and_linked_as_they_stand():
    (found,) = align(["the cut - backs"], ["de le an à les hommes"], "hansards")
    assert asked == [("the cut-backs", "de l'an aux hommes")]
    assert found.target == ("de", "le", "an", "à", "les", "hommes")
    np.testing.assert_array_equal(found.alpha[3], found.alpha[4])  # both are "aux"


def test_blank_and_endless_sides_are_not_asked():
    long = "a " * (aligner.LONGEST + 1)
    found = align(["", "the", " ", long, "sea"], ["la", "\t", "", "la", "la"])
    assert asked == [("sea", "la")]
    assert [pair.score is None for pair in found] == [True, True, True, True, False]
    assert [bool(pair.links()) for pair in found] == [False, False, False, False, True]
    assert [pair.alpha.size for pair in found[:4]] == [0, 0, 0, 0]  # no matrix of all words


@pytest.mark.parametrize("weights", ["attention", "posterior,share"])
def test_each_pair_is_counted_once(weights):
    """Other weights need a second pass; a blank pair needs none."""
    counted = []
    sides = ["the sea", "", "hill"], ["la mer", "la", "la"]
    aligner.align(score, CODECS, *sides, weights=weights, advance=counted.append)
    assert sum(counted) == 3


def test_unequal_sides_and_unknown_levels_are_refused():
    with pytest.raises(ValueError, match="2 sources but 1 targets"):
        align(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="no level of words 'words'; known: .*'word'"):
        align(["a"], ["a"], "words")


def test_weights_are_read_by_their_names():
    assert aligner.Weights.of("attention") == ("attention", ())
    assert aligner.Weights.of("share") == ("attention", ("share",))
    assert aligner.Weights.of("posterior, share") == ("posterior", ("share",))
    with pytest.raises(ValueError, match="no weights of links 'postrior'; known: .*'posterior'"):
        aligner.Weights.of("postrior,share")
    with pytest.raises(ValueError, match="are of two kinds, posterior and saliency"):
        aligner.Weights.of("posterior,saliency")
    for twice in ("share,share", "share, posterior ,share", "attention,attention"):
        with pytest.raises(ValueError, match=f"weights '{twice}' have a name twice"):
            aligner.Weights.of(twice)


def test_other_weights_are_asked_for_once_and_merged_as_attention_is():
    kinds = []

    def by_kind(sources, targets, weights="attention", advance=ignore):
        kinds.append(weights)
        scored = score(sources, targets)
        if weights == "attention":
            return scored
        turned = [np.roll(each.alpha, 1, axis=1) for each in scored]
        return [
            dataclasses.replace(each, alpha=alpha)
            for each, alpha in zip(scored, turned, strict=True)
        ]

    (plain,) = aligner.align(by_kind, CODECS, ["the sea"], ["la mer"], "piece")
    (pair,) = aligner.align(by_kind, CODECS, ["the sea"], ["la mer"], "piece", "posterior,share")
    assert kinds == ["attention", "attention", "posterior"]
    np.testing.assert_array_equal(pair.alpha, plain.alpha)
    np.testing.assert_allclose(pair.weights("posterior"), np.roll(pair.alpha, 1, axis=1))
    shared = alignment.share(pair.others["posterior"])
    np.testing.assert_array_equal(pair.weights("posterior,share"), shared)
    assert pair.links("posterior,share") == alignment.links(shared)
    assert pair.links("posterior", threshold=0.8) == alignment.links_above(
        pair.others["posterior"], 0.8
    )
    with pytest.raises(ValueError, match="aligned without posterior: align it with weights='post"):
        plain.links("posterior")
