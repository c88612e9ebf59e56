"""Cells in processes of their own: shares of the cores, a process that dies, signals."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import jax
import pytest

from bahdanau_jax.experiments import cell_processes, sweep
from bahdanau_jax.reporting import PLAIN, SILENT
from bahdanau_jax.training import Interrupted, Signals
from tests import small
from tests.experiments.test_run_sweep import CELLS

PATIENCE = 60.0  # seconds in which a process starts on a busy machine


def wait_for(path: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.05)


class Runs:
    """A stand-in for `CellRuns` that needs no model."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder, self.groups = name, folder, [[1, 2], [3]]
        self.reporter, self.failed = SILENT, {}

    def train(self, vmapped):
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        (self.folder / self.name).write_text(json.dumps([os.getpid(), cores]))

    def score(self):
        return {1: {"BLEU": 1.0}}


class Together(Runs):
    """Trains only while the other cell trains too."""

    other = ""

    def train(self, vmapped):
        super().train(vmapped)
        wait_for(self.folder / self.other)
        self.failed["a/seed-2"] = "no luck"


class Dying(Runs):
    def train(self, vmapped):
        os.kill(os.getpid(), signal.SIGKILL)


class Long(Runs):
    """Trains until a signal comes, and then saves."""

    def train(self, vmapped):
        with Signals() as signals:
            super().train(vmapped)
            end = time.monotonic() + PATIENCE
            while not signals.received and time.monotonic() < end:
                time.sleep(0.05)
        (self.folder / f"{self.name}-saved").touch()
        raise Interrupted("saved")


def outcomes(cells, processes, folder):
    cells = {each.name: each for each in cells}
    return dict(cell_processes.outcomes(cells, None, processes, folder, PLAIN))


def test_cells_train_at_the_same_time_on_cores_of_their_own(tmp_path):
    a, b = Together("a", tmp_path), Together("b", tmp_path)
    a.other, b.other = "b", "a"
    found = outcomes([a, b], 2, tmp_path)
    assert found["a"].scores == {1: {"BLEU": 1.0}} and found["a"].failed == {"a/seed-2": "no luck"}
    (pid, cores), (other_pid, other_cores) = (
        json.loads((tmp_path / name).read_text()) for name in "ab"
    )
    assert len({pid, other_pid, os.getpid()}) == 3
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1:
        assert not set(cores) & set(other_cores)
        assert {*cores, *other_cores} == os.sched_getaffinity(0)


def test_a_process_that_dies_loses_its_own_cell_only(tmp_path):
    cells = [Dying("a", tmp_path), Runs("b", tmp_path), Runs("c", tmp_path)]
    found = outcomes(cells, 2, tmp_path)
    assert found["a"].scores == {}
    assert set(found["a"].failed) == {"a/seed-1", "a/seed-2", "a/seed-3"}
    assert all(text.startswith("its process ended: ") for text in found["a"].failed.values())
    assert found["b"].scores == found["c"].scores == {1: {"BLEU": 1.0}}
    assert not found["b"].failed


def test_a_signal_saves_all_trainings_and_starts_no_other_cell(tmp_path):
    cells = [Long("a", tmp_path), Long("b", tmp_path), Runs("c", tmp_path)]

    def send():
        for name in "ab":
            wait_for(tmp_path / name)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=send, daemon=True).start()
    with pytest.raises(Interrupted, match="is saved: run it again to go on"):
        outcomes(cells, 2, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a-saved", "b", "b-saved"]


def test_messages_of_a_cell_begin_with_its_name(tmp_path):
    cells = [Runs("a", tmp_path), Runs("b", tmp_path)]
    outcomes(cells, 2, tmp_path)
    assert [each.reporter.name for each in cells] == ["a", "b"]


@pytest.mark.parametrize("processes", [0, -1])
def test_fewer_than_one_process_is_refused(processes, tmp_path):
    with pytest.raises(ValueError, match=f"{processes} processes: there should be at least one"):
        sweep(CELLS, tmp_path / "s", [1], processes=processes)
    assert not (tmp_path / "s").exists()


def test_processes_do_not_share_an_accelerator(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ValueError, match="on a CPU only, but JAX uses the gpu"):
        sweep(CELLS, tmp_path / "s", [1], processes=2)


@pytest.mark.slow
def test_a_sweep_in_two_processes_has_the_scores_of_one(command_line, tmp_path):
    def swept(name, *options):
        arguments = ["sweep", small.FILE, "--workdir", tmp_path / name, "--seeds", 2, *options]
        arguments += ["--vary", "model.order=paper,luong", "--training.steps", 4]
        code, out, err = command_line(*arguments)
        assert code == 0, err
        return json.loads((tmp_path / name / "results.json").read_text())["scores"], out

    scores, table = swept("in-turn")
    at_once, same_table = swept("at-once", "--processes", 2)
    assert list(at_once) == list(scores) and same_table.count("\n") == table.count("\n")
    for cell, runs in scores.items():
        for seed, run in runs.items():
            assert at_once[cell][seed]["perplexity"] == pytest.approx(run["perplexity"], 1e-4)
    assert swept("at-once", "--processes", 2) == (at_once, same_table)  # nothing is trained again
