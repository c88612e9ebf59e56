"""Runs side by side: the lines of each run, and its newest values at each evaluation."""

import json
import re
import shutil

import pytest

from bahdanau_jax.report import learning_curves

FIRST = [
    {"step": 5, "loss": 4.0, "note": 1},
    {"step": 8, "dev_bleu": 20.0, "dev_loss": 3.5},
    {"step": 10, "loss": 3.0},
    {"step": 12, "loss": 2.0},
]
SECOND = [{"step": 5, "loss": 6.0}, {"step": 8, "dev_bleu": 10.0, "dev_loss": None}]


@pytest.fixture
def folders(tmp_path):
    for name, lines in (("a/run", FIRST), ("b/run", SECOND), ("c", FIRST)):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        folder.joinpath("metrics.jsonl").write_text(f'{text}{{"step": 13, "lo', encoding="utf-8")
    return tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "c"


def test_runs_have_the_shortest_names_that_tell_them_apart(folders):
    runs = learning_curves.read(folders)
    assert list(runs) == ["a/run", "b/run", "c"]
    assert runs["a/run"] == FIRST and runs["b/run"] == SECOND  # without the torn line


def test_the_table_has_the_newest_value_of_each_score(folders):
    found = learning_curves.table(learning_curves.read(folders[:2]), ["loss", "dev_loss"])
    heads = ("a/run: loss", "b/run: loss", "a/run: dev_loss", "b/run: dev_loss")
    assert found.header == ("updates", *heads)
    assert found.rows == [
        ("8", "4.000", "6.000", "3.500", "–"),
        ("12", "2.000", "–", "3.500", "–"),
    ]
    between = {"a": [{"step": 4, "loss": 2.0}, {"step": 9, "loss": 1.0}]}
    both = learning_curves.table(
        {**between, "b": [{"step": 3}, {"step": 6, "dev_bleu": 1.0}]}, ["loss"]
    )
    assert both.rows == [("6", "2.000", "–"), ("9", "1.000", "–")]


def test_the_command_prints_and_draws(command_line, folders, tmp_path):
    picture = tmp_path / "curves.svg"
    code, out, err = command_line(
        *("curves", "--runs", ",".join(map(str, folders[:2])), "--output", picture),
        *("--scores", "loss,dev_bleu"),
    )
    assert code == 0 and err == f"written: {picture}\n"
    assert out.splitlines()[2] == "| 8 | 4.000 | 6.000 | 20.000 | 10.000 |"
    texts = re.findall(r">([^<]*)</text>", picture.read_text(encoding="utf-8"))
    assert "dev bleu" in texts and "a/run" in texts and "dev loss" not in texts


def test_scores_that_are_not_there_yet_are_left_out(command_line, tmp_path):
    tmp_path.joinpath("metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    code, out, _ = command_line("curves", "--runs", tmp_path)
    assert code == 0 and out.splitlines()[-1] == "| 1 | 2.000 |"


def test_a_folder_may_have_commas_in_its_name(command_line, tmp_path):
    """As the cell of a sweep that varies two fields."""
    for name in ("order=paper,cell=gru", "order", "order=paper", "b"):
        tmp_path.joinpath(name).mkdir()
        line = '{"step": 1, "loss": 2.0}\n'
        tmp_path.joinpath(name, "metrics.jsonl").write_text(line)
    runs = ",".join(f"{tmp_path}/{name}" for name in ("order=paper,cell=gru", "order", "b"))
    code, out, _ = command_line("curves", "--runs", runs)
    heads = [head.strip() for head in out.splitlines()[0].strip("|").split("|")]
    assert code == 0
    assert heads == ["updates", "order=paper,cell=gru: loss", "order: loss", "b: loss"]


def test_what_cannot_be_shown_is_one_line(command_line, folders, tmp_path):
    def said(*arguments):
        code, out, err = command_line("curves", *arguments)
        assert code == 2 and not out and len(err.splitlines()) == 1
        return err

    assert "holds no metrics of a training" in said("--runs", tmp_path)
    for line in (b"nonsense", b"5", b'{"loss": 1}', b"\xff"):
        tmp_path.joinpath("metrics.jsonl").write_bytes(b'{"step": 1}\n' + line + b"\n")
        assert f"{tmp_path}/metrics.jsonl:2: no line of a training" in said("--runs", tmp_path)
    assert "each of them once" in said("--runs", f"{folders[0]},{folders[0]}")
    assert "each of them once" in said("--runs", ",")
    assert "did you mean 'dev_bleu'" in said("--runs", folders[0], "--scores", "dev_blue")
    shutil.rmtree(folders[1])
    assert "holds no metrics" in said("--runs", f"{folders[0]},{folders[1]}")
