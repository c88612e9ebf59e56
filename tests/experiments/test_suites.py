"""The cells of the suites, and each suite from end to end with small models."""

import dataclasses
import json
import math
import re
import signal
import statistics
import subprocess
import sys
import time

import pytest

from bahdanau_jax import data, model, run
from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.data.tokens.tokenizer import TOKENIZERS
from bahdanau_jax.evaluation import scores
from bahdanau_jax.experiments import SUITES, Request, cell_runs
from bahdanau_jax.experiments.results import Results
from bahdanau_jax.experiments.suites import (
    ablations,
    lengths,
    paper,
    paper_training,
    score_functions,
)
from bahdanau_jax.experiments.suites.suite import (
    Outcome,
    folder,
    requested_cells,
    shortened,
)

CORPUS = {"train": "builtin:en-fr/train?pairs=200&max=8", "dev": "builtin:en-fr/dev?pairs=8"}


@pytest.mark.parametrize("name", SUITES)
def test_every_cell_is_a_configuration_without_faults(name):
    for quick in (False, True):
        corpus = CORPUS if SUITES[name].takes_corpora else {}
        for config in SUITES[name].cells(Request(quick=quick, **corpus)).values():
            run.check(config)


def test_the_ablations_differ_in_what_they_name():
    cells = ablations.cells(Request())
    base = cells["attention"].model
    for name, change in ablations.CELLS.items():
        model = cells[folder(name)].model
        assert model == dataclasses.replace(base, **change)
    assert all(config.training.steps == 2000 for config in cells.values())
    # Section 4.3 of the source changes the decoder's state alone.
    changed = [change for change in ablations.CELLS.values() if "feed_previous" in change]
    assert {"feed_previous": False} in changed


def test_every_cell_of_lengths_is_tested_up_to_four_times_its_training_length():
    cells = lengths.cells(Request())
    assert len(cells) == 4
    for name, config in cells.items():
        trained = int(name.rpartition("-")[2])
        settings = config.data
        ranges = [part.partition("?")[2] for part in settings.train.split(";")]
        assert ranges[0].endswith("&min=3&max=10") and ranges[-1].endswith(f"&max={trained}")
        assert {part.partition("&")[0] for part in ranges} == {f"pairs={60_000 // len(ranges)}"}
        last = settings.test.split(";")[-1]
        assert last.endswith(f"&max={4 * trained}")
        tokenize = TOKENIZERS[settings.tokenizer]("en").tokenize
        longest = [len(tokenize(pair.source).split()) for pair in data.pairs(last, settings)]
        assert len(longest) == lengths.SENTENCES
        assert 4 * trained - 10 < min(longest) and max(longest) <= 4 * trained
        without = name.startswith("RNNencdec")
        assert (config.model.attention == "none") == without
        assert (config.model.encoder_directions == "forward") == without


def _length_bins(*scores):
    """The bins of a run with these scores, and an empty one."""
    bins = [
        {
            "name": f"{10 * n + 1}–{10 * n + 10}",
            "words": 10 * n + 5.5,
            "sentences": 7,
            "score": score,
        }
        for n, score in enumerate(scores)
    ]
    bins.append({"name": "over 90", "words": None, "sentences": 0, "score": None})
    return {"by-length": {"output": bins}}


def test_intervals_of_a_figure_stay_within_the_scale_of_the_score(tmp_path):
    runs = {
        "spread": {1: {"BLEU": 10.0, "exact": 0.1}, 2: {"BLEU": 90.0, "exact": 0.9}},
        "close": {1: {"BLEU": 50.0}, 2: {"BLEU": 50.2}},
        "single": {1: {"BLEU": 30.0}},
        "none": {1: {"AER": 0.5}},
    }
    outcome = Outcome(tmp_path, {}, Results(runs, {}))
    names = {f"{name} cell": name for name in runs}
    bleu = outcome.intervals("BLEU", names)
    assert bleu["spread cell"] == (50.0, 0.0, 100.0, 10.0, 90.0)
    mean, low, high, *seeds = bleu["close cell"]
    assert 48 < low < mean < high < 52 and seeds == [50.0, 50.2]  # 50.1 ± 12.7 * 0.1
    assert bleu["single cell"][1:] == pytest.approx((math.nan, math.nan, 30.0), nan_ok=True)
    assert outcome.intervals("exact", names) == {"spread cell": (0.5, 0.0, 1.0, 0.1, 0.9)}


