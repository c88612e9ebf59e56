"""`bahdanau serve` as a process: its signals, its exit codes, and what it refuses to begin with."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

from bahdanau_jax import run_folder
from tests import small

# `bahdanau serve` with a stand-in for the model, whose searches end when stdin has a line for each.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores Ctrl-C
from bahdanau_jax import run_folder, trained
from bahdanau_jax.cli import main
from tests.serving.conftest import Stub

class Slow:
    def wait(self, seconds):
        print("searching", flush=True)
        return bool(sys.stdin.readline())

run_folder.check_run = lambda folder: None
trained.load = lambda folder, **how: Stub(gate=Slow())
own = ["serve", "--run", "stub", "--port", "0", "--warm-tokens", "0"]
sys.argv = ["bahdanau", *own, *sys.argv[1:]]
sys.exit(main.main())
"""


PATIENCE = 300  # seconds, on a busy machine


class Process:
    """The server in its own process; `address` is known once it is ready."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=small.ROOT,
            env={**os.environ, "PYTHONPATH": str(small.ROOT)},
        )
        line = ""
        while not line.startswith("bahdanau: ready"):
            line = self.said()
            assert line, "the server ended"
        self.address = line.split()[-1].removesuffix("/openapi.json")

    def said(self):
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def finish_search(self):
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def translate(self):
        request = urllib.request.Request(
            f"{self.address}/translate",
            json.dumps({"lines": ["a"]}).encode(),
            {"Content-Type": "application/json"},
        )
        return json.load(urllib.request.urlopen(request, timeout=PATIENCE))

    def until_searching(self):
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "searching\n"

    def ended(self):
        self.process.wait(PATIENCE)  # before stdin is closed, which would end the search
        _, err = self.process.communicate()
        return self.process.returncode, err


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="SIGTERM"),
        pytest.param(signal.SIGINT, id="Ctrl-C", marks=pytest.mark.slow),
    ],
)
def test_a_signal_answers_requests_in_flight_and_refuses_new_ones(number):
    server, answers = Process(), []
    thread = threading.Thread(target=lambda: answers.append(server.translate()))
    thread.start()
    server.until_searching()
    server.process.send_signal(number)
    if number == signal.SIGINT:
        assert server.said() == (
            "bahdanau: answering the requests in flight; Ctrl-C again leaves at once\n"
        )
    refused = 0
    while refused < 2:  # the answer is 503, and soon the socket is closed
        with pytest.raises((urllib.error.URLError, ConnectionError)) as error:
            server.translate()
        refused += not isinstance(error.value, urllib.error.HTTPError)
        assert getattr(error.value, "code", 503) == 503
    assert thread.is_alive()
    server.finish_search()
    thread.join()
    assert answers[0]["translations"][0][0]["text"] == "A 0"
    code, err = server.ended()
    assert (code, err) == (0, "bahdanau: stopped; all requests in flight were answered\n")


@pytest.mark.slow
def test_a_second_interrupt_leaves_at_once():
    server = Process()
    thread = threading.Thread(target=lambda: pytest.raises(OSError, server.translate))
    thread.start()
    server.until_searching()
    server.process.send_signal(signal.SIGINT)
    assert "Ctrl-C again" in server.said()
    server.process.send_signal(signal.SIGINT)
    code, err = server.ended()
    thread.join()
    assert code == 130 and err.splitlines()[-1] == "bahdanau: interrupted"


def test_requests_are_refused_after_the_time_of_grace():
    server, errors = Process("--grace-seconds", "0.1"), []

    def ask():
        with pytest.raises(urllib.error.HTTPError) as error:
            server.translate()
        errors.append((error.value.code, json.load(error.value)["error"]))

    thread = threading.Thread(target=ask)
    thread.start()
    server.until_searching()
    server.process.send_signal(signal.SIGTERM)
    code, err = server.ended()
    thread.join()
    assert errors == [(503, "the server stopped before the answer")]
    assert code == 0 and "stopped while a search or a compilation was running" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_body_that_is_half_sent_is_refused_after_the_time_of_grace():
    server = Process("--grace-seconds", "0.1")
    address = urllib.parse.urlsplit(server.address)
    with socket.create_connection((address.hostname, address.port), PATIENCE) as opened:
        # The server asks for the body once it reads it.
        opened.sendall(
            b"POST /translate HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        )
        assert opened.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        opened.sendall(b'{"lines": [')
        server.process.send_signal(signal.SIGTERM)
        with opened.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
    code, err = server.ended()
    assert head.startswith(b"HTTP/1.1 503 ") and b"content-type: application/json" in head
    assert json.loads(body)["error"] == "the server stopped before the answer"
    assert code == 0 and "Traceback" not in err
    assert err.endswith("bahdanau: stopped; requests in flight were cancelled\n")


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
    monkeypatch.setattr(run_folder, "check_run", lambda folder: None)
    return command_line


# Options -> a part of the only line.
WRONG = {
    "a run twice": (("--run", "a/x", "--run", "a/x"), "the run a/x is given twice"),
    "no run": ((), "missing: --run (bahdanau serve --help)"),
    "two checkpoints": (
        ("--run", "a/x@650", "--checkpoint", "700"),
        "a/x@650 and --checkpoint 700 both name a checkpoint: leave one out",
    ),
    "a port": (("--run", "x", "--port", "70000"), "--port is 70000, but should be"),
    "an address": (("--run", "x", "--host", "192.0.2.1"), "--host 192.0.2.1 --port 8000: "),
    "a name": (("--run", "x", "--host", "no such name"), "--host no such name: "),
    "a limit": (("--run", "x", "--max-lines", "0"), "--max-lines is 0, but should be at least 1"),
    "not a number": (("--run", "x", "--rate", "nan"), "--rate is nan"),
    "a proxy by its name": (
        ("--run", "x", "--proxy", "10.0.0.1,proxy"),
        "--proxy is 10.0.0.1,proxy, but should be IP addresses or networks with commas, or *",
    ),
    "a network with bits of a host": (("--run", "x", "--proxy", "10.0.0.1/8"), "--proxy is"),
    "the grace": (("--run", "x", "--grace-seconds", "-1"), "--grace-seconds is -1.0"),
}


@pytest.mark.parametrize("proxy", ["", "*", "10.0.0.1", "10.0.0.0/8, ::1"])
def test_a_proxy_is_an_address_or_a_network(call, proxy):
    _, _, err = call("serve", "--run", "x", "--proxy", proxy, "--grace-seconds", "-1")
    assert "--grace-seconds is -1.0" in err  # which is checked later


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_one_line(call, case):
    arguments, words = WRONG[case]
    code, out, err = call("serve", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1) and words in err


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
