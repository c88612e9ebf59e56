import itertools
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from bahdanau_jax.data.store import workers
from bahdanau_jax.data.store.workers import mapped

ROOT = str(Path(__file__).resolve().parents[3])


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Processes start with the first item."""
    monkeypatch.setattr(workers, "SECONDS_BEFORE_POOL", 0.0)


def square(number):
    if number == 13:
        raise ValueError("an unlucky number")
    return number * number


def taking_turns(number):
    time.sleep(0.05 * (number % 2))
    return number


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order(processes):
    assert list(mapped(taking_turns, range(9), processes)) == list(range(9))


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_comes_out_as_it_was_raised(processes):
    results = mapped(square, range(11, 20), processes)
    assert list(itertools.islice(results, 2)) == [121, 144]
    with pytest.raises(ValueError, match="an unlucky number"):
        next(results)


def dying(number):
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_that_was_killed_is_told():
    with pytest.raises(OSError, match="was killed, perhaps .*data.processes to a smaller number"):
        list(mapped(dying, range(11, 20), 2))


def leaving(number):
    os._exit(3)


def test_a_process_that_ended_by_itself_is_not_blamed_on_memory():
    with pytest.raises(BrokenProcessPool, match="EXIT"):
        list(mapped(leaving, range(4), 2))


def test_the_number_of_cores_may_be_limited(monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert workers.cores() == 1
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "")
    with pytest.raises(ValueError, match="LOKY_MAX_CPU_COUNT should be a number of cores"):
        workers.cores()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no binding to cores")
def test_cores_that_this_process_may_use():
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from bahdanau_jax import data; print(data.cores())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "1\n", done.stderr


def test_items_are_taken_only_a_few_ahead():
    taken = []
    items = (taken.append(i) or i for i in itertools.count())
    results = mapped(taking_turns, items, 2)
    for _ in range(5):
        next(results)
    assert len(taken) <= 5 + 2 * workers.WAITING
    results.close()


@pytest.mark.parametrize("items", [[], [3], [3, 4, 5]])
def test_little_work_needs_no_process(items, monkeypatch):
    monkeypatch.setattr(workers, "SECONDS_BEFORE_POOL", 60.0)
    monkeypatch.setattr(workers, "_in_processes", None)
    assert list(mapped(square, items, 2)) == [item * item for item in items]


def test_processes_take_over_work_that_lasts(monkeypatch):
    monkeypatch.setattr(workers, "SECONDS_BEFORE_POOL", 0.15)
    here, *_, there = mapped(taking_pid, range(4), 2)
    assert here == os.getpid() != there


def test_a_script_without_a_guard(tmp_path):
    """The worker processes do not run a user's script without a main guard again."""
    script = tmp_path / "script.py"
    script.write_text(
        "print('once')\n"
        "from bahdanau_jax.data.store import workers\n"
        "workers.SECONDS_BEFORE_POOL = 0.0\n"
        "print(list(workers.mapped(len, ['a', 'bb', 'ccc'], 2)))\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert (done.stdout, done.stderr) == ("once\n[1, 2, 3]\n", "")


KILLED = """
import os, signal, time
from bahdanau_jax.data.store import workers
workers.SECONDS_BEFORE_POOL = 0.0
results = workers.mapped(taking_pid, range(50), 2)
print(next(results), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def taking_pid(_):
    time.sleep(0.1)
    return os.getpid()


@pytest.mark.slow
def test_processes_leave_with_a_killed_parent(tmp_path):
    script = "from tests.data.store.test_workers import taking_pid\n" + KILLED
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert done.returncode == -9
    worker = Path(f"/proc/{int(done.stdout)}")
    for _ in range(100):
        if not worker.exists():
            return
        time.sleep(0.1)
    pytest.fail("the process is still there ten seconds later")
