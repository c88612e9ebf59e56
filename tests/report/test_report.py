"""The report of a run folder: its files, scores that agree, and the printed summary."""

import dataclasses
import json
import shutil
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import sacrebleu
from scipy import stats

import bahdanau_jax as bj
from bahdanau_jax import trained as runs
from bahdanau_jax.batch import UNK
from bahdanau_jax.evaluation import quality, scores
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.report import printed, provenance, report, run_scores, token_predictions
from bahdanau_jax.report.document import Section
from bahdanau_jax.reporting import SILENT
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
    """Numbers of a report that hold for any model."""
    _, table, found, _ = reported
    for name, (low, high) in table["intervals"].items():
        assert 0 <= low <= table[name] <= high <= 100
    for part, name in (("by-length", "BLEU"), ("by-length-tokenized", "BLEU-tokenized")):
        (whole,) = [one for one in table[part]["output"] if one["sentences"]]
        assert whole["sentences"] == 12 and whole["score"] == table[name]
    run, part = runs.load(trained[0]), table["no-UNK"]
    pairs = list(runs.data.pairs(small.config.data.test, small.config.data))
    known = [all(1 not in c.encode(t) for c, t in zip(run.codecs, p, strict=True)) for p in pairs]
    assert part["sentences"] == sum(known) and 0 < sum(known) < 12
    assert part["banned"] and part["share"] == sum(known) / 12
    forced = run.score(*zip(*pairs, strict=True))
    words = np.concatenate([h.log_probabilities for h in forced])
    assert table["calibration"]["words"] == len(words)
    assert table["perplexity"] == pytest.approx(np.exp(-words.mean()), rel=1e-5)
    for bins in table["calibration"]["bins"].values():
        assert sum(one["words"] for one in bins) == len(words)
    written = table["calibration"]["output"]
    confidences = np.exp([p for best in found for p in best.log_probabilities])
    assert written["words"] == sum(len(best.tokens) for best in found) == len(confidences)
    assert written["confidence"] == pytest.approx(confidences.mean())
    references = [run.codecs[1].tokens(run.codecs[1].encode(target)) for _, target in pairs]
    common = [
        scores.longest_common_subsequence(h.tokens, r)
        for h, r in zip(found, references, strict=True)
    ]
    assert written["accuracy"] == pytest.approx(sum(common) / len(confidences))
    totals = np.concatenate([h.alpha.sum(0)[:-1] for h in forced])
    assert table["coverage"]["reference"]["words"] == len(totals)
    assert table["coverage"]["reference"]["mean"] == pytest.approx(totals.mean(), rel=1e-5)
    assert table["unfinished"] == sum(not h.finished for h in found) / 12
    assert table["lengths"]["output"]["words"] == sum(len(h.tokens) - h.finished for h in found)
    assert table["quality"]["sentences"] == sum(map(bool, (h.tokens for h in found)))


def test_confidence_is_correlated_with_the_chrf_of_sentences():
    texts = {"one house .": -0.1, "two old houses": -0.9, "a": -0.4, "the men": -0.2, "": -0.3}
    references = ["one house .", "three new houses", "a b", "the man", "gone"]
    alpha = np.full((1, 2), 0.5, np.float32)
    hypotheses = [
        Hypothesis(text, (text,) if text else (), (log_p,) if text else (), 2.0, True, (), alpha)
        for text, log_p in texts.items()
    ]
    chrf = scores.tallies([*texts], references, str)["chrF"]
    found = quality.table(hypotheses, chrf)
    pairs = list(zip(texts, references, strict=True))[:4]  # an empty translation has no log p
    reached = [sacrebleu.sentence_chrf(text, [wanted]).score for text, wanted in pairs]
    expected = stats.spearmanr([*texts.values()][:4], reached).statistic
    assert 0.1 < expected < 0.9 and found["sentences"] == 4
    assert found["measures"]["mean log p"]["spearman"] == pytest.approx(expected, abs=1e-6)
    assert np.isnan(found["measures"]["score"]["spearman"])  # it is constant