@pytest.mark.parametrize(
    ("groups", "expected"), [([[1, 2]], 60.0), ([[1, 2], [3, 4]], 100.0), ([[], []], 30.0)]
)
def test_the_speed_of_a_score_adds_what_ran_together(groups, expected, tmp_path):
    """Seed n makes 20 n words a second: two in a program, four in two programs, two in turn."""
    runs = {}
    for seed, group in enumerate((g for g in groups for _ in range(len(g) or 1)), start=1):
        folder = tmp_path / "cell" / f"seed-{seed}"
        folder.mkdir(parents=True)
        line = json.dumps({"step": 1, "words_per_second": 20.0 * seed})
        (folder / "metrics.jsonl").write_text(f"{line}\n")
        (folder / cell_runs.ENDED).write_text(json.dumps({"diverged": None, "group": group}))
        runs[seed] = {}
    outcome = Outcome(tmp_path, {}, Results({"cell": runs}, {}))
    assert score_functions._words_per_second(outcome, "cell") == expected


def test_a_seed_that_failed_in_a_group_leaves_the_speed_of_the_group(tmp_path):
    folder = tmp_path / "cell/seed-1"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"step": 1, "words_per_second": 20.0}\n')
    (folder / cell_runs.ENDED).write_text('{"diverged": null, "group": [1, 2]}')
    outcome = Outcome(tmp_path, {}, Results({"cell": {1: {}}}, {"cell/seed-2": "diverged"}))
    assert score_functions._words_per_second(outcome, "cell") == 40.0


def test_lengths_compares_the_models_of_one_training_length_at_each_range_of_lengths(tmp_path):
    runs = {
        "RNNsearch-15": {n: _length_bins(30.0 + n, 25.0 + n) for n in (1, 2, 3)},
        "RNNencdec-15": {n: _length_bins(20.0 + n, 5.0 + 2 * n) for n in (1, 2, 3)},
        "RNNsearch-30": {1: _length_bins(30.0)},
        "RNNencdec-30": {},  # it failed
    }
    outcome = Outcome(tmp_path, lengths.cells(Request()), Results(runs, {}))
    section, beyond = lengths.sections(outcome)
    assert beyond.tables[0].rows == []  # no range beyond 15 words
    (table,) = section.tables
    assert table.header == ("words", "sentences", "RNNsearch-15", "RNNencdec-15", "difference")
    assert [row[:2] for row in table.rows] == [("1–10", "7"), ("11–20", "7")]
    assert table.rows[1][4].startswith("+18.0 (") and table.rows[1][4].endswith(")")
    assert "At 11–20 words, RNNsearch-15 has BLEU 27.0" in section.text
    assert "the intervals do not overlap." in section.text
    close = {cell: {n: _length_bins(30.0 + n) for n in (1, 2)} for cell in runs}
    section, _ = lengths.sections(Outcome(tmp_path, outcome.cells, Results(close, {})))
    assert "not overlap" not in section.text and "the intervals overlap." in section.text


def test_lengths_says_what_each_model_keeps_beyond_its_training_length(tmp_path):
    own = _length_bins(90.0, 80.0, 60.0, 20.0) | {"BLEU-word-for-word": 22.6}
    outcome = Outcome(tmp_path, lengths.cells(Request()), Results({"RNNsearch-15": {1: own}}, {}))
    (table,) = lengths.sections(outcome)[1].tables
    beyond = ("11–20: 80.0", "21–30: 60.0", "31–40: 20.0", "25%", "22.6", "–")
    assert table.rows == [("RNNsearch-15", *beyond)]


def test_the_suites_compare_cells_of_one_corpus_and_of_one_training_length():
    pairs = SUITES["scores"].pairs(score_functions.cells(Request()))
    assert len(pairs) == 3 * (len(model.attention.SCORES) - 1)
    assert all(a.split("-")[0] == b.split("-")[0] and a != b for a, b in pairs)
    pairs = SUITES["lengths"].pairs({})
    assert pairs == [("RNNsearch-15", "RNNencdec-15"), ("RNNsearch-30", "RNNencdec-30")]


