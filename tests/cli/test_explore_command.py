"""bahdanau explore: serves the page until Ctrl-C, and says what is wrong in one line."""

import re
import signal
import socket
import subprocess
import urllib.request

import pytest

from bahdanau_jax.cli import explore_command
from bahdanau_jax.explorer import Page
from tests import small
from tests.serving.conftest import Stub, started

PAGE = Page("<!doctype html><p>page</p>", {"weights-0.bin": b"\x00\x01"}, "")


def test_the_server_answers_the_page_its_files_and_the_endpoints_of_serve():
    run = Stub()
    run.gate.set()
    with started({"a": run}, explore_command.SETTINGS, explore_command.pages(PAGE)) as client:
        page = client.get("/?x=1")
        assert (page.text, page.headers["Content-Type"]) == (PAGE.html, "text/html; charset=utf-8")
        assert page.headers["Cache-Control"] == "no-store"
        assert client.get("/weights-0.bin").content == b"\x00\x01"
        for path in ("/../../etc/passwd", "/weights-1.bin"):
            assert client.get(path).status_code == 404
        answer = client.until_ready().post("/translate", json={"lines": ["a"]})
        assert answer.json()["translations"][0][0]["text"] == "A 0"


FAULTS = {
    ("--run", "nowhere"): "nowhere holds no run",
    (): "missing: --run",
    ("--run", "a", "--run", "b", "--run", "c"): "--run is given 3 times",
    ("--run", "RUN", "--port", "70000"): "--port is 70000, but should be between 0 and 65535",
    ("--run", "RUN", "--run", "RUN"): "is given twice",
    ("--run", "RUN", "--host", "203.0.113.1"): "--host 203.0.113.1 --port 8008: ",
    ("--run", "RUN", "--gold", "x"): "--gold needs --reference, which is missing",
    ("--run", "RUN", "--input", "none.txt"): "none.txt: no such file (--input)",
}


@pytest.mark.parametrize("arguments", FAULTS)
def test_faults_of_the_command_line_are_one_line(command_line, tmp_path, arguments):
    (tmp_path / "config.json").write_text("{}")
    written = [str(tmp_path) if each == "RUN" else each for each in arguments]
    code, out, err = command_line("explore", *written)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert FAULTS[arguments] in err


def test_a_port_in_use_is_one_line(command_line, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = command_line("explore", "--run", tmp_path, "--port", port)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"port {port} of 127.0.0.1 is in use" in err and "--port" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_a_run_and_ends_at_a_signal(trained, number):
    process = subprocess.Popen(
        small.command("explore", "--run", trained[0], "--port", 0),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=small.ROOT,
    )
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url), process.stderr.read()
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert b"RNNsearch" in answer.read()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err
    assert "bahdanau: stopped; all requests in flight were answered\n" in err
