"""Cells in processes of their own: shares of the cores, a process that dies, signals."""

import json
import logging
import os
import re
import signal
import subprocess
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

    def stored_scores(self):
        return {}


class Together(Runs):
    """Trains only while the other cell trains too."""

    other = ""

    def train(self, vmapped):
        super().train(vmapped)
        wait_for(self.folder / self.other)
        self.failed["a/seed-2"] = "no luck"


class Dying(Runs):
    """Its process dies after one of its runs has ended."""

    def train(self, vmapped):
        os.kill(os.getpid(), signal.SIGKILL)

    def stored_scores(self):
        return {2: {"BLEU": 2.0}}


class Failing(Runs):
    def train(self, vmapped):
        log = logging.getLogger("bahdanau_jax.anywhere")
        log.warning("take %s", "care", exc_info=KeyError("lost"))
        if self.name == "a":
            raise AssertionError


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_process_that_dies_loses_its_own_cell_only(tmp_path):
    cells = [Dying("a", tmp_path), Runs("b", tmp_path), Runs("c", tmp_path)]
    found = outcomes(cells, 2, tmp_path)
    died = "its process died (SIGKILL(-9))"
    assert found["a"].failed == {"a/seed-1": died, "a/seed-3": died}
    assert found["a"].scores == {2: {"BLEU": 2.0}}
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


@pytest.mark.slow
def test_a_signal_to_one_process_stops_its_cell_only(tmp_path):
    cells = [Long("a", tmp_path), Together("b", tmp_path), Runs("c", tmp_path)]
    cells[1].other = "a-saved"

    def send():
        wait_for(tmp_path / "a")
        os.kill(json.loads((tmp_path / "a").read_text())[0], signal.SIGTERM)

    threading.Thread(target=send, daemon=True).start()
    found = outcomes(cells, 2, tmp_path)
    assert set(found["a"].failed.values()) == {"a signal stopped its process"}
    assert found["b"].scores == found["c"].scores == {1: {"BLEU": 1.0}}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no masks of signals")
def test_ctrl_c_reaches_the_process_of_the_sweep_alone(tmp_path):
    """A terminal sends SIGINT to all processes, also to one that imports its modules."""
    cells = [Together("a", tmp_path), Runs("b", tmp_path)]
    cells[0].other = "sent"

    def send():
        wait_for(tmp_path / "a")
        os.kill(json.loads((tmp_path / "a").read_text())[0], signal.SIGINT)
        (tmp_path / "sent").touch()

    threading.Thread(target=send, daemon=True).start()
    found = outcomes(cells, 2, tmp_path)
    assert found["a"].scores == found["b"].scores == {1: {"BLEU": 1.0}}
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.slow
def test_an_error_of_the_caller_saves_the_other_trainings(tmp_path):
    """The results of a cell cannot be written, for example."""
    before = signal.getsignal(signal.SIGINT)
    cells = {each.name: each for each in (Long("a", tmp_path), Together("b", tmp_path))}
    cells["b"].other = "a"
    found = cell_processes.outcomes(cells, None, 2, tmp_path, PLAIN)
    assert next(found)[0] == "b"
    found.close()
    assert (tmp_path / "a-saved").exists()
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.slow
def test_errors_and_warnings_of_a_cell_reach_the_caller(tmp_path, caplog):
    found = outcomes([Failing("a", tmp_path), Failing("b", tmp_path)], 2, tmp_path)
    assert set(found["a"].failed.values()) == {"AssertionError"}
    assert found["b"].scores == {1: {"BLEU": 1.0}}
    (record,) = caplog.records
    assert record.getMessage() == "take care" and record.exc_text == "KeyError: 'lost'"


@pytest.mark.exhaustive
def test_messages_of_a_cell_begin_with_its_name(tmp_path, capsys):
    cells = {name: Runs(name, tmp_path) for name in "ab"}
    assert len([*cell_processes.outcomes(cells, None, 2, tmp_path, PLAIN)]) == 2
    assert [each.reporter.name for each in cells.values()] == ["a", "b"]
    assert capsys.readouterr().err.splitlines() == ["cell 1 of 2: a", "cell 2 of 2: b"]
    assert len([*cell_processes.outcomes(cells, None, 2, tmp_path, SILENT)]) == 2
    assert all(each.reporter is SILENT for each in cells.values())
    assert not capsys.readouterr().err


@pytest.mark.parametrize("processes", [0, -1, 1.5, "2", None, True])
def test_a_number_of_processes_that_is_none_is_refused(processes, tmp_path):
    expected = f"processes={processes!r}, but an integer of at least 1 was expected"
    with pytest.raises(ValueError, match=re.escape(expected)):
        sweep(CELLS, tmp_path / "s", [1], processes=processes)
    assert not (tmp_path / "s").exists()


def test_processes_do_not_share_an_accelerator(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ValueError, match="on a CPU only, but JAX uses the gpu"):
        sweep(CELLS, tmp_path / "s", [1], processes=2)


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no binding to cores")
def test_a_sweep_in_two_processes_has_the_scores_of_one_on_as_many_cores(tmp_path):
    def swept(name, *options):
        arguments = ["sweep", small.FILE, "--workdir", tmp_path / name, "--seeds", 2, *options]
        arguments += ["--vary", "model.order=paper,luong", "--training.steps", 4]
        done = subprocess.run(small.command(*arguments), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        table = done.stdout.partition("Report: ")[0]
        return json.loads((tmp_path / name / "results.json").read_text()), table

    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2 or 1
    try:
        os.sched_setaffinity(0, cores[: 2 * half])
        at_once = swept("at-once", "--processes", 2)
        assert swept("at-once", "--processes", 2) == at_once  # nothing is trained again
        os.sched_setaffinity(0, cores[:half])
        assert swept("in-turn") == at_once
    finally:
        os.sched_setaffinity(0, cores)
