"""A translation as JSON: as one object, and in pieces."""

import dataclasses
import json
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from bahdanau_jax.hypothesis import (
    EMPTY,
    TOO_LONG,
    Hypothesis,
    of_line,
    write,
    write_lines,
)


def made(size: int, **more) -> Hypothesis:
    alpha = np.random.default_rng(0).dirichlet(np.ones(size), size)
    words = tuple(f"w{i}" for i in range(size))
    text = '"Où ?" 我\u2028'
    return Hypothesis(text, words, (-0.5,) * size, -1.0, True, words, alpha.astype("f4"), **more)


def test_the_pieces_are_the_json_of_the_whole(tmp_path):
    for each in (made(3), made(2, original="<unk>"), EMPTY):
        whole = json.dumps({"index": 7, **each.to_json()}, ensure_ascii=False)
        assert "".join(each.json_pieces(index=7)) == whole
        assert Hypothesis.from_json(json.loads(whole)) == each
    write_lines(tmp_path / "lines", [made(2), EMPTY])
    lines = (tmp_path / "lines").read_text("utf-8").split("\n")
    assert [*map(json.loads, lines[:2])] == [made(2).to_json(), EMPTY.to_json()]
    assert lines[2:] == [""]


def test_a_failure_leaves_the_earlier_files(tmp_path):
    write(tmp_path, [made(2)])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    broken: Any = dataclasses.replace(made(2), alpha=None)
    with pytest.raises(TypeError):
        write(tmp_path, [EMPTY, broken])
    assert (tmp_path / "translations.jsonl").read_bytes() == before["translations.jsonl"]
    assert {path.name for path in tmp_path.iterdir()} == set(before)


def test_a_folder_of_translations(tmp_path):
    spaced = dataclasses.replace(made(2), text=" a \u2028 b\n")
    write(tmp_path / "a" / "b", [spaced, EMPTY])
    write(tmp_path / "a" / "b", [spaced, EMPTY])  # over those of an earlier call
    folder = tmp_path / "a" / "b"
    assert (folder / "translations.txt").read_bytes() == b"a b\n\n"
    objects = (folder / "translations.jsonl").read_text("utf-8").removesuffix("\n").split("\n")
    assert [json.loads(line) for line in objects] == [spaced.to_json(), EMPTY.to_json()]


def test_a_line_without_a_token_is_not_translated():
    """Its only source token is EOS, and a search still returns hypotheses."""
    blank = dataclasses.replace(made(1), source_tokens=("</s>",))
    assert of_line([blank, blank]) == [EMPTY]
    for ranked in ([made(2), made(3)], [TOO_LONG]):
        assert of_line(ranked) == ranked


def test_numbers_that_json_does_not_have_are_null():
    nan = math.nan
    alpha = np.array([[0.5, nan], [nan, nan]], "f4")
    found = Hypothesis("a", ("a", "b"), (-0.5, -math.inf), nan, True, ("x", "y"), alpha)
    written = "".join(found.json_pieces())

    def refuse(name):
        raise AssertionError(name)

    read = json.loads(written, parse_constant=refuse)
    assert read["score"] is None and read["log_probabilities"] == [-0.5, None]
    assert read["alpha"] == [[0.5, None], [None, None]]
    again = Hypothesis.from_json(read)
    assert math.isnan(again.score) and math.isnan(again.log_probabilities[1])
    np.testing.assert_array_equal(again.alpha, alpha)


def test_confidence_is_the_geometric_mean_of_probabilities():
    assert made(3).confidence == pytest.approx(math.exp(-0.5))
    assert (EMPTY.confidence, TOO_LONG.confidence) == (1, 0)
    assert made(2).to_json()["confidence"] == made(2).confidence


@pytest.mark.slow
def test_alpha_is_written_without_a_copy_of_it():
    """As lists and text, an alpha of 10,000 tokens per side took 3 GB."""
    long = made(1000)
    tracemalloc.start()
    written = sum(map(len, long.json_pieces()))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written > 5_000_000 and most < 1_000_000
