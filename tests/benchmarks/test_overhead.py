"""What saving and watching cost."""

import json
import statistics

import pytest

from bahdanau_jax.cli.main import main


def test_each_clock_has_its_own_ratios(capsys):
    asked = ["--steps", "3", "--checkpoint-every", "3", "--pairs", "3", "--length", "3"]
    assert main(["bench", "overhead", "--config", "quickstart", "--rows", "50", *asked]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["updates"], found["checkpoint_every"]) == (3, 3)
    for clock in ("seconds", "cpu_seconds"):
        part = found[clock]
        assert len(part["ratios"]) == 3 and part["without"] > 0
        assert part["ratio"] == pytest.approx(statistics.median(part["ratios"]))
        assert part["ratio"] > 1  # a save for three tiny updates


def test_what_cannot_be_timed_is_said(capsys):
    assert main(["bench", "overhead", "--pairs", "1"]) == 2
    assert "--pairs is 1, but should be at least 3" in capsys.readouterr().err
