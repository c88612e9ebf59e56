"""What saving and watching cost."""

import json

import pytest

from bahdanau_jax.benchmarks.overhead import Spent, _compared
from bahdanau_jax.cli.main import main


def test_each_clock_has_its_own_ratios(capsys):
    asked = ["--steps", "3", "--checkpoint-every", "3", "--rounds", "3", "--length", "3"]
    assert main(["bench", "overhead", "--config", "quickstart", "--rows", "50", *asked]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["updates"], found["checkpoint_every"]) == (3, 3)
    for clock in ("seconds", "cpu_seconds"):
        part = found[clock]
        assert len(part["watched"]) == len(part["saved"]) == 3 and part["bare"] > 0
        assert part["saved_ratio"] > part["watched_ratio"]  # a save for three tiny updates
        assert part["as_configured_ratio"] < part["saved_ratio"]


def test_saves_count_as_often_as_the_configuration_makes_them():
    turns = [{"bare": 10.0, "watched": 10.1, "saved": 10.5}] * 3
    found = [{side: Spent(s, 2 * s) for side, s in turn.items()} for turn in turns]
    of = _compared(found, "cpu_seconds", steps=5, often=0.1)
    assert of["bare"] == 4.0 and of["watched_ratio"] == 1.01 and of["saved_ratio"] == 1.05
    assert of["as_configured_ratio"] == pytest.approx(1.014)


def test_what_cannot_be_timed_is_said(capsys):
    assert main(["bench", "overhead", "--rounds", "1"]) == 2
    assert "--rounds is 1, but should be at least 3" in capsys.readouterr().err
