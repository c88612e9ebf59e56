"""metrics.jsonl, the progress bar, TensorBoard, and the lock of a run folder."""

import contextlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bahdanau_jax import training
from bahdanau_jax.run_folder import METRICS, lock
from bahdanau_jax.training.monitor import TIMES, Monitor, cut
from bahdanau_jax.training.step import StepSums

SUMS = {
    "loss": 30.0,
    "nll": 24.0,
    "words": 12.0,
    "correct": 3.0,
    "updates": 1.0,
    "gradient_norm": 5.0,
    "clipped": 1.0,
    "tokens": 20.0,
    "positions": 25.0,
    "skipped": 0.0,
}


def test_the_sums_are_those_of_an_update():
    assert set(SUMS) == set(StepSums._fields) - {"nonfinite"}


def lines(workdir: Path) -> list[dict]:
    strict = lambda name: pytest.fail(f"{name} is no JSON")  # noqa: E731
    text = (workdir / METRICS).read_text()
    return [json.loads(line, parse_constant=strict) for line in text.splitlines()]


@pytest.fixture
def monitor(tmp_path):
    monitor = Monitor(tmp_path, 6, log_every=2, epoch_steps=4)
    monitor.start(0, {})
    yield monitor
    monitor.close()


def test_sums_are_divided_once(monitor, tmp_path):
    """With unequal batches, a line has the ratio of sums, not the mean of ratios."""
    monitor.update(1, SUMS)
    monitor.update(2, {**SUMS, "loss": 2.0, "words": 4.0, "clipped": 0.0, "gradient_norm": 0.0})
    (line,) = lines(tmp_path)
    assert line["step"] == 2 and line["epoch"] == 0.5
    assert line["loss"] == 32 / 16 and line["nll"] == 48 / 16 and line["accuracy"] == 6 / 16
    assert line["gradient_norm"] == 2.5 and line["clipped_share"] == 0.5
    assert line["padding_share"] == pytest.approx(0.2) and line["skipped"] == 0
    assert line["words_per_second"] > 0 and line["seconds"] > 0


def test_what_is_not_finite_is_null(monitor, tmp_path):
    nothing = dict.fromkeys(SUMS, 0.0) | {"skipped": 1.0}
    monitor.update(1, nothing)
    monitor.update(2, nothing)
    monitor.evaluation(2, {"dev_loss": float("nan"), "dev_bleu": float("inf"), "dev_chrf": 1.5})
    train, dev = lines(tmp_path)
    assert train["loss"] is None and train["gradient_norm"] is None and train["skipped"] == 2
    assert (dev["dev_loss"], dev["dev_bleu"], dev["dev_chrf"]) == (None, None, 1.5)


def test_plain_lines_where_stderr_is_no_terminal(monitor, capfd):
    for step in range(1, 7):
        monitor.update(step, SUMS)
    monitor.evaluation(6, {"dev_bleu": 12.5})
    out, err = capfd.readouterr()
    assert out == "" and "\x1b" not in err
    assert "step 2/6: loss 2.5/word" in err and re.search(r"words/s, \d+ s left", err)
    assert " left" not in err.splitlines()[0]
    assert "step 6: dev_bleu 12.5" in err


def test_a_run_that_may_stop_early_has_a_longest_time(tmp_path, capfd):
    with contextlib.closing(Monitor(tmp_path, 10, log_every=2, may_stop=True)) as monitor:
        monitor.start(0, {})
        for step in (1, 2, 3, 4):
            monitor.update(step, SUMS)
    assert re.search(r"words/s, at most \d+ s left", capfd.readouterr().err)


@pytest.mark.parametrize("start", [0, 20])
def test_the_time_left_leaves_out_the_wait_for_the_compiler(start, tmp_path, capfd, monkeypatch):
    """Two updates took 100 s, and those after them a second each."""
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    with contextlib.closing(Monitor(tmp_path, start + 10, log_every=2)) as monitor:
        monitor.start(start, {"seconds": 7.0} if start else {})
        now = 100.0
        for step in (1, 2, 3, 4):
            now += step > 2
            monitor.update(start + step, SUMS)
    first, second = capfd.readouterr().err.splitlines()[-2:]
    assert "left" not in first and second.endswith(", 6 s left")


