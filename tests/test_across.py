"""One run on several devices and by several processes, resumed on others, and killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bahdanau_jax.checkpoints import Checkpointer
from tests import across, small

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run folders of across.py."""
    folder = tmp_path_factory.mktemp("across")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(across.FILE), str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(small.ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"8 devices, each with [\d.]+ MB .* MB saved by training.shard", done.stderr)
    return folder


def launch(workdir: Path, *settings, **named) -> subprocess.Popen:
    arguments = ["--processes", 2, "--devices-per-process", 2]
    train = ["train", across.FILE, "--workdir", workdir, *settings]
    return subprocess.Popen(
        small.command("launch", *arguments, "--", *train), cwd=small.ROOT, text=True, **named
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("two") / "run"
    process = launch(workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "Training curves:" in out and "peer ranks" not in out
    assert all(line.startswith("[0] ") for line in err.splitlines() if "step" in line)
    return workdir


def arrays(workdir: Path, step: int = across.STEPS) -> dict[str, np.ndarray]:
    checkpoints = Checkpointer(workdir / "checkpoints")
    try:
        return checkpoints.arrays(step)
    finally:
        checkpoints.close()


def lines(workdir: Path) -> list[dict]:
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def assert_alike(ours: Path, theirs: Path) -> None:
    """The same batches in the same order, and parameters and accumulators to 1e-5 of their norm."""
    for field in ("loss", "dev_loss"):
        a, b = ([line[field] for line in lines(w) if field in line] for w in (ours, theirs))
        assert len(a) == {"loss": across.STEPS, "dev_loss": 2}[field]
        np.testing.assert_allclose(a, b, rtol=1e-5)
    a, b = arrays(ours), arrays(theirs)
    assert a.keys() == b.keys()
    for name in a:
        x, y = (np.asarray(one[name], np.float64) for one in (a, b))
        assert np.linalg.norm(x - y) <= 1e-5 * np.linalg.norm(y), name


def assert_identical(ours: Path, theirs: Path) -> None:
    a, b = arrays(ours), arrays(theirs)
    assert a.keys() == b.keys() and len(a) > 60
    assert not [name for name in a if a[name].tobytes() != b[name].tobytes()]


@pytest.mark.parametrize("name", ["4", "1-8", "8-1", "8-split", "8-pmap"])
def test_other_devices_make_the_same_run(runs, name):
    """20 rows do not divide by 8 devices, nor the vocabularies; dropout is on."""
    assert_alike(runs / name, runs / "1")


def test_two_processes_make_the_run_of_one_with_four_devices(runs, undisturbed):
    assert_alike(undisturbed, runs / "4")


def test_two_processes_refuse_pmap_in_a_line(tmp_path):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = launch(tmp_path / "run", "--training.parallel", "pmap", **streams)
    _, err = process.communicate()
    assert process.returncode == 2
    assert "bahdanau: training.parallel pmap is for the devices of one process" in err
    assert "Traceback" not in err and "again" not in err


def test_a_missing_corpus_ends_two_processes_in_a_line(tmp_path):
    """Process 0 prepares the data, and the other one waits for it."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = launch(tmp_path / "run", "--data.train", "text:no.en,no.fr", **streams)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "no.en" in err and "Traceback" not in err and "again" not in err


def test_two_processes_go_on_with_the_run_of_one(runs):
    workdir = runs / "1-half"
    process = launch(workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert_alike(workdir, runs / "1")


def wait_for_step(workdir: Path, step: int) -> None:
    metrics, until = workdir / "metrics.jsonl", time.monotonic() + 900
    while not metrics.exists() or len(metrics.read_text().splitlines()) < step:
        assert time.monotonic() < until
        time.sleep(0.01)


def children(process: subprocess.Popen) -> list[int]:
    """The child processes, in the order in which they were started."""
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in task.read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_costs_no_bit(undisturbed, tmp_path, victim):
    process = launch(tmp_path / "run", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_step(tmp_path / "run", 5)
    os.kill(children(process)[victim], signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert f"process {victim} was ended by SIGKILL: starting all 2 again" in err
    assert_identical(tmp_path / "run", undisturbed)


def test_a_stopped_launch_is_saved_and_goes_on_where_it_was(undisturbed, tmp_path):
    process = launch(tmp_path / "run", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for_step(tmp_path / "run", 2)
    process.terminate()
    out, err = process.communicate()
    assert process.returncode == 143, err
    assert f"[0] bahdanau: {tmp_path / 'run'} is saved: run it again to go on" in err
    assert "Traceback" not in err and "Report:" not in out
    process = launch(tmp_path / "run", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert_identical(tmp_path / "run", undisturbed)
