import itertools
import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.batch import UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.tokens import subword_sampling
from bahdanau_jax.data.tokens.subword_sampling import (
    SAMPLERS,
    Draw,
    Pieces,
    bpe_dropout,
    sample_all,
    unigram,
)
from bahdanau_jax.data.tokens.vocabulary import SentencePiece

TEXT = ["the man saw the other man there", "a cat and a hat and that matter", "the theatre"] * 30
MODELS = {
    (subwords, fallback): SentencePiece.learn(
        TEXT, DataConfig(subwords=subwords, byte_fallback=fallback), size + 256 * fallback, ""
    )
    for subwords, size in (("bpe", 40), ("unigram", 24))
    for fallback in (False, True)
}
words = st.text("themansowrcdé漢", min_size=1, max_size=9)
sentences = st.lists(words, max_size=6).map(" ".join)


@given(st.lists(sentences, max_size=5))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("fallback", [False, True])
def test_bpe_without_dropout_is_the_librarys(fallback, texts):
    model = MODELS["bpe", fallback]
    assert sample_all(model.pieces(), texts, Draw("bpe", 0.0, 1)) == model.encode_all(texts)


@given(st.lists(sentences, max_size=5))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("fallback", [False, True])
def test_the_unigram_model_without_heat_is_the_librarys(fallback, texts):
    """With a growing exponent, the likeliest segmentation gets all the probability."""
    model = MODELS["unigram", fallback]
    assert sample_all(model.pieces(), texts, Draw("unigram", 1e4, 1)) == model.encode_all(texts)


@given(texts=st.lists(sentences, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize(("subwords", "fallback"), MODELS)
def test_every_draw_reads_the_same(subwords, fallback, texts, seed):
    model = MODELS[subwords, fallback]
    draw = Draw(subwords, 0.3, seed)
    drawn = sample_all(model.pieces(), texts, draw)
    assert drawn == sample_all(model.pieces(), texts, draw)
    for ids, encoded in zip(drawn, model.encode_all(texts), strict=True):
        assert model.decode(ids) == model.decode(encoded)
        assert ids.count(UNK) == encoded.count(UNK)


def cuts(word):
    """All segmentations of a word."""
    for cut in itertools.product([False, True], repeat=len(word) - 1):
        pieces = [word[0]]
        for letter, new in zip(word[1:], cut, strict=True):
            if new:
                pieces.append(letter)
            else:
                pieces[-1] += letter
        yield tuple(pieces)


def test_the_unigram_model_draws_by_its_probabilities():
    """The oracle lists all segmentations, each with its probability to the power of the rate."""
    scores = {"a": -1.0, "b": -1.5, "ab": -2.0, "ba": -1.7, "aba": -2.9}
    pieces = Pieces.of(dict.fromkeys(scores, 9), scores, ())
    weights = {
        cut: math.exp(0.7 * sum(scores[piece] for piece in cut))
        for cut in cuts("abab")
        if all(piece in scores for piece in cut)
    }
    rng, count = random.Random(1), 40_000
    found = Counter(tuple(unigram(pieces, "abab", 0.7, rng)) for _ in range(count))
    assert set(found) == set(weights)
    for cut, weight in weights.items():
        p = weight / sum(weights.values())
        assert found[cut] / count == pytest.approx(p, abs=4 * math.sqrt(p / count))


class Counted(dict):
    """Counts how often it is asked."""

    asked = 0

    def get(self, *arguments):
        self.asked += 1
        return super().get(*arguments)


@pytest.mark.parametrize("sampler", SAMPLERS.values())
def test_a_word_of_many_letters_does_not_take_long(sampler, monkeypatch):
    """It takes as long as words of LONGEST letters that have as many together."""
    monkeypatch.setattr(subword_sampling, "LONGEST", 20)
    rng = random.Random(1)
    word = "".join(rng.choices("abcdefgh", k=1_000))
    scores = Counted.fromkeys(map("".join, itertools.product("abcdefgh", repeat=2)), -9.0)
    scores.update(dict.fromkeys("abcdefgh", -9.0))
    drawn = sampler(Pieces.of({}, scores, ()), word, 0.1, rng)
    assert "".join(drawn) == word and len(drawn) < 700
    assert scores.asked <= 1_000 / 20 * 20**2


def test_bpe_dropout_by_hand():
    """ab is merged before bc. At the first step of abc: both are left out, or ab is taken, or ab is
    left out and bc is taken; then the rest may join.
    """
    scores = {"a": -9.0, "b": -9.0, "c": -9.0, "ab": -1.0, "bc": -2.0, "abc": -3.0}
    pieces = Pieces.of(dict.fromkeys(scores, 9), scores, ())
    rate, rng, count = 0.4, random.Random(1), 40_000
    found = Counter(tuple(bpe_dropout(pieces, "abc", rate, rng)) for _ in range(count))
    stay, first, second = rate * rate, 1 - rate, rate * (1 - rate)
    expected = {
        ("a", "b", "c"): stay,
        ("ab", "c"): first * rate,
        ("a", "bc"): second * rate,
        ("abc",): (first + second) * (1 - rate),
    }
    assert set(found) == set(expected) and sum(expected.values()) == pytest.approx(1)
    for cut, p in expected.items():
        assert found[cut] / count == pytest.approx(p, abs=4 * math.sqrt(p / count))
