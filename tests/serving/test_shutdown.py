"""`bahdanau serve` as a process: its signals, its exit codes, and what it refuses to begin with."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from bahdanau_jax import run_folder
from bahdanau_jax.serving import serving_settings
from tests import small

pytest.importorskip("fastapi", reason="the extra serve is not installed")

# `bahdanau serve` with a stand-in for the model, whose search takes a second.
PROGRAM = """
import sys, threading, time
from bahdanau_jax import run_folder, trained
from bahdanau_jax.cli import main
from tests.serving.conftest import Stub

class Slow:
    def wait(self, seconds):
        print("searching", flush=True)
        time.sleep(1.0)
        return True

run_folder.require = lambda folder: None
trained.load = lambda folder, **how: Stub(gate=Slow())
own = ["serve", "--run", "stub", "--port", "0", "--warm-tokens", "0"]
sys.argv = ["bahdanau", *own, *sys.argv[1:]]
sys.exit(main.main())
"""


class Process:
    """The server in its own process; `address` is known once it is ready."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=small.ROOT,
            env={**os.environ, "PYTHONPATH": str(small.ROOT)},
        )
        assert self.process.stderr is not None and self.process.stdout is not None
        line = ""
        while not line.startswith("bahdanau: ready"):
            line = self.process.stderr.readline()
            assert line, "the server ended"
        self.address = line.split()[-1].removesuffix("/openapi.json")

    def translate(self):
        request = urllib.request.Request(
            f"{self.address}/translate",
            json.dumps({"lines": ["a"]}).encode(),
            {"Content-Type": "application/json"},
        )
        return json.load(urllib.request.urlopen(request, timeout=60))

    def until_searching(self):
        assert self.process.stdout.readline() == "searching\n"

    def ended(self):
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_answers_requests_in_flight_and_refuses_new_ones(number):
    server, answers = Process(), []
    thread = threading.Thread(target=lambda: answers.append(server.translate()))
    thread.start()
    server.until_searching()
    server.process.send_signal(number)
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        while thread.is_alive():  # the socket is closed, or the answer is 503
            server.translate()
    thread.join()
    assert answers[0]["translations"][0][0]["text"] == "A 0"
    code, err = server.ended()
    lines = err.splitlines()
    if number == signal.SIGINT:
        assert lines.pop(0) == (
            "bahdanau: answering the requests in flight; Ctrl-C again leaves at once"
        )
    assert (code, lines) == (0, ["bahdanau: stopped; all requests in flight were answered"])


def test_a_second_interrupt_leaves_at_once():
    server = Process()
    thread = threading.Thread(target=lambda: pytest.raises(OSError, server.translate))
    thread.start()
    server.until_searching()
    server.process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    server.process.send_signal(signal.SIGINT)
    code, err = server.ended()
    thread.join()
    assert code == 130 and err.splitlines()[-1] == "bahdanau: interrupted"


def test_requests_are_cancelled_after_the_time_of_grace():
    server = Process("--grace-seconds", "0.1")
    thread = threading.Thread(target=lambda: pytest.raises(OSError, server.translate))
    thread.start()
    server.until_searching()
    server.process.send_signal(signal.SIGTERM)
    code, err = server.ended()
    thread.join()
    assert code == 0 and "stopped while a search or a compilation was running" in err


@pytest.fixture
def damaged(trained, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    (folder / run_folder.CONFIG).write_text("{")
    return folder


def test_a_port_in_use_is_one_line(call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = call("serve", "--run", "x", "--port", port)
    assert (code, err.count("\n")) == (2, 1)
    assert f"port {port} of 127.0.0.1 is in use" in err and "--port" in err


@pytest.fixture
def call(command_line, monkeypatch):
    """Runs `bahdanau` in this process; a folder needs no run to be found."""
    monkeypatch.setattr(run_folder, "require", lambda folder: None)
    return command_line


# Options -> a part of the only line.
WRONG = {
    "two runs of one name": (("--run", "a/x", "--run", "b/x"), "two runs are named 'x', a/x and"),
    "no run": ((), "missing: --run"),
    "a port": (("--run", "x", "--port", "70000"), "--port is 70000, but should be"),
    "an address": (("--run", "x", "--host", "192.0.2.1"), "--host 192.0.2.1 --port 8000: "),
    "a name": (("--run", "x", "--host", "no such name"), "--host no such name: "),
    "a limit": (("--run", "x", "--max-lines", "0"), "--max-lines is 0, but should be at least 1"),
    "not a number": (("--run", "x", "--rate", "nan"), "--rate is nan"),
    "the grace": (("--run", "x", "--grace-seconds", "-1"), "--grace-seconds is -1.0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_one_line(call, case):
    arguments, words = WRONG[case]
    code, out, err = call("serve", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1) and words in err


def test_a_missing_package_is_one_line(call, monkeypatch):
    monkeypatch.setattr(serving_settings, "PACKAGES", ("fastapi", "not_installed"))
    code, _, err = call("serve", "--run", "x")
    assert (code, err.count("\n")) == (2, 1)
    assert "needs not_installed: pip install 'bahdanau-jax[serve]'" in err


def test_a_damaged_run_is_one_line(damaged, command_line):
    code, out, err = command_line("serve", "--run", damaged, "--port", "0")
    assert (code, out, err.count("\n")) == (2, "", 1) and "config.json is damaged" in err


def test_code_of_a_run_needs_trust(trained, tmp_path, command_line):
    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    config = json.loads((folder / run_folder.CONFIG).read_text())
    config["model"]["attention"] = "my_scores:mine"
    (folder / run_folder.CONFIG).write_text(json.dumps(config))
    code, out, err = command_line("serve", "--run", folder, "--port", "0")
    assert (code, out, err.count("\n")) == (2, "", 1) and "my_scores:mine" in err
