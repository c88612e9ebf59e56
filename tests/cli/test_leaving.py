"""Ctrl-C and SIGTERM end a command at once: one line, the exit code of the signal, no traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bahdanau_jax.cli import leaving

MOST = leaving.PATIENCE + 20  # seconds, on a busy machine; the program sleeps for 60 s

# A command whose load() prints a line and then does what the test says.
PROGRAM = """
import sys, threading, time, types
import bahdanau_jax
from bahdanau_jax import run_folder
from bahdanau_jax.cli import leaving, main

def load(folder, **how):
    print("begun", flush=True)
    {work}

run = bahdanau_jax.trained = types.ModuleType("bahdanau_jax.trained")
run.load = load
sys.modules["bahdanau_jax.trained"] = run
run_folder.check_run = lambda folder: None
sys.argv = ["bahdanau", "translate", "--run", "x", "--output", {output!r}]
sys.exit(main.main())
"""

WORK = {
    "Python": "time.sleep(60)",
    "a thread that Python would wait for": (
        "threading.Thread(target=time.sleep, args=(60,)).start(); time.sleep(60)"
    ),
    "a library that swallows the exception": (
        "exec('''while True:\\n try: time.sleep(60)\\n except BaseException: pass''')"
    ),
    "a library that makes another error of it": (
        "exec('''try: time.sleep(60)\\nexcept BaseException as e: raise ImportError from e''')"
    ),
    "code that does not look for signals": (
        "import ctypes; libc = ctypes.CDLL(None); [libc.sleep(60) for _ in range(9)]"
    ),
}


def begun(work: str, output, closed: str = "") -> subprocess.Popen:
    """Run the program in a shell; `closed` are redirections that close streams."""
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}']
    process = subprocess.Popen(
        [*shell, sys.executable, "-c", PROGRAM.format(work=work, output=str(output))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("work", WORK)
def test_ctrl_c_is_one_line_and_soon(work, tmp_path):
    process = begun(WORK[work], tmp_path / "out")
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - start < MOST
    assert (process.returncode, err) == (130, "bahdanau: interrupted\n")


def test_a_second_ctrl_c_changes_nothing(tmp_path):
    process = begun(WORK["a library that swallows the exception"], tmp_path / "out")
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "bahdanau: interrupted\n")


def test_sigterm_says_nothing(tmp_path):
    process = begun(WORK["code that does not look for signals"], tmp_path / "out")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, "")


def test_no_draft_is_left(tmp_path):
    work = (
        "from bahdanau_jax.cli import lines; from pathlib import Path; import ctypes\n"
        f"    writer = lines.writer(Path({str(tmp_path / 'out')!r})); writer.__enter__()\n"
        "    print('open', flush=True); ctypes.CDLL(None).sleep(60)"
    )
    process = begun(work, tmp_path / "unused")
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    assert os.listdir(tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130 and os.listdir(tmp_path) == []


# As training does: the main thread notes Ctrl-C, but compiles and does not come to it.
SAVES = (
    "import ctypes, signal; signal.signal(signal.SIGINT, lambda *_: None)\n"
    "    print('own', flush=True); [ctypes.CDLL(None).sleep(60) for _ in range(9)]"
)


def test_a_command_that_saves_says_so_at_once_and_what_a_second_ctrl_c_does(tmp_path):
    process = begun(SAVES, tmp_path / "out")
    assert process.stdout is not None and process.stdout.readline() == "own\n"
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    assert process.stderr.readline() == "bahdanau: saving; Ctrl-C again leaves at once\n"
    assert time.monotonic() - start < MOST
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - start < MOST
    assert (process.returncode, err) == (130, "bahdanau: interrupted\n")


def test_nothing_is_said_among_the_results_where_stderr_is_closed(tmp_path):
    process = begun(WORK["Python"], tmp_path / "out", closed="2>&-")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == 130
