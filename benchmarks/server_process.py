"""A process of `bahdanau serve`, its metrics, and clients that ask it over HTTP."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import process

LONGEST = 200  # characters of a line that a client sends


class Server:
    """A process of `bahdanau serve` on a free port, which is ready once the context begins.

    Raises ValueError, with its last message, where it ends before.

    >>> with Server(Path("runs/quickstart"), ["--batch-lines", "1"]) as server:
    ...     server.metrics()["bahdanau_requests_total"]
    """

    def __init__(self, run: Path, options: Sequence[str] = (), trust_code: bool = False):
        self._command = [sys.executable, "-m", "bahdanau_jax", "serve", "--run", str(run)]
        self._command += ["--port", "0", "--rate", "0", "--trust-code", str(trust_code), *options]

    def __enter__(self) -> "Server":
        start = time.perf_counter()
        self._process = process.begin("the server", self._command, stderr=subprocess.PIPE)
        try:
            self._wait()
        except BaseException:
            self._process.kill()
            self._process.communicate()
            raise
        self.seconds_until_ready = time.perf_counter() - start
        assert self._process.stderr is not None
        self._rest = threading.Thread(target=self._process.stderr.read)
        self._rest.start()  # a full pipe would stop the server
        return self

    def _wait(self) -> None:
        """Wait for the line that tells the server's address."""
        assert self._process.stderr is not None
        written = []
        for line in self._process.stderr:
            written.append(line)
            if ready := re.match(r"bahdanau: ready; see http://([^:/]+):(\d+)/", line):
                self.host, self.port = ready[1], int(ready[2])
                return
        raise ValueError(f"the server ended: {written[-1].strip() if written else 'no message'}")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.exit_code = self._process.wait()
        self._rest.join()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def metrics(self) -> dict[str, float]:
        """Return the server's numbers at this moment, as `numbers` does."""
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/metrics") as answer:
            return numbers(answer.read().decode())


def numbers(text: str) -> dict[str, float]:
    r"""Return the numbers of Prometheus's text format; those of several labels are added up.

    The buckets of a histogram stay apart: the bound `le` is a part of their name.

    >>> numbers('lines_bucket{le="2.0",run="a"} 3\nlines_bucket{le="2.0",run="b"} 4')
    {'lines_bucket 2.0': 7.0}
    """
    table: dict[str, float] = defaultdict(float)
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            bound = re.search(r'\ble="([^"]+)"', name)
            table[name.partition("{")[0] + (f" {bound[1]}" if bound else "")] += float(value)
    return table


class Answer(NamedTuple):
    """The answer to one request."""

    status: int
    content: bytes
    seconds: float  # from the first byte of the request to the last one of the answer


class Client:
    """One connection to a server, which sends one request after the other."""

    def __init__(self, server: Server):
        self._server = server

    async def __aenter__(self) -> "Client":
        host, port = self._server.host, self._server.port
        self._reader, self._writer = await asyncio.open_connection(host, port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def translate(self, body: bytes) -> Answer:
        """Send a request to /translate, and wait for the whole answer.

        Raises OSError or asyncio.IncompleteReadError where the connection breaks.
        """
        start = time.perf_counter()
        host = self._server.host
        head = f"POST /translate HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = re.search(r"\r\ncontent-length: (\d+)", answered)
        content = await self._reader.readexactly(int(size[1]) if size else 0)
        seconds = time.perf_counter() - start
        return Answer(int(answered.split(maxsplit=2)[1]), content, seconds)


def request(line: str, search: Mapping[str, Any]) -> bytes:
    """The body of a request to /translate."""
    return json.dumps({"lines": [line], "search": dict(search)}).encode()


def one_by_one(
    server: Server, lines: Sequence[str], search: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[float]]:
    """Translate each line by a request of its own; return the best hypotheses and the seconds.

    Raises ValueError where the server refuses a request.
    """

    async def every() -> list[Answer]:
        async with Client(server) as client:
            return [await client.translate(request(line, search)) for line in lines]

    answers = asyncio.run(every())
    contents = [json.loads(answer.content) for answer in answers]
    for answer, content in zip(answers, contents, strict=True):
        if answer.status != 200:
            raise ValueError(f"the server answered {answer.status}: {content['error']}")
    best = [content["translations"][0][0] for content in contents]
    return best, [answer.seconds for answer in answers]
