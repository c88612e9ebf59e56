"""Scores for people on stderr, and for programs on stdout."""

import json

import pytest

from bahdanau_jax.cli import evaluate


@pytest.fixture
def files(tmp_path):
    source, reference = tmp_path / "a.en", tmp_path / "a.fr"
    source.write_text("one\n\u2028two\x85\n")
    reference.write_text("un\ndeux\n")
    return source, reference


def test_scores(call, run, files, tmp_path):
    source, reference = files
    arguments = ("evaluate", "--run", "x", "--source", source, "--reference", reference)
    code, out, err = call(*arguments, "--output", tmp_path / "scores")
    assert (code, err) == (0, "BLEU 93.1\nAER 0.08\nsentences 2\nchrF nan\n")
    assert json.loads(out) == {"BLEU": 93.0741, "AER": 0.0812, "sentences": 2, "chrF": None}
    assert run.model.asked == [
        (["one", "\u2028two\x85"], ["un", "deux"], tmp_path / "scores"),
    ]


def test_unequal_files_are_named_with_their_lengths(call, run, files):
    source, reference = files
    reference.write_text("un\ndeux\ntrois\n")
    code, out, err = call("evaluate", "--run", "x", "--source", source, "--reference", reference)
    assert (code, out) == (2, "")
    assert err.startswith(f"bahdanau: {source} has 2 lines, but {reference} has 3; ")
    assert err.count("\n") == 1


def test_empty_and_missing_files(call, run, files, tmp_path):
    source, reference = files
    source.write_text("")
    reference.write_text("")
    arguments = ("evaluate", "--run", "x", "--reference", reference, "--source")
    assert call(*arguments, source)[2].startswith(f"bahdanau: {source} is empty; ")
    missing = tmp_path / "missing"
    code, _, err = call(*arguments, missing)
    assert (code, err) == (2, f"bahdanau: {missing}: No such file or directory\n")


def test_readable():
    assert evaluate.readable("BLEU", 58.0) == "BLEU 58.0"
    assert evaluate.readable("PSA", 0.99949) == "PSA 0.999"
