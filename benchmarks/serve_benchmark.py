"""Load on `bahdanau serve`: many clients at once, with and without shared searches."""

import asyncio
import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bahdanau_jax import data, run_folder
from bahdanau_jax.config import Config
from bahdanau_jax.reporting import say
from benchmarks import machine
from benchmarks.program_cache import empty_cache
from benchmarks.sentence_latency import percentiles
from benchmarks.server_process import LONGEST, Client, Server, one_by_one, request

# Name -> the options of the server that it measures.
SERVERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"requests share searches": (), "each request has its own search": ("--batch-lines", "1")}
)
MEMORY = "process_resident_memory_bytes"
PARTS = 4  # of the time of the load, after each of which the memory is measured


def run(
    folder: Path,
    clients: int,
    seconds: float,
    corpus: str,
    beams: Sequence[int],
    trust_code: bool = False,
) -> dict[str, Any]:
    """Measure a run behind servers of its own, one after the other.

    Each server answers `clients` for some seconds. Before, one client alone asks with each beam
    size for a tenth of that time. Raises ValueError where a server does not start.
    """
    lines, servers = lines_of(folder, corpus), {}
    for name, options in SERVERS.items():
        say(f"server: {name}")
        with empty_cache(), Server(folder, options, trust_code) as server:
            alone = {}
            for beam in beams:
                search = {"beam_size": beam}
                say(f"one client, beam {beam}")
                _compile(server, lines, search)
                alone[f"beam {beam}"] = load(server, lines, 1, max(seconds / 10, 1.0), search)
            _compile(server, lines, {})
            say(f"{clients} clients for {seconds:g} s")
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


def _compile(server: Server, lines: Sequence[str], search: Mapping[str, Any]) -> None:
    """Ask once for a line of each length: the programs of this beam size may not exist yet."""
    lengths = {len(line.split()): line for line in lines}
    one_by_one(server, [*lengths.values()], search)


@dataclass
class Answers:
    """The answers to all clients, and the server's memory meanwhile."""

    seconds: list[float] = field(default_factory=list)  # latencies of status 200
    statuses: Counter[str] = field(default_factory=Counter)
    resident: list[float] = field(default_factory=list)  # bytes, from the start to the end


def load(
    server: Server, lines: Sequence[str], clients: int, seconds: float, search: Mapping[str, Any]
) -> dict[str, Any]:
    """Let clients ask for translations of one line each, and describe the answers."""
    bodies = itertools.cycle([request(line, search) for line in lines])
    before = server.metrics()
    answers = Answers(resident=[before[MEMORY]])

    async def every() -> None:
        until = time.perf_counter() + seconds
        asking = (_ask(server, bodies, until, answers) for _ in range(clients))
        await asyncio.gather(_watch(server, seconds, answers), *asking)

    start = time.perf_counter()
    asyncio.run(every())
    spent, after = time.perf_counter() - start, server.metrics()
    answers.resident.append(after[MEMORY])
    return {**described(answers, spent), **grown(before, after), **memory(answers.resident)}


async def _ask(server: Server, bodies: Iterator[bytes], until: float, answers: Answers) -> None:
    """Send one request after the other on one connection."""
    try:
        async with Client(server) as client:
            while time.perf_counter() < until:
                answer = await client.translate(next(bodies))
                answers.statuses[str(answer.status)] += 1
                if answer.status == 200:
                    answers.seconds.append(answer.seconds)
    except (OSError, asyncio.IncompleteReadError) as error:
        answers.statuses[type(error).__name__] += 1


async def _watch(server: Server, seconds: float, answers: Answers) -> None:
    """Measure the server's memory between the parts of the time."""
    for _ in range(PARTS - 1):
        await asyncio.sleep(seconds / PARTS)
        answers.resident.append((await asyncio.to_thread(server.metrics))[MEMORY])


def described(answers: Answers, seconds: float) -> dict[str, Any]:
    """Return the numbers of the answers: errors, rate and latencies in milliseconds."""
    total = answers.statuses.total()
    table: dict[str, Any] = {
        "requests": total,
        "errors": total - answers.statuses["200"],
        "statuses": dict(answers.statuses),
        "requests_per_second": round(answers.statuses["200"] / seconds, 2),
    }
    return {**table, **percentiles(answers.seconds)} if answers.seconds else table


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, Any]:
    """Return what the server did between two readings of its metrics.

    `searches` has the number of searches by their lines, such as {"1": 3, "3 to 4": 7}.
    """

    def growth(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    lines = "bahdanau_batch_lines"
    bounds = [name.split()[1] for name in after if name.startswith(f"{lines}_bucket ")]
    searches, below, counted = {}, 0, 0.0
    for bound in sorted(bounds, key=float):  # a bucket counts searches of at most this many lines
        within = growth(f"{lines}_bucket {bound}")
        if within > counted:
            searches[_between(below, float(bound))] = round(within - counted)
        counted, below = within, float(bound)
    return {
        "lines_per_search": round(growth(f"{lines}_sum") / max(growth(f"{lines}_count"), 1), 2),
        "searches": searches,
        "compilations": round(growth("bahdanau_compilations_total")),
    }


def _between(below: float, most: float) -> str:
    if math.isinf(most):
        return f"above {below:.0f}"
    return f"{most:.0f}" if most == below + 1 else f"{below + 1:.0f} to {most:.0f}"


def memory(resident: Sequence[float]) -> dict[str, Any]:
    """Return the server's memory from the start to the end of the load, and its growth.

    The growth of the second half of the time shows whether the memory becomes constant.
    """
    mib = [size / 2**20 for size in resident]
    return {
        "resident_mib": [round(size) for size in mib],
        "growth_mib": round(mib[-1] - mib[0], 1),
        "growth_of_second_half_mib": round(mib[-1] - mib[len(mib) // 2], 1),
    }