def test_the_text_of_ablations_has_the_numbers_of_its_cells(tmp_path):
    scores = {"PSA-seed": 0.5, "LCSR-seed": 0.5, "GeoMean-seed": 0.5}
    names = [folder(name) for name in ablations.CELLS]
    results = Results({name: {1: scores, 2: scores} for name in names}, {})
    cells = ablations.cells(Request(steps=70, quick=True))
    first, table, differences = ablations.sections(Outcome(tmp_path, cells, results))
    assert differences.text.endswith("Its products are float32, and ours are bfloat16.")
    exact = requested_cells(SUITES["ablations"], Request(compute_dtype="float32"))
    assert "products" not in ablations.sections(Outcome(tmp_path, exact, results))[-1].text
    assert "2 rounds" in first.text and "70 updates of 32 lists" in first.text
    assert "same 2,000 training lists and the same 100 test lists" in first.text
    printed = {row[0]: row[1:] for row in table.tables[0].rows}
    assert printed["attention"] == ("0.500 ± 0.000 (0.500 to 0.500)",) * 3
    # The means that the author printed below the rounds.
    means = {"attention": (0.7361, 0.7603, 0.7465), "4.1 no initial state": (0.798, 0.8109, 0.8033)}
    for name, values in means.items():
        for value, text in zip(values, printed[f"{name}, printed"], strict=True):
            assert text.startswith(f"{value:.3f} ± ")
    assert "is +0.057 (" in table.text and "p = 0.28, by Welch" in table.text
    assert [picture.name for picture in table.pictures] == ["means"]
    assert table.pictures[0].caption.startswith("Means over the rounds with their 95% intervals")
    assert "the better of two checkpoints" in differences.text
    assert "Ten rounds" not in SUITES["ablations"].text


def test_one_round_has_no_intervals_and_one_update_no_half(tmp_path):
    scores = {"PSA-seed": 0.5, "LCSR-seed": 0.5, "GeoMean-seed": 0.5}
    results = Results({folder(name): {1: scores} for name in ablations.CELLS}, {})
    cells = ablations.cells(Request(steps=1, quick=True))
    _, table, differences = ablations.sections(Outcome(tmp_path, cells, results))
    assert "two checkpoints" not in differences.text
    assert table.pictures[0].caption.endswith("so that there are no intervals.")


@pytest.mark.parametrize(("steps", "evaluated"), [(1, [1]), (2, [1, 2]), (71, [36, 71])])
def test_fewer_updates_are_evaluated_at_the_middle_and_at_the_end(steps, evaluated):
    training = shortened(Config(), steps).training
    due = [n for n in range(1, steps + 1) if n % training.evaluate_every == 0 or n == steps]
    assert due == evaluated


def test_the_paper_needs_a_corpus_and_its_models_differ_in_attention_and_length():
    with pytest.raises(ValueError, match="needs a corpus: --train ADDRESS --dev ADDRESS"):
        paper.cells(Request())
    cells = paper.cells(Request(**CORPUS, longer_steps=100))
    assert [config.data.max_tokens for config in cells.values()] == [30, 30, 50, 50, 50]
    assert len({config.training.steps for config in list(cells.values())[:4]}) == 1
    big = paper.cells(Request(**CORPUS, paper_size=True))["RNNsearch-50"]
    assert big.model.hidden_size == 1000 and big.optimizer.name == "adadelta"


def test_the_paper_in_another_language_shows_its_own_dev_sentences(tmp_path):
    english = paper.cells(Request(**CORPUS))["RNNsearch-50"].data
    assert (english.source_language, english.target_language) == ("en", "fr")
    assert paper._examples(english)[0] == paper.SENTENCES
    sides = {
        "de": ["Zu kurz .", "Der alte Mann sah gestern ein weißes Haus .", " ".join(["lang"] * 21)],
        "en": ["Too short .", "The old man saw a white house yesterday .", "long"],
    }
    for side, lines in sides.items():
        (tmp_path / f"dev.{side}").write_text("".join(f"{line}\n" for line in lines))
    request = Request(
        train="text:dev.de,dev.en",
        dev="text:dev.de,dev.en",
        root=str(tmp_path),
        source_language="de",
        target_language="en",
    )
    german = paper.cells(request)["RNNsearch-50"].data
    assert (german.source_language, german.target_language) == ("de", "en")
    assert paper._examples(german) == (
        [sides["de"][1]],
        "The first dev sentences of 8 to 20 words",
    )


