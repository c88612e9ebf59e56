"""The effect of UNK replacement on BLEU, against BLEU of both texts."""

import dataclasses

import pytest

from bahdanau_jax.evaluation import unknown_effect
from bahdanau_jax.evaluation.scores import bleu
from bahdanau_jax.hypothesis import EMPTY

PLAIN = dataclasses.replace(EMPTY, text="the man sees a dog .", tokens=("the", "</s>"))
REPLACED = dataclasses.replace(
    EMPTY,
    text="Mr. Ng sleeps in Zürich .",
    original="Mr. <unk> sleeps in <unk> .",
    tokens=("Mr.", "<unk>", "sleeps", "in", "<unk>", ".", "</s>"),
)
REFERENCES = ["the man sees a dog .", "Mr. Ng sleeps in Zürich !"]


def test_both_texts_are_scored():
    effect = unknown_effect([PLAIN, REPLACED], REFERENCES, str.lower)
    assert (effect["sentences"], effect["UNK"], effect["sentences-with-UNK"]) == (2, 2, 1)
    before = [PLAIN.text, "Mr. UNK sleeps in UNK ."]  # one wrong word each
    assert effect["BLEU-with-UNK"] == bleu(before, REFERENCES).score
    assert effect["BLEU"] == bleu([PLAIN.text, REPLACED.text], REFERENCES).score
    assert effect["BLEU"] > effect["BLEU-with-UNK"]
    lowered = "BLEU-tokenized-lowercased"
    assert effect[lowered] > effect[f"{lowered}-with-UNK"]


def test_an_unk_that_stays_is_one_wrong_word_in_both_texts():
    """Its weights are all 0, so no source word replaces it."""
    stays = dataclasses.replace(REPLACED, text=REPLACED.original, original=None)
    effect = unknown_effect([PLAIN, stays], REFERENCES, str.lower)
    assert effect["BLEU"] == effect["BLEU-with-UNK"]
    assert effect["BLEU"] == bleu([PLAIN.text, "Mr. UNK sleeps in UNK ."], REFERENCES).score


def test_as_many_references_are_wanted():
    with pytest.raises(ValueError, match="there should be as many"):
        unknown_effect([PLAIN], REFERENCES, str)
