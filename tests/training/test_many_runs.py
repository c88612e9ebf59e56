"""Runs that train in one program equal runs that train alone."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
from pathlib import Path

import jax
import numpy as np
import pytest

from bahdanau_jax import run, training
from bahdanau_jax.checkpoints import Damaged
from bahdanau_jax.config import TrainingConfig
from bahdanau_jax.run_folder import COMPILATIONS, updates_made
from bahdanau_jax.training import many_runs, monitor
from tests import small

SEEDS = (1, 2, 3, 4)  # two groups of two on two cores, so that one program serves both
FIELDS = {"loss", "nll", "gradient_norm", "dev_loss", "update_to_weight"}


class Killed(BaseException):
    pass


def config(seed: int, **changes):
    settings = dataclasses.replace(
        small.config.training,
        **{"steps": 12, "log_every": 4, "evaluate_every": 6, "checkpoint_every": 5, **changes},
        seed=seed,
    )
    data = dataclasses.replace(small.config.data, shapes=2)
    return dataclasses.replace(small.config, training=settings, data=data)


def together(folder, **options):
    configs = [config(seed) for seed in SEEDS]
    return run.train_vmapped(configs, [folder / f"{seed}" for seed in SEEDS], **options)


def lines(folder) -> list[dict]:
    return [
        {key: value for key, value in line.items() if key not in monitor.TIMES}
        for line in training.read_metrics(folder)
    ]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    assert together(folder) == {}
    return folder


@pytest.mark.slow
def test_each_run_equals_the_run_alone(unbroken, tmp_path):
    alone = tmp_path / "alone"
    run.train(config(2), alone)
    ours, theirs = lines(unbroken / "2"), lines(alone)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for field in one.keys() & FIELDS:
            assert one[field] == pytest.approx(other[field], rel=2e-4), (field, one, other)
    own, other = (run.load(folder).params for folder in (unbroken / "2", alone))
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-4)


@pytest.mark.slow
def test_every_run_has_the_log_of_compilations_and_the_time_to_the_first_step(unbroken):
    for seed in SEEDS:
        folder = unbroken / f"{seed}"
        log = [json.loads(line) for line in (folder / COMPILATIONS).read_text().splitlines()]
        assert "update" in {line.get("for") for line in log}
        first = next(each for each in training.read_metrics(folder) if "loss" in each)
        assert 0 < first["first_program_seconds"] <= first["first_step_seconds"]


@pytest.mark.slow
def test_seeds_differ_and_each_folder_is_an_ordinary_run(unbroken, tmp_path):
    losses = {seed: lines(unbroken / f"{seed}")[-1]["dev_loss"] for seed in SEEDS}
    assert len(set(losses.values())) == len(SEEDS)
    trained = run.load(unbroken / "3")
    assert trained.config.training.seed == 3 and len(trained.translate(["The man saw ."])) == 1
    assert run.train(config(3), unbroken / "3").folder == unbroken / "3"  # nothing is left to do


@pytest.mark.slow
def test_the_configurations_of_longer_runs_stay_as_they_are(unbroken, tmp_path):
    folders = [shutil.copytree(unbroken / f"{seed}", tmp_path / f"{seed}") for seed in SEEDS]
    before = [(folder / "config.json").read_bytes() for folder in folders]
    assert run.train_vmapped([config(seed, steps=6) for seed in SEEDS], folders) == {}
    assert [(folder / "config.json").read_bytes() for folder in folders] == before


@pytest.mark.parametrize(
    "at", [pytest.param(3, marks=pytest.mark.exhaustive), pytest.param(8, marks=pytest.mark.slow)]
)
def test_a_stopped_program_goes_on_bit_for_bit(at, unbroken, tmp_path, monkeypatch):
    """A signal at step 3 saves the runs; a kill at step 8 does not."""
    original = many_runs.ManyRuns.measure

    def stopping(self, step, state):
        if step == at == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        elif step == at:
            raise Killed
        return original(self, step, state)

    monkeypatch.setattr(many_runs.ManyRuns, "measure", stopping)
    with pytest.raises((training.Interrupted, Killed)):
        together(tmp_path)
    monkeypatch.undo()
    assert together(tmp_path) == {}
    for seed in SEEDS:
        assert lines(tmp_path / f"{seed}") == lines(unbroken / f"{seed}")
        own, other = (run.load(folder / f"{seed}").params for folder in (tmp_path, unbroken))
        for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(other), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.slow
def test_a_run_that_diverges_leaves_the_others(unbroken, tmp_path, monkeypatch):
    """The gradients of one seed are not finite from step 4 on."""
    record = many_runs.OneRun.record

    def diverging(self, step, sums, telemetry, batch):
        if self.monitor.workdir.name == "2" and step == 4:
            raise training.Diverged("not finite")
        record(self, step, sums, telemetry, batch)

    monkeypatch.setattr(many_runs.OneRun, "record", diverging)
    failed = together(tmp_path)
    assert list(failed) == [1] and "not finite" in str(failed[1])
    assert lines(tmp_path / "3") == lines(unbroken / "3")
    assert all(line["step"] < 12 for line in lines(tmp_path / "2"))
    made = [updates_made(tmp_path / f"{seed}") for seed in SEEDS]
    assert set(made) == {12}  # so that an interrupted group resumes at its newest step
    monkeypatch.undo()
    again = together(tmp_path)  # its gradients are finite, but no update is left to make
    assert list(again) == [1] and str(again[1]) == str(failed[1])


@pytest.mark.exhaustive
def test_a_shared_order_is_that_of_the_first_seed(tmp_path):
    assert together(tmp_path, order="shared") == {}
    first, second = (lines(tmp_path / f"{seed}") for seed in (1, 2))
    shares = [[line.get("padding_share") for line in own] for own in (first, second)]
    assert shares[0] == shares[1] and first != second


def test_what_cannot_train_vmapped_is_refused(tmp_path):
    folders = [tmp_path / "1", tmp_path / "2"]
    with pytest.raises(ValueError, match="training.seed alone"):
        run.train_vmapped([config(1), config(2, steps=5)], folders)
    with pytest.raises(ValueError, match="set training.patience to 0"):
        run.train_vmapped([config(1, patience=1), config(2, patience=1)], folders)
    assert not any(folder.exists() for folder in folders)


class Folder:
    """The checkpoints of a run, which has lines of its own."""

    workdir = Path("2")

    def __init__(self, progress: dict):
        self.loop, self.saved = progress, []

    def progress(self, step):
        return {"loop": self.loop} if self.loop else {}

    def save(self, step, state, score, progress):
        self.saved.append((step, progress["loop"]["diverged"]))

    def start(self, step, state):
        pass

    def state(self):
        return {}

    def compiling(self, step):
        pass

    def evaluation(self, step, scores):
        pass

    def paused(self):
        return contextlib.nullcontext()


def phases(progress: dict, **settings) -> training.OneRun:
    folder = Folder(progress)
    return training.OneRun(lambda state: {}, folder, folder, TrainingConfig(**settings), 12)


class Listening:
    def unless_received(self, work):
        return work()


def test_a_run_that_diverged_saves_with_the_others_and_stays_left_out():
    settings = {"evaluate_every": 4, "checkpoint_every": 0}
    diverged = {"diverged": "not finite", "evaluated": 4}
    runs = [phases({}, **settings), phases(diverged, **settings)]
    many = many_runs.ManyRuns(runs, [[0, 1]])
    many._member = lambda states, index: None
    many.start(6)
    assert {i: str(error) for i, error in many.failed.items()} == {1: "not finite"}
    for step in (7, 8, 9, 12):
        assert many.evaluate_when_due(step, None, Listening())
        many.save_when_due(step, None, many.outcome(step, False))
    assert runs[0].checkpointer.saved == [(8, None), (12, None)]
    assert runs[1].checkpointer.saved == [(8, "not finite"), (12, "not finite")]


class Saved:
    """A checkpointer whose checkpoints are damaged at some steps."""

    def __init__(self, steps: dict[int, bool]):
        self._steps = steps

    def steps(self):
        return list(self._steps)

    def restore_at(self, state, step):
        if self._steps[step]:
            raise Damaged("a bit of it is flipped")
        return f"{state} at {step}"


class Begun:
    def begin(self):
        return "state"


def test_a_damaged_checkpoint_is_named_and_an_older_one_is_used(caplog):
    saved = [Saved({1: False, 2: False, 3: False}), Saved({2: False, 3: True, 4: False})]
    assert many_runs._restored([Begun()] * 2, saved) == ["state at 2"] * 2
    assert "step 3 are skipped: a bit of it is flipped" in caplog.text
    caplog.clear()
    assert many_runs._restored([Begun()], [Saved({5: True})]) == ["state"]
    assert "the runs begin again" in caplog.text
    caplog.clear()
    assert many_runs._restored([Begun()], [Saved({})]) == ["state"]
    assert not caplog.text
