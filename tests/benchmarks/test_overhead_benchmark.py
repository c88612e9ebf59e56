"""The measured cost of metrics and saves."""

import json
import statistics

import pytest

from bahdanau_jax import training
from bahdanau_jax.cli import experiment
from benchmarks import overhead_benchmark
from benchmarks.__main__ import main
from benchmarks.overhead_benchmark import Event, as_configured, costs, events

SMALL = """
import dataclasses
from tests.small import config
config = dataclasses.replace(config, training=dataclasses.replace(config.training, log_every=25))
"""


@pytest.mark.slow
def test_lines_and_saves_are_told_apart(tmp_path, capsys):
    (tmp_path / "small.py").write_text(SMALL, encoding="utf-8")
    asked = ["--steps", "130", "--checkpoint-every", "35", "--rows", "50", "--length", "3"]
    assert main(["overhead", "--config", str(tmp_path / "small.py"), *asked]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["updates"], found["checkpoint_every"]) == (130, 35)
    for clock in ("seconds", "cpu_seconds", "loop_seconds"):
        assert found[clock]["update"] > 0 and len(found[clock]["save"]) >= 2
    assert statistics.median(found["cpu_seconds"]["save"]) > 0  # tiny updates, and still a save
    assert set(found["as_configured_ratio"]) == {"seconds", "cpu_seconds"}


def test_an_interrupted_training_has_no_result(tmp_path, monkeypatch):
    (tmp_path / "small.py").write_text(SMALL, encoding="utf-8")
    stopped = lambda state, **_: (state, training.Outcome.INTERRUPTED)  # noqa: E731
    monkeypatch.setattr(training, "run", stopped)
    own = experiment.load(str(tmp_path / "small.py")).with_vocabularies(50, 50)
    with pytest.raises(training.Interrupted):
        overhead_benchmark.run(own, length=3, steps=130, checkpoint_every=35)


def test_what_is_added_is_measured_against_the_neighbours():
    seconds = [9.0] * 10 + [1.0] * 40 + [2.0] * 50  # the machine gets slower in between
    lines, saves = list(events(25, 2, 100)), [Event(55, 3), Event(73, 3)]
    assert lines == [Event(24, 2), Event(49, 2), Event(74, 2)]
    seconds[24] += 0.5
    seconds[56] += 0.25
    seconds[57] += 0.5
    found = costs(seconds, lines, saves)
    assert found["line"][0] == 0.5 and found["save"] == [0.75]  # the others overlap
    assert found["update"] == 2.0 and len(found["line"]) == 2
    cost = {"update": 2.0, "line": [0.5, 9.0, 0.25], "save": [0.75]}
    assert as_configured(cost, log_every=25, checkpoint_every=100) == 1 + (0.02 + 0.0075) / 2
    assert as_configured(cost, log_every=25, checkpoint_every=0) == 1.01


def test_too_few_updates_are_refused(capsys):
    assert main(["overhead", "--steps", "1"]) == 2
    assert "--steps is 1, but should be at least 3" in capsys.readouterr().err
    asked = ["--steps", "60", "--checkpoint-every", "20"]  # saves and lines together
    assert main(["overhead", "--config", "quickstart", *asked]) == 2
    assert "coincides with a save, or the reverse: give more --steps" in capsys.readouterr().err
    with pytest.raises(ValueError, match="give more --steps"):
        costs([1.0] * 20, [], [])