@pytest.mark.slow
def test_greedy_translations_without_unk_are_not_computed_again(trained):
    """They are those of a search that bans UNK."""
    run = runs.load(trained[0])
    decoding = dataclasses.replace(run.config.decoding, beam_size=1)
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, decoding=decoding))
    draw = np.random.default_rng(1).normal  # weights with which some translations contain UNK
    params = jax.tree.map(lambda leaf: draw(size=leaf.shape).astype(np.float32), run.params)
    params["output"]["b_w"][UNK] = 200
    run = dataclasses.replace(run, params=params)
    lines = [pair.source for pair in runs.data.pairs(small.config.data.test, run.config.data)]
    sources = [line for line in lines if UNK not in run.codecs[0].encode(line)]
    with_unknown = sum("<unk>" in best.tokens for best in run.translate(sources))
    assert 0 < with_unknown < len(sources)

    banning = dataclasses.replace(decoding, ban_unk=True)
    banned = dataclasses.replace(run, config=dataclasses.replace(run.config, decoding=banning))
    texts = [best.text for best in banned.translate(sources)]
    stages = {}

    class Recording(type(SILENT)):
        def stage(self, name, total=None, unit="", done=0):
            stages[name] = total
            return super().stage(name, total, unit, done)

    part = run_scores.evaluate(run, sources, texts, reporter=Recording()).scores["no-UNK"]
    assert part["BLEU"] == pytest.approx(100) and part["UNK-allowed"]["BLEU"] < 99
    assert stages["translating without UNK"] == with_unknown


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


def test_unseen_is_said_only_where_it_was_counted_and_cut_output_where_there_is_any():
    def said(table):
        return printed.summary({"BLEU": 93.04, **table})

    assert said({"test-in-training": 0})[0] == "BLEU 93.0   (on unseen sentences)"
    assert said({"test-in-training": 3})[0] == said({})[0] == "BLEU 93.0"
    assert said({"unfinished": 0.0}) == said({})
    assert said({"unfinished": 0.25})[-1].startswith("unfinished 0.250   (share of translations")


def test_a_run_without_test_pairs_gets_its_curves(trained, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "run", ignore=lambda *_: {"report"})
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace(small.config.data.test, ""))
    assert report.write(runs.load(folder)).startswith(
        "No test pairs are configured. Training curves: "
    )
    assert [path.name for path in (folder / "report").iterdir()] == ["curves.svg"]


def test_gold_alignments_have_a_lead_and_named_columns(reported):
    measured = {name: value for name, value in reported[1].items() if name[:3] in ("AER", "tes")}
    part = report._corpus(measured)
    assert "links of this model" in part.text
    assert "this model" not in report._corpus({"AER-diagonal": 0.5}).text  # it has no attention
    (table,) = part.tables
    assert part.text and all(table.header) and all(all(row) for row in table.rows)
    assert [row[0] for row in table.rows] == [
        "AER",
        "AER-share",
        "AER-diagonal",
        "test-in-training",
    ]


def _with_metrics(run, folder, evaluations):
    """A copy of the run with this number of evaluations."""
    lines = [{"step": step, "loss": 1 / step} for step in range(1, 9)]
    for step in range(1, evaluations + 1):
        dev = {"dev_loss": 1 / step, "dev_accuracy": 0.5, "dev_bleu": 9.0, "dev_exact": 0.0}
        lines.append({"step": step, **dev, "dev_score": 9.0})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return dataclasses.replace(run, folder=folder)


@pytest.mark.parametrize(("evaluations", "panels", "rows"), [(0, 1, 0), (2, 1, 2), (5, 4, 0)])
def test_few_evaluations_are_a_table_and_no_curve(trained, tmp_path, evaluations, panels, rows):
    part = report._training(_with_metrics(runs.load(trained[0]), tmp_path, evaluations))
    assert part.text and len(part.pictures[0].figure.axes) == panels
    assert sum(len(table.rows) for table in part.tables) == rows
    if rows:
        assert part.tables[0].rows[1] == ("2", "0.500", "0.500", "9.0", "0.000")


def test_a_report_says_how_the_run_was_made(reported, trained):
    text = (reported[0] / "report.md").read_text().partition("## How this run was made")[2]
    record = json.loads((trained[0] / "record.json").read_text())[0]
    for shown in ("| command | ", "| updates | ", "| time of training | ", "| best dev score | "):
        assert shown in text
    assert f"jax {record['versions']['jax']}" in text
    assert record["time"][:10] in text and record["time"][11:16] in text


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ({"method": "beam", "beam_size": 3}, ", beam 3, step"),
        ({"method": "sample", "beam_size": 3}, ", sample, step"),
    ],
)
def test_the_summary_names_the_search(trained, search, told):
    evaluated: Any = SimpleNamespace(sources=["a"], scores={"search": search})
    assert told in report.summary(bj.load(trained[0]), evaluated)


