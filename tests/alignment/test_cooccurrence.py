"""Dice coefficients against counting by hand and a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.alignment import cooccurrence
from bahdanau_jax.alignment.cooccurrence import Dice, strongest
from bahdanau_jax.alignment.linking import diagonal

SENTENCE = st.lists(st.sampled_from("abcde"), max_size=5)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), max_size=6)


def loop(training, x, y):
    together = sum(x in source and y in target for source, target in training)
    alone = sum(x in source for source, _ in training) + sum(y in target for _, target in training)
    return 2 * together / alone if alone else 0.0


def test_by_hand():
    lines = ["the man | le homme", "the cat | le chat", "the the | la"]  # twice counts once
    training = [tuple(side.split() for side in line.split("|")) for line in lines]
    dice = Dice([(["the", "cat"], ["le", "chat", "chien"])], training)
    np.testing.assert_allclose(
        dice.scores(["the", "cat"], ["le", "chat", "chien"]),
        [[4 / 5, 2 / 3], [2 / 4, 2 / 2], [0, 0]],
    )


@given(PAIRS, PAIRS)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_the_loop_agrees_however_often_counts_are_added_up(chunk, sentences, training):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrence, "CHUNK", chunk)
        dice = Dice(sentences, iter(training))
    for source, target in sentences:
        expected = [[loop(training, x, y) for x in source] for y in target]
        np.testing.assert_allclose(
            dice.scores(source, target), np.reshape(expected, (len(target), len(source)))
        )


def test_words_that_were_not_counted_for_are_refused():
    with pytest.raises(ValueError, match="'z' is not a word of the sentences"):
        Dice([(["a"], ["b"])], []).scores(["z"], ["b"])
    sentences = [(["a"], ["x"]), (["b"], ["y"])]
    for source, target in (("a", "y"), ("b", "x")):
        with pytest.raises(ValueError, match="are in no sentence to align together"):
            Dice(sentences, sentences).scores([source], [target])


def test_memory_is_that_of_the_sentences_and_not_of_the_training_text():
    training = (([f"x{n}", "a"], [f"y{n}", "b"]) for n in range(20_000))
    dice = Dice([(["a"], ["b"])], training)
    assert dice.scores(["a"], ["b"]) == 1
    assert sum(array.nbytes for array in vars(dice).values() if hasattr(array, "nbytes")) < 1000


def test_each_target_word_has_its_strongest_and_of_equals_the_nearest_to_the_diagonal():
    scores = np.array([[0.1, 0.9, 0.2], [0.5, 0.1, 0.5], [0.5, 0.5, 0.1]])
    assert strongest(scores) == {(1, 0), (2, 1), (1, 2)}


@given(st.integers(0, 9), st.integers(0, 9))
def test_words_of_which_nothing_is_known_lie_on_the_diagonal(width, height):
    assert strongest(np.zeros((height, width))) == diagonal(width, height)