def test_the_settings_that_differ_from_the_paper_are_those_of_the_configuration():
    small = {name: (theirs, ours) for name, theirs, ours in _differing(steps=5)}
    assert small["model.hidden_size"] == ("1000", "256")
    assert small["optimizer.name"] == ("adadelta", "adam")
    for field in ("optimizer.ema", "model.readout_dropout", "data.plan", "optimizer.schedule"):
        assert field in small
    assert {"decoding.length_normalization", "data.source_vocabulary_size"} <= set(small)
    assert _differing(paper_size=True) == []


def _differing(**options):
    return paper_training.differing(paper.cells(Request(**CORPUS, **options))["RNNsearch-50"])


def test_the_text_of_the_paper_follows_from_its_runs(tmp_path, monkeypatch):
    cells = paper.cells(Request(**CORPUS))
    bins = [{"sentences": 3, "words": 4.0, "score": 9.0, "interval": (8.0, 10.0)}]
    own = {"BLEU": 8.0, "BLEU-tokenized": 10.0, "sentences": 3000}
    own |= {"by-length": {"output": bins}, "by-length-tokenized": {"output": bins}}
    own["no-UNK"] = {"sentences": 1047, "BLEU-tokenized": 12.0}
    own["checkpoint"] = {"steps": [20]}
    runs = {
        1: own | {"tests": {"test": own}},
        2: own | {"BLEU": 9.0, "BLEU-tokenized": 20.0, "tests": {"test": own}},
    }
    results = Results({cell: runs for cell in cells}, {})
    outcome = Outcome(tmp_path, cells, results)
    table_1 = paper._table_1(outcome, [*cells])
    assert table_1.tables[0].rows[0][:5] == ("RNNencdec-30", "15.0", "12.0", "10.0", "12.0")
    assert len(table_1.tables[1].rows) == len(cells)
    assert table_1.tables[1].rows[0] == ("RNNencdec-30", "8.5", "8.0")
    assert "means over 2 seeds" in table_1.text
    assert (
        "The No UNK scores are of 1,047 of the 3,000 dev sentences and 1,047 of the 3,000 test "
        "sentences. " in table_1.text
    )
    figure_2 = paper._figure_2(outcome, [*cells])
    of_each = ["bleu_by_length", "bleu_by_length_test"]
    both = [f"{name}{ending}" for ending in ("", "_13a") for name in of_each]
    assert [each.name for each in figure_2.pictures] == both
    for cell in cells:
        (tmp_path / cell / "seed-1").mkdir(parents=True)
        lines = [{"step": 20, "seconds": 60.0, "epoch": 0.5, "nll": 4.0}]
        lines.append({"step": 40, "seconds": 90.0, "epoch": 1.0, "dev_loss": 3.0})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / cell / "seed-1/metrics.jsonl").write_text(text)
    monkeypatch.setattr(paper_training, "words_of_sentences", lambda config, folder: (20.0, 25.0))
    learning = paper_training.learning(outcome)
    assert "the last logged window (at most 20 updates)," in learning.text
    ours, theirs = learning.tables
    sparse = dataclasses.replace(cells["RNNencdec-30"].training, log_every=100)
    cells["RNNencdec-30"] = dataclasses.replace(cells["RNNencdec-30"], training=sparse)
    assert "window (at most 20 or 100 updates)," in paper_training.learning(outcome).text
    expected = ("RNNencdec-30", "40", "20", "1.00", "1 min 30 s", "4.000", "3.000", "80.0", "75.0")
    assert ours.rows[0] == expected
    assert theirs.rows[1] == (
        "RNNsearch-30",
        "471,000",
        "3.6",
        "113 h",
        "TITAN BLACK",
        "26.7",
        "47.2",
    )


def test_what_attention_brings_is_in_the_bleu_of_tokenised_text(tmp_path, monkeypatch):
    tally = scores.tallies(["a b c d"], ["a b c d"], str, "13a")["BLEU-tokenized"]
    monkeypatch.setattr(paper, "_tally", lambda outcome, cell: tally)
    cells = paper.cells(Request(**CORPUS))
    outcome = Outcome(tmp_path, cells, Results({cell: {1: {}} for cell in cells}, {}))
    (section,) = paper._comparison(outcome)
    assert section.text.startswith("BLEU of tokenised text.")
    assert section.tables[0].header[1] == "BLEU-tokenized"


