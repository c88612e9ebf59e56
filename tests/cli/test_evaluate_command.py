"""bahdanau evaluate: scores on stderr, JSON on stdout, the report, and errors before any work."""

import contextlib
import dataclasses
import io
import json
import shutil

import pytest

from bahdanau_jax import run_folder
from bahdanau_jax import trained as runs
from bahdanau_jax.cli import evaluate_command
from bahdanau_jax.cli.main import main
from bahdanau_jax.report import run_scores
from tests import small

FILES = {
    "index.html",
    "report.md",
    "scores.json",
    "translations.txt",
    "translations.jsonl",
    *(f"{name}.{kind}" for name in ("bleu_by_length", "reliability") for kind in ("svg", "png")),
}


@pytest.fixture
def files(tmp_path):
    source, reference = tmp_path / "a.en", tmp_path / "a.fr"
    source.write_text("one\n\u2028two\x85\n")
    reference.write_text("un\ndeux\n")
    return source, reference


@pytest.fixture(scope="module")
def arguments(trained, tmp_path_factory):
    """Of a test set with CRLF, an empty pair, an empty reference and an empty source."""
    folder = tmp_path_factory.mktemp("text")
    pairs = list(runs.data.pairs(small.config.data.test, small.config.data))
    source = [*(pair.source for pair in pairs), "", "We sleep.", ""]
    reference = [*(pair.target for pair in pairs), "", "", "Nous dormons."]
    for name, lines in (("en", source), ("fr", reference)):
        (folder / f"a.{name}").write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    (folder / "system").write_text("".join(f"{line}\n" for line in reference))
    sides = ("--source", folder / "a.en", "--reference", folder / "a.fr")
    return "evaluate", "--run", trained[0], *sides, "--baseline", folder / "system"


@pytest.fixture(scope="module")
def evaluated(arguments, tmp_path_factory):
    """(stdout, stderr, the folder of a process of its own, the folder of a second time)."""
    first, second = (tmp_path_factory.mktemp("out") / "deep" / "folder" for _ in range(2))
    second.mkdir(parents=True)
    (second / "notes.txt").write_text("mine")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main([str(one) for one in (*arguments, "--output", second)]) == 0
    done = small.bahdanau(*arguments, "--output", first)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr, first, second


def test_scores(arguments, evaluated):
    out, err, folder, _ = evaluated
    scores = json.loads(out)
    assert scores["pairs"] == f"text:{arguments[4]},{arguments[6]}"
    assert out == (folder / "scores.json").read_text()
    lines = err.splitlines()
    assert lines[0] == "sentences 15" and f"BLEU {scores['BLEU']:.1f}" in lines
    assert f"ECE {scores['ECE']:.3f}" in lines
    assert scores["comparison"]["baseline"] == "system"
    difference = scores["comparison"]["metrics"]["BLEU"]["difference"]
    assert difference < -90  # of a model hardly trained, against the references themselves
    (printed,) = (line for line in lines if line.startswith("BLEU-difference "))
    assert printed.startswith(f"BLEU-difference {difference:+.1f} (p 0.00")


