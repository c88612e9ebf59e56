"""bahdanau explore: serves the page until Ctrl-C, and says what is wrong in one line."""

import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from bahdanau_jax.explorer import Page, address, bind
from tests import small

PAGE = Page("<!doctype html><p>page</p>", {"weights-0.bin": b"\x00\x01"}, "")


def fetch(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read()


def test_the_server_answers_the_page_and_its_files_alone():
    import threading

    with bind(PAGE, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = address(server)
        assert fetch(f"{url}?x=1") == ("text/html; charset=utf-8", PAGE.html.encode())
        assert fetch(f"{url}weights-0.bin")[1] == b"\x00\x01"
        for path in ("../../etc/passwd", "weights-1.bin"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetch(url + path)
        server.shutdown()
        thread.join()


def test_a_port_in_use_is_one_line():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match=r"^port \d+ of 127.0.0.1 is in use: choose another --port"),
    ):
        bind(PAGE, "127.0.0.1", taken.getsockname()[1])
    with pytest.raises(OSError, match="cannot be served"):
        bind(PAGE, "203.0.113.1", 0)


FAULTS = {
    ("--run", "nowhere"): "nowhere holds no run",
    (): "missing: --run",
    ("--run", "a", "--run", "b", "--run", "c"): "--run is given 3 times",
    ("--run", "RUN", "--port", "70000"): "--port is 70000, but should be between 0 and 65535",
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
    assert b"RNNsearch" in fetch(url)[1]
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and "Traceback" not in err