def test_the_record_of_a_run_as_it_is_shown(trained, tmp_path):
    run = dataclasses.replace(runs.load(trained[0]), folder=tmp_path)
    assert provenance.made(dataclasses.replace(run, chosen=None)) == Section(
        "How this run was made", f"{tmp_path.name} has no record of it."
    )
    start = {
        "time": "2025-03-01T12:30:59+00:00",
        "step": 0,
        "command": ["/usr/bin/bahdanau", "train", "quickstart", "--workdir", "a b"],
        "seed": 7,
        "versions": {"python": "3.11.7", "jax": "0.9", "bahdanau-jax": "0.1"},
        "platform": "Linux",
        "devices": {"kind": "cpu", "count": 2, "processes": 1},
        "machine": {"processor": "Z80", "cores": 4, "memory_gib": 0.1},
        "git": {"commit": "0123456789abcdef", "changed": True},
    }
    again = {"time": "2025-03-02T08:00:00+00:00", "step": 550}
    (tmp_path / "record.json").write_text(json.dumps([start, "junk", again]))
    lines = [
        {"step": 275, "dev_score": -0.5},
        {"step": 550, "dev_score": -0.5},
        {"step": 1100, "seconds": 158.6, "epoch": 1.17},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (table,) = provenance.made(run).tables
    metric, steps = run.config.training.dev_metric, run.config.training.steps
    assert table.rows == [
        ("checkpoint", f"of step {run.chosen.used[0].step}"),
        ("updates", f"1,100 of {steps:,}, 1.17 epochs"),
        ("time of training", "2 min 39 s"),
        ("best dev score", f"{metric} 0.5, at step 550"),
        ("command", "bahdanau train quickstart --workdir 'a b'"),
        ("started", "2025-03-01 12:30 UTC"),
        ("resumed", "2025-03-02 08:00 UTC, from step 550"),
        ("seed", "7"),
        ("hardware", "2 x cpu, Z80, 4 cores, 0.1 GiB"),
        ("platform", "Linux"),
        ("versions", "bahdanau-jax 0.1, jax 0.9, python 3.11.7"),
        ("commit", "0123456789ab, with changes"),
    ]
    for damaged in ("[{", '{"time": 3}', "[" * 100_000, '[{"command": 3, "git": null}]'):
        (tmp_path / "record.json").write_text(damaged)
        assert provenance.made(run).tables


def test_a_run_of_no_update_has_no_curves(trained, tmp_path):
    run = runs.load(trained[0])
    section = report._training(dataclasses.replace(run, folder=tmp_path))
    assert section.pictures == () and section.text.startswith("There are no metrics of a training")


def test_crossing_links():
    assert report.crosses({(0, 1), (1, 0)})
    assert not report.crosses({(0, 0), (1, 1), (1, 2), (2, 2)})


def test_no_error_rate_where_tokens_are_no_words(trained):
    """Gold links count words; a model of pieces has other positions."""
    run = runs.load(trained[0])
    gold = report._gold(run.config.data)
    pairs = list(runs.data.pairs(run.config.data.test, run.config.data))
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    alphas = token_predictions.predict(run, sources, targets).alphas
    assert "AER" in report._alignment_scores(run, alphas, gold)
    model = dataclasses.replace(run.config.model, attention="none")
    config = dataclasses.replace(run.config, model=model)
    without = report._alignment_scores(dataclasses.replace(run, config=config), alphas, gold)
    assert list(without) == ["AER-diagonal"]  # a model without attention has no alignment
    for alpha, forced in zip(alphas, run.score(sources, targets), strict=True):
        np.testing.assert_allclose(alpha, forced.alpha, atol=1e-5)
    longer = [f"{line} ." for line in sources]
    others = token_predictions.predict(run, longer, targets).alphas
    assert report._alignment_scores(run, others, gold) == {}
    assert report._alignment_scores(run, alphas[1:], gold) == {}
    assert report._alignment_scores(run, [None] * len(gold), gold) == {}
    some = report._alignment_scores(run, [None, *alphas[1:]], gold)
    assert some.pop("alignment-left-out") == 1
    assert some == report._alignment_scores(run, alphas[1:], gold[1:])
