"""The options of `bahdanau sweep` and its exit code; no test of this file trains a model."""

import json

import pytest

from bahdanau_jax import experiments
from bahdanau_jax.cli import choices, sweep_command
from bahdanau_jax.experiments import Results
from tests import small

FACTS = {  # numbers in scores.json that depend on the test pairs alone
    "sentences",
    "mean-source-words",
    "crossing-share",
    "test-in-training",
    "BLEU-word-for-word",
    "AER-diagonal",
}


@pytest.mark.parametrize(
    "vary, expected",
    [
        (["model.order=paper,luong"], {"model.order": ["paper", "luong"]}),
        (["model.order=paper", "model.order=luong"], {"model.order": ["paper", "luong"]}),
        (
            ["model.hidden-size=8,9", "model.hidden_size=16"],
            {"model.hidden_size": ["8", "9", "16"]},
        ),
        (
            ["data.train=text:a.en,a.fr", "data.train=text:b.en,b.fr;0.5*tsv:c.tsv"],
            {"data.train": ["text:a.en,a.fr", "text:b.en,b.fr;0.5*tsv:c.tsv"]},
        ),
        (
            ["data.test=tsv:a.tsv?source=1", "model.attention=dot,my_scores:cosine"],
            {"data.test": ["tsv:a.tsv?source=1"], "model.attention": ["dot", "my_scores:cosine"]},
        ),
    ],
)
def test_commas_separate_values_but_not_the_files_of_an_address(vary, expected):
    assert sweep_command.varied_fields(vary) == expected


@pytest.mark.parametrize("text", ["model.order", "=paper"])
def test_a_field_needs_values(text):
    with pytest.raises(ValueError, match=f"--vary {text}: expected FIELD=VALUE,VALUE"):
        sweep_command.varied_fields([text])


def test_addresses_with_commas_between_them_are_refused():
    with pytest.raises(ValueError, match="repeat --vary data.train=ADDRESS for each address"):
        sweep_command.varied_fields(["data.train=builtin:reverse,builtin:primes"])


def test_an_unknown_score_is_refused_before_any_work(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "sweep", lambda *_, **__: pytest.fail("it trains"))
    arguments = ["sweep", small.FILE, "--workdir", tmp_path / "s", "--metrics", "chrF,BLEW"]
    code, _, err = command_line(*arguments)
    assert code == 2 and err.count("\n") == 1
    assert "no score 'BLEW'; known: AER, " in err and "(did you mean 'BLEU'?)" in err
    assert not (tmp_path / "s").exists()


def test_the_scores_in_help_are_the_numbers_of_a_report(trained):
    scores = json.loads((trained[0] / "report" / "scores.json").read_text())
    numbers = {name for name, value in scores.items() if isinstance(value, int | float | None)}
    assert set(choices.CHOICES["sweep.metrics"]) == numbers - FACTS


def swept(monkeypatch, scores, failed):
    """Replace the sweep by these results."""
    results = Results({"all": scores}, failed)
    monkeypatch.setattr(experiments, "sweep", lambda *_, **__: results)


def test_failed_runs_are_printed_and_the_exit_code_is_2(command_line, tmp_path, monkeypatch):
    swept(monkeypatch, {1: {"BLEU": 7.0}}, {"all/seed-2": "no luck"})
    arguments = ["sweep", small.FILE, "--workdir", tmp_path / "s", "--metrics", "BLEU"]
    code, out, err = command_line(*arguments)
    assert (code, err) == (2, "bahdanau: all/seed-2 failed: no luck\n")
    assert out.startswith("| cell | seeds | BLEU |")
    swept(monkeypatch, {1: {"BLEU": 7.0}}, {})
    code, _, err = command_line(*arguments)
    assert (code, err) == (0, "")


def test_a_score_that_no_run_has_is_left_out(command_line, tmp_path, monkeypatch):
    arguments = ["sweep", small.FILE, "--workdir", tmp_path / "s", "--metrics", "AER,BLEU"]
    swept(monkeypatch, {1: {"BLEU": 7.0}}, {})
    code, out, err = command_line(*arguments)
    assert (code, err) == (0, "bahdanau: no run has the score AER\n")
    assert out.startswith("| cell | seeds | BLEU |")
    swept(monkeypatch, {}, {"all/seed-1": "no luck"})
    code, out, err = command_line(*arguments)
    assert code == 2 and "all/seed-1 failed: no luck" in err