@pytest.mark.parametrize(
    ("setting", "options", "warning"),
    [
        (
            {"method": "sample"},
            ("--beam-size", 3),
            "{run}: --beam-size counts only with decoding.method beam",
        ),
        (
            {"length_normalization": "none"},
            ("--alpha", 2),
            "{run}: --alpha counts only with decoding.length_normalization wu",
        ),
    ],
)
def test_an_option_that_has_no_effect_on_the_search_has_a_warning(
    call, arguments, files, tmp_path, monkeypatch, setting, options, warning
):
    run = shutil.copytree(arguments[2], tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["decoding"] |= setting
    (run / "config.json").write_text(json.dumps(config))

    def end(*arguments):
        raise ValueError("end")

    monkeypatch.setattr(run_scores, "evaluate", end)
    sides = ("--source", files[0], "--reference", files[1])
    _, _, err = call("evaluate", "--run", run, *sides, *options)
    warning = f"bahdanau: warning: {warning.format(run=run)}"
    assert err.splitlines() == [warning, "bahdanau: end"]
    assert call("evaluate", "--run", run, *sides)[2] == "bahdanau: end\n"


def test_translations_that_did_not_end_are_counted(call, arguments, tmp_path, monkeypatch):
    translate, asked = runs.Run.translate, []

    def cut(self, lines, **search):
        asked.append(search)
        found = translate(self, lines, **search)
        return [dataclasses.replace(best, finished=False) for best in found[:1]] + found[1:]

    monkeypatch.setattr(runs.Run, "translate", cut)
    sources, references = tmp_path / "a.en", tmp_path / "a.fr"
    sources.write_text("We sleep .\nWe sleep .\n")
    references.write_text("Nous dormons .\nNous dormons .\n")
    sides = ("--source", sources, "--reference", references, "--resamples", 2)
    wu = ("--length-normalization", "wu", "--alpha", 1.5)
    code, out, err = call(*arguments[:3], *sides, *wu, "--coverage", 0.25, "--max-ratio", 9)
    scores = json.loads(out)
    chosen = {"max_ratio": 9, "length_normalization": "wu", "alpha": 1.5, "coverage": 0.25}
    assert (code, scores["unfinished"]) == (0, 0.5)
    assert scores["search"].items() >= chosen.items() and asked[0].items() >= chosen.items()
    assert err.splitlines()[-1] == (
        "bahdanau: warning: 1 of 2 translations are cut off at 9 tokens for each source token, "
        "the first in line 1: give a larger --max-ratio"
    )


def test_the_folder_has_a_report_and_keeps_what_was_there(evaluated):
    _, _, first, second = evaluated
    assert {path.name for path in first.iterdir()} >= FILES
    assert (second / "notes.txt").read_text() == "mine"
    assert (first / "translations.txt").read_text().count("\n") == 15
    assert (first / "translations.jsonl").read_text().count("\n") == 15


def test_twice_the_same_is_the_same_to_the_byte(evaluated):
    _, _, first, second = evaluated
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_a_run_as_its_own_baseline(arguments, trained, capfd):
    own = [str(one) for one in (*arguments[:-1], trained[0], "--resamples", 20)]
    assert main(own) == 0
    comparison = json.loads(capfd.readouterr().out)["comparison"]
    assert comparison["baseline"] == trained[0].name
    for one in comparison["metrics"].values():
        assert (one["difference"], one["p_bootstrap"], one["interval"]) == (0, 1, [0, 0])


def test_runs_of_one_name_are_told_apart(arguments, trained, capfd, tmp_path):
    shutil.copytree(trained[0], tmp_path / "other" / trained[0].name)
    baseline = tmp_path / "other" / trained[0].name
    own = [str(one) for one in (*arguments[:-1], baseline, "--resamples", 20)]
    assert main(own) == 0
    scores = json.loads(capfd.readouterr().out)
    assert scores["comparison"]["baseline"] == f"other/{trained[0].name}"


def test_a_checkpoint_with_another_one_as_its_baseline(arguments, trained, capfd, monkeypatch):
    load, loaded = runs.load, []

    def recorded(folder, checkpoint, **options):
        loaded.append(int(checkpoint))
        return load(folder, checkpoint=checkpoint, **options)

    monkeypatch.setattr("bahdanau_jax.trained.load", recorded)
    first, *_, last = sorted(int(path.name) for path in (trained[0] / "checkpoints").iterdir())
    named = {step: f"{trained[0]}@{step}" for step in (first, last)}
    sides = map(str, arguments[3:-1])
    own = ["evaluate", "--run", named[first], *sides, named[last], "--resamples", "20"]
    assert main(own) == 0
    scores = json.loads(capfd.readouterr().out)
    assert scores["checkpoint"]["steps"] == [first]
    assert scores["comparison"]["baseline"] == f"{trained[0].name}@{last}"
    assert loaded == [first, last]


def test_an_ensemble_of_two_checkpoints(call, arguments, trained, tmp_path):
    steps = sorted(int(path.name) for path in (trained[0] / "checkpoints").iterdir())[:2]
    named = [f"{trained[0]}@{step}" for step in steps]
    members = [option for name in named for option in ("--run", name)]
    sides = (*arguments[3:7], "--resamples", 20)
    code, out, err = call("evaluate", *members, *sides, "--output", tmp_path)
    assert code == 0, err
    table = json.loads(out)
    assert [one["steps"] for one in table["checkpoint"]] == [[step] for step in steps]
    text = (tmp_path / "report.md").read_text()
    name = trained[0].name
    assert text.startswith(f"# Evaluation of {name} and {name}\n") and "an ensemble of 2" in text
    assert all(f"| checkpoint | of step {step} |" in text for step in steps)
    members = [runs.load(trained[0], checkpoint=str(step)) for step in steps]
    sources, references = [arguments[place].read_text().splitlines() for place in (4, 6)]
    found = runs.ensemble(members).translate(sources)
    assert (tmp_path / "translations.txt").read_text() == "".join(f"{h.text}\n" for h in found)
    each = [run_scores.evaluate(one, sources, references).scores for one in members]
    assert len({one["perplexity"] for one in (table, *each)}) == 3


def test_no_run_is_an_error_before_any_work(call, files):
    code, _, err = call("evaluate", "--source", files[0], "--reference", files[1])
    assert code == 2 and "missing: --run (bahdanau evaluate --help)" in err


def test_unequal_files_are_named_with_their_lengths(call, files, tmp_path):
    source, reference = files
    reference.write_text("un\ndeux\ntrois\n")
    code, out, err = call("evaluate", "--run", "x", "--source", source, "--reference", reference)
    assert (code, out) == (2, "")
    assert err.startswith(f"bahdanau: {source} has 2 lines, but {reference} has 3; ")
    assert err.count("\n") == 1


def test_a_wrong_run_or_baseline_is_refused_before_any_work(
    call, files, trained, tmp_path, monkeypatch
):
    source, reference = files
    other = tmp_path / "other"
    other.write_text("un\n")
    arguments = ("evaluate", "--run", trained[0], "--source", source, "--reference", reference)
    code, out, err = call(*arguments, "--baseline", other)
    assert (code, out) == (2, "")
    assert err.startswith(f"bahdanau: {source} has 2 lines, but {other} has 1; ")
    assert call(*arguments, "--baseline", tmp_path / "none")[2] == (
        f"bahdanau: {tmp_path / 'none'}: No such file or directory\n"
    )
    monkeypatch.setattr(evaluate_command, "load", lambda *_: pytest.fail("a run was loaded"))
    output = tmp_path / "output"
    for wrong in (("--baseline", tmp_path), ("--run", tmp_path)):
        assert "holds no run" in call(*arguments, *wrong, "--output", output)[2]
        assert not output.exists()


def test_empty_and_missing_files(call, files, tmp_path):
    source, reference = files
    source.write_text("")
    reference.write_text("")
    arguments = ("evaluate", "--run", "x", "--reference", reference, "--source")
    assert call(*arguments, source)[2].startswith(f"bahdanau: {source} is empty; ")
    missing = tmp_path / "missing"
    code, _, err = call(*arguments, missing)
    assert (code, err) == (2, f"bahdanau: {missing}: No such file or directory\n")


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [
        ("--tokenize", "flores200", "no BLEU tokeniser 'flores200'; known: 13a, char"),
        ("--resamples", 0, "0 resamples: there should be at least one"),
        ("--seed", -1, "--seed is -1, but should be at least 0"),
        ("--beam-size", 0, "decoding.beam_size is 0, but should be at least 1"),
        ("--alpha", "inf", "decoding.alpha is inf, but should be finite"),
        ("--length-normalization", "w", "no decoding.length_normalization 'w'; known: average"),
        ("--length-bins", "10,x", "--length-bins is '10,x', but should be increasing numbers"),
        ("--length-bins", "10,5", "should be positive and grow, as 10,20,30, not 10,5"),
    ],
)
def test_wrong_settings_are_said_before_the_model_is_loaded(
    call, files, option, value, what, monkeypatch
):
    monkeypatch.setattr(run_folder, "check_run", lambda folder: None)  # nor looked for
    source, reference = files
    arguments = ("evaluate", "--run", "x", "--source", source, "--reference", reference)
    code, out, err = call(*arguments, option, value)
    assert (code, out) == (2, "") and what in err and err.count("\n") == 1


def test_an_output_that_cannot_be_written_is_said_before_the_model_is_loaded(
    call, files, tmp_path, monkeypatch
):
    monkeypatch.setattr(evaluate_command, "check_runs", lambda runs: None)
    source, reference = files
    arguments = ("evaluate", "--run", "x", "--source", source, "--reference", reference)
    code, _, err = call(*arguments, "--output", source)
    assert (code, err) == (2, f"bahdanau: --output should be a folder, but {source} is a file\n")
    code, _, err = call(*arguments, "--output", source / "below")
    assert (code, err) == (2, f"bahdanau: {source / 'below'}: Not a directory\n")
    code, _, err = call(*arguments, "--output", "/proc/here")
    assert code == 2 and err.count("\n") == 1
    shutil.rmtree(tmp_path)


def test_readable():
    assert evaluate_command.readable("BLEU", 58.0) == "BLEU 58.0"
    assert evaluate_command.readable("PSA", 0.99949) == "PSA 0.999"