def test_tensorboard(monitor, tmp_path):
    monitor.update(1, SUMS)
    monitor.update(2, SUMS)
    monitor.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert b"gradient_norm" in file.read_bytes()


def test_time_of_evaluation_is_not_training(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    with contextlib.closing(Monitor(tmp_path, 6)) as monitor:
        monitor.start(0, {})
        now = 2.0
        with monitor.paused():
            now = 10.0
        now = 11.0
        state = monitor.state()
    assert state["window"]["seconds"] == 3.0 and state["seconds"] == 11.0


def test_seconds_and_words_per_second_are_exact_and_go_on_after_a_break(tmp_path, monkeypatch):
    now = 50.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    with contextlib.closing(Monitor(tmp_path, 6, log_every=2)) as monitor:
        monitor.start(2, {"seconds": 7.0})
        now += 4.0
        monitor.update(3, SUMS)
        monitor.update(4, SUMS)
    (line,) = lines(tmp_path)
    assert line["seconds"] == 11.0 and line["words_per_second"] == 24 / 4


@pytest.mark.parametrize(
    "text, step, count, kept",
    [
        ('{"step": 1}\n{"step": 2}\n', 2, 2, 2),
        ('{"step": 1}\n{"step": 2}\n', 1, 1, 1),
        ('{"step": 1}\n{"step": 2}\n', 1, 5, 1),  # more lines promised than there are
        ('{"step": 1}\n{"step": 1, "dev": 2}\n', 1, 1, 1),  # an evaluation after the save
        ('{"step": 1}\n{"st', 2, 2, 1),  # torn by SIGKILL
        ('{"step": 1}\n{"step": 2}', 2, 2, 1),  # so is this
        ('{"step": 1}\nrubbish\n{"step": 2}\n', 2, 3, 1),
        ('{"step": 1}\n[]\n', 2, 3, 1),
        ("", 2, 3, 0),
    ],
)
def test_cut(text, step, count, kept, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(text)
    assert cut(path, step, count) == kept
    assert path.read_text() == "".join(text.splitlines(keepends=True)[:kept])
    assert list(tmp_path.iterdir()) == [path]


def test_a_resumed_window(monitor, tmp_path):
    monitor.update(1, SUMS)
    saved = json.loads(json.dumps(monitor.state()))
    monitor.update(2, {**SUMS, "loss": 1 / 3})
    before = lines(tmp_path)
    monitor.close()
    again = Monitor(tmp_path, 6, log_every=2, epoch_steps=4)
    again.start(1, saved)
    assert lines(tmp_path) == []
    again.update(2, {**SUMS, "loss": 1 / 3})
    again.close()
    for line in (*before, *lines(tmp_path)):
        for name in TIMES:
            line.pop(name, None)
    assert lines(tmp_path)[0] | {n: 0 for n in TIMES} == before[0] | {n: 0 for n in TIMES}


HOLDER = """
import sys, time
from pathlib import Path
from bahdanau_jax.run_folder import lock, METRICS
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_trainer_a_folder(tmp_path):
    root = str(Path(training.__file__).parents[2])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root, "JAX_PLATFORMS": "cpu"},
        text=True,
    )
    try:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        with (
            pytest.raises(OSError, match=f"another training run .process {holder.pid}.: wait"),
            lock(tmp_path / "run"),
        ):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    for _ in range(2):  # never stale after a kill, and free again afterwards
        with lock(tmp_path / "run"):
            pass


def wait_in_child(ready, release) -> None:
    ready.set()
    release.wait(60)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_a_child_does_not_hold_the_lock(tmp_path):
    """A forked worker that outlives its parent must not keep the lock."""
    context = multiprocessing.get_context("fork")
    ready, release = context.Event(), context.Event()
    with lock(tmp_path):
        child = context.Process(target=wait_in_child, args=(ready, release))
        child.start()
        assert ready.wait(60)
    try:
        with lock(tmp_path):
            pass
    finally:
        release.set()
        child.join()
