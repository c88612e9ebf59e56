"""Load on `bahdanau serve`: many clients at once, with and without shared searches."""

import asyncio
import itertools
import json
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bahdanau_jax import data, run_folder
from bahdanau_jax.config import Config
from benchmarks import machine

# Name -> the options of the server that it measures.
SERVERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"requests share searches": (), "each request has its own search": ("--batch-lines", "1")}
)
LONGEST = 200  # characters of a line


def lines_of(run: Path, corpus: str) -> list[str]:
    """Return the first lines of a corpus, by default the test corpus of the run."""
    config = Config.load(run / run_folder.CONFIG)
    spec = corpus or config.data.test
    if not spec:
        raise ValueError("the run has no test corpus: name one with --corpus text:F,F")
    sources = (pair.source.strip() for pair in data.pairs(spec, config.data))
    lines = [*itertools.islice((line for line in sources if 0 < len(line) <= LONGEST), 2_000)]
    if not lines:
        raise ValueError(f"{spec} has no line of at most {LONGEST} characters")
    return lines


class Server:
    """A process of `bahdanau serve` on a free port, which is ready once the context begins."""

    def __init__(self, run: Path, options: Sequence[str]):
        self._command = [sys.executable, "-m", "bahdanau_jax.cli.main", "serve", "--run", str(run)]
        self._command += ["--port", "0", "--rate", "0", *options]

    def __enter__(self) -> "Server":
        start = time.perf_counter()
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        written = []
        for line in self._process.stderr:
            written.append(line)
            if ready := re.match(r"bahdanau: ready; see http://([^:/]+):(\d+)/", line):
                self.host, self.port = ready[1], int(ready[2])
                self.seconds_until_ready = time.perf_counter() - start
                self._rest = threading.Thread(target=self._process.stderr.read)
                self._rest.start()  # a full pipe would stop the server
                return self
        raise ValueError(f"the server ended: {written[-1].strip() if written else 'no message'}")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.exit_code = self._process.wait()
        self._rest.join()

    def metrics(self) -> dict[str, float]:
        """Return the server's numbers by their names; those of several labels are added up."""
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/metrics") as answer:
            text = answer.read().decode()
        numbers: dict[str, float] = defaultdict(float)
        for line in text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                numbers[name.partition("{")[0]] += float(value)
        return numbers


@dataclass
class Answers:
    """The answers to all clients."""

    seconds: list[float] = field(default_factory=list)  # latencies of status 200
    statuses: Counter[str] = field(default_factory=Counter)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> int:
    """Send one request on an open connection; return the status of the answer."""
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    answered = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    size = re.search(r"\r\ncontent-length: (\d+)", answered)
    await reader.readexactly(int(size[1]) if size else 0)
    return int(answered.split(maxsplit=2)[1])


async def _client(server: Server, bodies: Iterator[bytes], until: float, answers: Answers) -> None:
    """Send one request after the other on one connection."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        while time.perf_counter() < until:
            start = time.perf_counter()
            status = await _ask(reader, writer, next(bodies))
            answers.statuses[str(status)] += 1
            if status == 200:
                answers.seconds.append(time.perf_counter() - start)
    except (OSError, asyncio.IncompleteReadError) as error:
        answers.statuses[type(error).__name__] += 1
    finally:
        writer.close()


def load(
    server: Server, lines: Sequence[str], clients: int, seconds: float, search: dict[str, Any]
) -> dict[str, Any]:
    """Let clients ask for translations of one line each, and describe the answers."""
    bodies = itertools.cycle(
        [json.dumps({"lines": [line], "search": search}).encode() for line in lines]
    )
    answers, before = Answers(), server.metrics()

    async def every() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(_client(server, bodies, until, answers) for _ in range(clients)))

    start = time.perf_counter()
    asyncio.run(every())
    spent, after = time.perf_counter() - start, server.metrics()
    return {**described(answers, spent), **_grown(before, after)}


def described(answers: Answers, seconds: float) -> dict[str, Any]:
    """Return the numbers of the answers: errors, rate and latencies in milliseconds."""
    total = answers.statuses.total()
    table: dict[str, Any] = {
        "requests": total,
        "errors": total - answers.statuses["200"],
        "statuses": dict(answers.statuses),
        "requests_per_second": round(answers.statuses["200"] / seconds, 2),
    }
    if len(answers.seconds) > 1:
        percentiles = statistics.quantiles(answers.seconds, n=100, method="inclusive")
        for percent in (50, 95, 99):
            table[f"p{percent}_ms"] = round(1000 * percentiles[percent - 1], 2)
    return table


def _grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, Any]:
    def mean(name: str) -> float:
        count = after[f"{name}_count"] - before[f"{name}_count"]
        return round((after[f"{name}_sum"] - before[f"{name}_sum"]) / max(count, 1), 2)

    memory = "process_resident_memory_bytes"
    return {
        "lines_per_search": mean("bahdanau_batch_lines"),
        "compilations": after["bahdanau_compilations_total"]
        - before["bahdanau_compilations_total"],
        "resident_mib": [round(numbers[memory] / 2**20) for numbers in (before, after)],
    }


def run(
    folder: Path, clients: int, seconds: float, corpus: str, beams: Sequence[int]
) -> dict[str, Any]:
    """Measure a run behind servers of its own, one after the other.

    Each server answers `clients` for some seconds. Before, one client alone asks with each beam
    size for a tenth of that time. Raises ValueError where a server does not start.
    """
    lines, servers = lines_of(folder, corpus), {}
    for name, options in SERVERS.items():
        with Server(folder, options) as server:
            alone = {}
            for beam in beams:
                search = {"beam_size": beam}
                _compile(server, lines, search)
                alone[f"beam {beam}"] = load(server, lines, 1, max(seconds / 10, 1.0), search)
            loaded = load(server, lines, clients, seconds, {})
        servers[name] = {
            "seconds_until_ready": round(server.seconds_until_ready, 1),
            "one client": alone,
            "all clients": loaded,
            "exit_code": server.exit_code,
        }
    return {
        "machine": machine.describe(["jax", "jaxlib", "fastapi", "uvicorn"]),
        "device": machine.device(),
        "clients": clients,
        "seconds": seconds,
        "lines": len(lines),
        "servers": servers,
    }


def _compile(server: Server, lines: Sequence[str], search: dict[str, Any]) -> None:
    """Ask once for a line of each length: the programs of this beam size may not exist yet."""
    lengths = {len(line.split()): line for line in lines}
    for line in lengths.values():
        body = json.dumps({"lines": [line], "search": search}).encode()
        request = urllib.request.Request(
            f"http://{server.host}:{server.port}/translate",
            body,
            {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request).close()
