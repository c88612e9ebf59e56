"""The report of a run folder: files, scores that agree with each other, and what is printed."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from bahdanau_jax import run as runs
from bahdanau_jax.evaluation import scores
from bahdanau_jax.experiments import report
from bahdanau_jax.hypothesis import Hypothesis
from tests import small

PICTURES = ("alignment", "bleu_by_length", "curves", "reliability")
FILES = {
    *("scores.json", "samples.jsonl", "index.html", "report.md", "steps.svg"),
    *(f"{name}.{kind}" for name in PICTURES for kind in ("svg", "png")),
}


@pytest.fixture(scope="module")
def reported(trained):
    folder = trained[0] / "report"
    found = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    table = json.loads((folder / "scores.json").read_text())
    return folder, table, [Hypothesis.from_json(line) for line in found], trained[1].stdout


def test_files(reported):
    folder, *_ = reported
    assert {path.name for path in folder.iterdir()} == FILES
    assert (folder / "alignment.png").read_bytes().startswith(b"\x89PNG")
    for path in folder.glob("*.svg"):
        assert "<svg" in path.read_text()


def test_scores_are_those_of_the_samples(reported, trained):
    _, table, found, _ = reported
    pairs = list(runs.data.pairs(small.config.data.test, small.config.data))
    assert len(found) == len(pairs) == table["sentences"] == 12
    texts, references = [h.text for h in found], [pair.target for pair in pairs]
    assert table["BLEU"] == pytest.approx(scores.bleu(texts, references).score)
    assert table["exact"] == scores.accuracy(texts, references)
    assert runs.load(trained[0]).translate([pair.source for pair in pairs]) == found


def test_scores_lie_where_they_can(reported):
    _, table, *_ = reported
    for name in ("AER", "AER-diagonal", "alignment-precision", "PSA", "crossing-share", "exact"):
        assert 0 <= table[name] <= 1, name
    for name in ("BLEU", "BLEU-lowercased", "chrF", "BLEU-word-for-word"):
        assert 0 <= table[name] <= 100, name
    assert table["BLEU-word-for-word"] > 0
    assert table["test-in-training"] == 0
    assert 1 <= table["mean-source-words"] <= 6


def test_the_parts_agree_with_the_whole(reported, trained):
    """What the numbers of a report must be, whatever the model."""
    _, table, found, _ = reported
    for name, (low, high) in table["intervals"].items():
        assert 0 <= low <= table[name] <= high <= 100
    assert sum(one["sentences"] for one in table["by-length"]["output"]) == 12
    run, part = runs.load(trained[0]), table["no-UNK"]
    pairs = list(runs.data.pairs(small.config.data.test, small.config.data))
    known = [all(1 not in c.encode(t) for c, t in zip(run.codecs, p, strict=True)) for p in pairs]
    assert part["sentences"] == sum(known) and 0 < sum(known) < 12
    assert part["banned"] and part["share"] == sum(known) / 12
    forced = run.force(*zip(*pairs, strict=True))
    words = np.concatenate([h.log_probabilities for h in forced])
    assert table["calibration"]["words"] == len(words)
    assert table["perplexity"] == pytest.approx(np.exp(-words.mean()), rel=1e-5)
    for bins in table["calibration"]["bins"].values():
        assert sum(one["words"] for one in bins) == len(words)
    totals = np.concatenate([h.alpha.sum(0)[:-1] for h in forced])
    assert table["coverage"]["reference"]["words"] == len(totals)
    assert table["coverage"]["reference"]["mean"] == pytest.approx(totals.mean(), rel=1e-5)
    assert table["unfinished"] == sum(not h.finished for h in found) / 12
    assert table["lengths"]["output"]["words"] == sum(len(h.tokens) - h.finished for h in found)


def test_what_is_printed(reported):
    _, table, found, text = reported
    lines = text.splitlines()
    assert f"BLEU {table['BLEU']:.1f}" in text and f"AER {table['AER']:.3f}" in text
    for name in ("source", "model", "reference"):
        assert sum(line.startswith(f"  {name} ") for line in lines) == 10
    assert [line[13:] for line in lines if line.startswith("  model")] == [
        h.text for h in found[:10]
    ]
    assert lines[-1].startswith("Report: ")


def test_a_run_without_test_pairs_gets_its_curves(trained, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "run", ignore=lambda *_: {"report"})
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace(small.config.data.test, ""))
    assert report.write(folder).startswith("No test pairs are configured. Training curves: ")
    assert [path.name for path in (folder / "report").iterdir()] == ["curves.svg"]


def test_a_run_of_no_update_has_no_curves(trained, tmp_path):
    run = runs.load(trained[0])
    section = report._training(dataclasses.replace(run, folder=tmp_path))
    assert section.pictures == () and section.text.startswith("No update was made here")


def test_crossing_links():
    assert report.crosses({(0, 1), (1, 0)})
    assert not report.crosses({(0, 0), (1, 1), (1, 2), (2, 2)})


def test_no_error_rate_where_tokens_are_no_words(trained):
    """Gold links count words; a model of pieces has other positions."""
    run = runs.load(trained[0])
    gold = report._gold(run)
    pairs = list(runs.data.pairs(run.config.data.test, run.config.data))
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    assert "AER" in report._alignment_scores(run, sources, targets, gold)
    longer = [f"{line} ." for line in sources]
    assert report._alignment_scores(run, longer, targets, gold) == {}
