"""The benchmark of learning, with a stand-in peer that writes good or bad translations."""

import dataclasses
import json
import shutil
import stat
import sys

import pytest

import bahdanau_jax as bj
from bahdanau_jax import data
from bahdanau_jax.trained import load
from benchmarks.peers import recipe
from tests import small

# What stands at the place of JoeyNMT's Python: it is given the program, a command and a file.
PEER = """#!{python}
import json, pathlib, sys, time
settings = json.loads(pathlib.Path(sys.argv[3]).read_text())
model = pathlib.Path(settings["model_dir"])
model.mkdir()
wanted = pathlib.Path(settings["data"]["dev"] + ".trg").read_text()
{body}
"""
WORSE = 'model.joinpath("7.hyps").write_text("\\n".join(l[2:] for l in wanted.splitlines()))'
RIGHT = 'time.sleep(1.5); model.joinpath("14.hyps").write_text(wanted)'


@pytest.fixture
def learn(tmp_path, benchmark):
    def run(body, *more):
        python = tmp_path / "python"
        python.write_text(PEER.format(python=sys.executable, body=body))
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        return benchmark(
            *("learning", small.FILE, "--workdir", tmp_path / "work", "--data.test", ""),
            *("--joeynmt", python, "--minutes", "2", *more),
        )

    return run


@pytest.mark.exhaustive
def test_both_train_until_they_reach_the_target(learn):
    code, out, err = learn(f"{WORSE}\n{RIGHT}\ntime.sleep(600)", "--target", "0")
    found = json.loads(out)
    ours, theirs = found["ours"], found["joeynmt"]
    assert code == 0 and json.loads(err.splitlines()[-1]) == ours  # said before JoeyNMT begins
    assert ours["reached"] == ours["curve"][0] and ours["reached"]["updates"] == 10
    assert ours["reached"]["cpu_seconds"] > 1 and 1 < ours["reached"]["seconds"] < 120
    assert theirs["reached"]["updates"] in (7, 14)
    assert theirs["training"]["batch_size"] == small.config.data.batch_size


def test_joeynmt_has_all_dev_pairs_however_long(trained, tmp_path):
    """Our dev BLEU is that of all pairs, so theirs has the long ones, too."""
    shutil.copytree(trained[0], tmp_path / "run")
    run = load(tmp_path / "run")
    short = dataclasses.replace(run.config.data, max_tokens=4)
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, data=short))
    pairs = list(data.pairs(short.dev, short))
    assert any(len(run.codecs[0].encode(pair.source)) > 5 for pair in pairs)
    recipe.write_text(run, tmp_path / "peer")
    files = (tmp_path / "peer" / f"{split}.src" for split in ("dev", "train"))
    dev, train = (file.read_text().splitlines() for file in files)
    assert len(dev) == len(pairs)
    assert 0 < max(len(line.split()) for line in train) <= 4


@pytest.mark.parametrize(
    "settings, options",
    [
        ({"alignment_size": 9, "readout_size": 9}, ""),
        ({"alignment_size": 9}, "--model.readout-size 9"),
        (
            {"order": "conditional", "word_annotations": True},
            "--model.alignment-size 9 --model.readout-size 9 --model.word-annotations False "
            "--model.order luong",
        ),
    ],
)
def test_the_options_that_give_the_peers_sizes(settings, options):
    model = bj.ModelConfig(hidden_size=9, alignment_size=5, readout_size=7)
    line = recipe.unequal(bj.Config(model=dataclasses.replace(model, **settings)))
    assert line.partition("for equal ones: ")[2].strip() == options


@pytest.mark.exhaustive
def test_a_target_that_is_not_reached_leaves_the_whole_curve(learn):
    code, out, _ = learn(f"{WORSE}\n{RIGHT}\ntime.sleep(1.5)", "--target", "100.1")
    found = json.loads(out)
    assert code == 0 and found["ours"]["reached"] is None and found["joeynmt"]["reached"] is None
    assert [point["updates"] for point in found["ours"]["curve"]] == [10, 20, 30]
    worse, right = found["joeynmt"]["curve"]
    assert (worse["updates"], right["updates"]) == (7, 14)
    assert 0 < worse["bleu"] < right["bleu"] <= 100 and worse["seconds"] < right["seconds"]
    assert all(point["cpu_seconds"] > 1 for point in found["ours"]["curve"])


@pytest.mark.exhaustive
def test_a_peer_that_fails_is_told_and_a_folder_is_used_once(learn):
    code, out, err = learn("raise OSError('no cake')", "--target", "0")
    found, said = json.loads(out), "JoeyNMT ended with code 1; last error: OSError: no cake"
    assert code == 0 and found["ours"]["reached"] and found["joeynmt"]["failed"] == said
    assert "for equal ones: --model.alignment-size" in err
    assert found["joeynmt"]["curve"] == []
    code, _, err = learn(RIGHT)
    assert code == 2 and "ours exists already" in err


@pytest.mark.exhaustive
def test_a_peer_that_fails_late_keeps_its_curve(learn):
    code, out, _ = learn(f"{WORSE}\ntime.sleep(3)\nraise OSError('no cake')", "--target", "100.1")
    theirs = json.loads(out)["joeynmt"]
    assert code == 0 and "no cake" in theirs["failed"] and theirs["reached"] is None
    assert [point["updates"] for point in theirs["curve"]] == [7]


def test_what_cannot_be_is_said_before_any_work(learn):
    for minutes in ("0.0", "nan", "inf"):
        said = f"--minutes is {minutes}, but should be a number above 0"
        assert said in learn(RIGHT, "--minutes", minutes)[2]
    assert "--target is nan, but should be a number of BLEU" in learn(RIGHT, "--target", "nan")[2]
    assert "nowhere is not an executable file" in learn(RIGHT, "--joeynmt", "nowhere")[2]
    assert "names no development set" in learn(RIGHT, "--data.dev", "")[2]
