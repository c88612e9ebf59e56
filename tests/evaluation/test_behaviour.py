"""Repetition, coverage and length, counted by hand and by a slow search."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.evaluation.behaviour import coverage, length_ratio, repetition


def test_repetition_by_hand():
    sentences = [["a", "b", "b", "c"], ["a", "b", "a", "b", "a"], ["a", "b", "c"], []]
    found = repetition(sentences)
    assert found["sentences"] == {"any": 0.5, "1": 0.25, "2": 0.25, "3": 0, "4": 0}
    # Words: 4 with 3 different, 5 with 2, 3 with 3. Pairs of words: 3 of 3, 2 of 4, 2 of 2.
    assert found["again"]["1"] == pytest.approx(1 - 8 / 12)
    assert found["again"]["2"] == pytest.approx(1 - 7 / 9)
    assert found["again"]["4"] == 0


@given(st.lists(st.sampled_from("ab"), max_size=12))
def test_repetition_equals_a_slow_search(words):
    found = repetition([words])["sentences"]
    for n in range(1, 5):
        starts = range(len(words) - 2 * n + 1)
        twice = any(words[i : i + n] == words[i + n : i + 2 * n] for i in starts)
        assert found[str(n)] == twice
    assert found["any"] == max(found[n] for n in "1234")


def test_nothing_to_count_is_no_number():
    assert all(math.isnan(v) for part in repetition([]).values() for v in part.values())
    assert math.isnan(repetition([["a"]])["again"]["2"])
    assert math.isnan(coverage([])["little"]) and coverage([])["words"] == 0
    assert math.isnan(length_ratio([["a"]], [[]]))


def test_coverage_by_hand():
    found = coverage([np.array([0.05, 1.0, 2.5]), np.array([]), np.array([0.1, 2.0])])
    assert found == pytest.approx({"words": 5, "mean": 1.13, "little": 0.2, "much": 0.2})


def test_length_ratio_is_of_all_words():
    assert length_ratio([["a"], ["b", "c"]], [["a", "b", "c"], ["d"]]) == 0.75
