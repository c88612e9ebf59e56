"""The report on a sweep: paired tests, settings and how the runs were made."""

import json

import pytest

from bahdanau_jax.configurations import configuration
from bahdanau_jax.experiments import results, sweep_report
from bahdanau_jax.experiments.results import Results
from bahdanau_jax.experiments.suites.suite import with_model

SCORES = Results(
    {c: {1: {"BLEU": 1.0}, 2: {"BLEU": x}} for c, x in zip("abc", (1, 2, 3), strict=True)}, {}
)


def test_a_long_setting_is_abbreviated_in_the_table():
    assert sweep_report.abbreviated("a" * 80) == "a" * 80
    assert sweep_report.abbreviated("a" * 81) == "a" * 79 + "…"


def test_pairs_are_compared_and_the_smallest_p_is_given():
    _, section = results.sections(SCORES, ["BLEU"])
    assert [row[0] for row in section.tables[0].rows] == ["b minus a", "c minus a"]
    assert "With 2 seeds, the smallest possible p is 0.5, so that none is shown." in section.text
    assert all("p =" not in row[1] for row in section.tables[0].rows)
    six = Results(
        {c: {n: {"BLEU": x + n % 2} for n in range(6)} for c, x in (("a", 0), ("b", 9))}, {}
    )
    section = results.sections(six, ["BLEU"])[1]
    assert "smallest possible p is 0.031." in section.text
    assert section.tables[0].rows[0][1] == "+9.0 (+9.0 to +9.0), p = 0.031"
    _, section = results.sections(SCORES, ["BLEU"], [("c", "b")])
    assert [row[0] for row in section.tables[0].rows] == ["c minus b"]
    assert len(results.sections(SCORES, ["BLEU"], [])) == 1
    one = Results({"a": {1: {"BLEU": 1.0}}, "b": {1: {"BLEU": 2.0}}}, {})
    apart = Results({"a": {1: {"BLEU": 1.0}}, "b": {2: {"BLEU": 2.0}}}, {})
    assert "No seed has scores in both cells" in results.sections(apart, ["BLEU"])[1].text
    assert "One seed gives no interval" in results.sections(one, ["BLEU"])[1].text
    assert "standard deviation" in results.sections(SCORES, ["BLEU"])[0].text
    assert results.sections(one, ["BLEU"], None, "A note.")[0].text == (
        "No cell has the scores of two seeds, so that there are no intervals."
    )


def test_corpora_of_both_kinds_have_the_scores_of_both():
    scores = Results({"a": {1: {"exact": 1.0}}, "b": {1: {"BLEU": 2.0}}}, {})
    assert list(results.usual_metrics(scores, {True, False})) == ["exact", "BLEU"]
    assert list(results.usual_metrics(scores, {True})) == ["exact"]
    assert list(results.usual_metrics(scores, {False})) == ["BLEU"]


@pytest.fixture
def workdir(tmp_path):
    """A sweep whose cell a trained vmapped and whose cell b trained in turn."""
    groups = {("a", 1): [1, 2], ("a", 2): [1, 2], ("b", 1): [], ("b", 2): []}
    for (cell, seed), group in groups.items():
        folder = tmp_path / cell / f"seed-{seed}"
        folder.mkdir(parents=True)
        seconds = 110 if cell == "a" else 170
        (folder / "metrics.jsonl").write_text(json.dumps({"step": 5, "seconds": seconds}) + "\n")
        start = {
            "time": "2026-01-01T00:00:00+00:00",
            "step": 0,
            "versions": {"jax": f"1.{seed}"},
            "devices": {"count": 1, "kind": cell},
            "platform": "Linux",
        }
        (folder / "record.json").write_text(json.dumps([start]))
        ended = {"diverged": None, "group": group}
        (folder / "sweep_training.json").write_text(json.dumps(ended))
        scored = {"settings": {"digests": {"builtin:reverse/test": f"{cell}" * 20}}}
        (folder / "sweep_scores.json").write_text(json.dumps(scored))
    (tmp_path / "sweep.json").write_text(json.dumps({"order": "shared", "seeds": [[1], [2, 3]]}))
    return tmp_path


def test_seeds_that_train_vmapped_count_once_and_every_version_and_device_is_listed(workdir):
    rows = sweep_report.made(workdir, Results({c: {1: {}, 2: {}} for c in "ab"}, {})).tables[0].rows
    assert ("time of training", "7 min 30 s") in rows  # 110 + 2 * 170 seconds
    assert ("test data", "aaaaaaaaaaaa, bbbbbbbbbbbb") in rows
    assert [value for name, value in rows if name == "versions"] == ["jax 1.1", "jax 1.2"]
    assert [value for name, value in rows if name == "hardware"] == ["1 x a", "1 x b"]
    assert ("platform", "Linux") in rows


def test_the_report_has_the_configuration_of_every_cell_and_says_what_seeds_share(workdir):
    base = configuration("reverse")
    cells = {"a": base, "b": with_model(base, hidden_size=7)}
    scores = Results({c: {1: {"exact": 0.5}, 2: {"exact": 0.6}} for c in cells}, {})
    sweep_report.write(workdir, scores, cells)
    report = workdir / "report"
    whole = json.loads((report / "scores.json").read_text())["configurations"]
    assert whole == {name: json.loads(config.to_json()) for name, config in cells.items()}
    text = (report / "report.md").read_text()
    assert "read the same batches in the same order" in text
    assert "A seed that trained alone has an order of its own." in text
    differing, shared = text.split("## How this was made")
    assert "| b | 7 |" in differing and "model.hidden" not in shared
    assert "| model.embedding\\_size |" in shared
    in_turn = Results({"b": scores.scores["b"]}, {})
    sweep_report.write(workdir, in_turn, {"b": base})
    assert "order of the training data of its own" in (report / "report.md").read_text()
    sweep_report.write(workdir, Results({"a": scores.scores["a"]}, {}), {"a": base})
    assert "trained alone" not in (report / "report.md").read_text()
    later = {"diverged": None, "group": [2]}  # a vmapped program of one model, in the same order
    (workdir / "b" / "seed-2" / "sweep_training.json").write_text(json.dumps(later))
    sweep_report.write(workdir, in_turn, {"b": base})
    text = (report / "report.md").read_text()  # the shared order is that of the first seed
    assert "read the same batches in the same order" in text and "trained alone" not in text
    only = Results({"b": {2: {"exact": 0.6}, 3: {"exact": 0.5}}}, {})
    (workdir / "b" / "seed-1").rename(workdir / "b" / "seed-3")
    sweep_report.write(workdir, only, {"b": base})
    text = (report / "report.md").read_text()
    assert "read the same batches in the same order" in text and "trained alone" in text