def test_the_texts_of_the_paper_are_beside_ours(tmp_path, monkeypatch):
    cells = paper.cells(Request(**CORPUS))
    tests = {"tests": {"test": {"pairs": "text:a.en,a.fr"}, "older": {}}}
    outcome = Outcome(tmp_path, cells, Results({cell: {1: tests} for cell in cells}, {}))
    monkeypatch.setattr(paper_training, "_text", lambda outcome, cell: "ours")
    rows = paper_training.differences(outcome, [*cells]).tables[0].rows
    texts = [row for row in rows if "text" in row[0]]
    assert texts[-2:] == [
        (
            "dev text, which chose the checkpoints",
            "newstest2012 and newstest2013",
            CORPUS["dev"],
        ),
        ("test text", "newstest2014", "text:a.en,a.fr"),
    ]
    assert [row[2] for row in texts[:-2]] == len(cells) * ["ours"]


def test_a_run_without_metrics_has_no_learning_statistics():
    assert {*paper_training._learned([], [], 20.0, 25.0)} == {"–"}


def test_words_of_sentences_count_eos(tmp_path):
    config = DataConfig(train=CORPUS["train"], dev=CORPUS["dev"], tokenizer="none")
    data.prepare(config, tmp_path)
    found = paper_training.words_of_sentences(config, tmp_path)
    for mean, address in zip(found, (config.train, config.dev), strict=True):
        lengths = [len(pair.target.split()) + 1 for pair in data.pairs(address, config)]
        assert mean == pytest.approx(statistics.mean(lengths))


def test_options_of_the_paper_alone_are_refused_elsewhere(command_line, tmp_path):
    code, _, err = command_line("reproduce", "lengths", "--workdir", tmp_path / "x", "--dev", "a")
    assert (code, err) == (2, "bahdanau: --dev is an option of the suite paper only\n")
    code, _, err = command_line("reproduce", "lenghts", "--workdir", tmp_path / "x")
    assert code == 2 and "did you mean 'lengths'?" in err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "paper" else pytest.mark.exhaustive)
        for name in SUITES
    ],
)
def test_a_quick_suite_from_end_to_end(name, command_line, tmp_path):
    options = ["--quick", "True", "--steps", "2", "--workdir", tmp_path / "s"]
    if SUITES[name].takes_corpora:
        options += ["--train", CORPUS["train"], "--dev", CORPUS["dev"], "--test", CORPUS["dev"]]
    code, out, err = command_line("reproduce", name, *options)
    assert code == 0, err
    page = (tmp_path / "s/report/index.html").read_text()
    text = (tmp_path / "s/report/report.md").read_text()
    assert "it proves nothing" in page and "## How this was made" in text
    assert ".svg)" in text
    for picture in re.findall(r"\((\w+)\.svg\)", text):
        assert (tmp_path / "s/report" / f"{picture}.png").exists()
    cells = json.loads((tmp_path / "s/report/scores.json").read_text())["scores"]
    assert all(runs for runs in cells.values())
    assert command_line("reproduce", name, *options)[1] == out  # nothing is trained again


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "steps", "patterns"),
    [
        ("notebook", 40, ["*/seed-2/checkpoints/20", "dot/seed-1/sweep_scores.json"]),
        *(
            (name, 3, ["*/seed-*/checkpoints/2", "*/seed-*/sweep_scores.json"])
            for name in SUITES
            if name != "notebook"
        ),
    ],
)
def test_a_suite_that_is_killed_ends_with_the_table_of_one_that_is_not(
    name, steps, patterns, tmp_path
):
    """Killed in training, and in scoring; and a suite run twice has the same table."""
    command = [sys.executable, "-m", "bahdanau_jax", "reproduce", name, "--quick", "True"]
    command += ["--steps", str(steps), *(["--seeds", "2"] if name == "notebook" else [])]
    if SUITES[name].takes_corpora:
        command += ["--train", CORPUS["train"], "--dev", CORPUS["dev"], "--test", CORPUS["dev"]]

    def results(folder):
        done = subprocess.run(
            [*command, "--workdir", folder], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads((folder / "results.json").read_text())

    for pattern in patterns:
        process = subprocess.Popen(
            [*command, "--workdir", tmp_path / "a"], stderr=subprocess.DEVNULL
        )
        while not any((tmp_path / "a").glob(pattern)):
            assert process.poll() is None, f"it ended before {pattern}"
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert not (tmp_path / "a/report").exists()
    assert results(tmp_path / "a") == results(tmp_path / "b")
