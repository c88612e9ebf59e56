"""Profiles an update on a CPU: its costliest operations, and the share of matrix products.

XLA records the operations of a CPU only with a flag that it reads when the process starts. The
update therefore runs in a process of its own.
"""

import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from bahdanau_jax import data, model
from bahdanau_jax.names import choose
from benchmarks import machine, profile_table, sizes, updates
from benchmarks.peers import process, serving
from benchmarks.peers.process import Peer
from benchmarks.sizes import Size

PACKAGES = ("jax", "jaxlib", "numpy")
FLAG = "--xla_cpu_enable_xprof_traceme=true"
PRODUCT = "matrix product"  # the kind of all operations that multiply matrices
INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?(?P<name>[\w.-]+) = (?P<text>.*)")
COMPUTATION = re.compile(r"(?:ENTRY )?%?(?P<name>[\w.-]+) .*\{$")
SOURCE = re.compile(r'op_name="([^"]*)"')


def run(size: str = "small", compute_dtype: str = "float32", count: int = 8) -> dict[str, Any]:
    """Time `count` updates of each length of a size, and then trace as many.

    Raises ValueError for unknown names, and where the program fails.
    """
    choose(model.COMPUTE_DTYPES, compute_dtype, "compute_dtype")
    profiles = []
    for each in choose(sizes.SIZES, size, "size"):
        request = {"size": each._asdict(), "compute_dtype": compute_dtype, "count": count}
        command = process.ours("benchmarks.update_profile", json.dumps(request))
        flags = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()
        with Peer("the profile", command, environment={"XLA_FLAGS": flags}) as program:
            profiles.append({"size": each._asdict(), **program.greeting})
    return {
        "machine": machine.describe(PACKAGES),
        "compute_dtype": compute_dtype,
        "updates": count,
        "sizes": profiles,
    }


def sources(program: str) -> dict[str, str]:
    """Instruction of a compiled program -> where it comes from in the model: its `op_name`."""
    found = ((line, SOURCE.search(line["text"])) for line in _instructions(program))
    return {line["name"]: source[1] for line, source in found if source}


def products(program: str) -> set[str]:
    """The instructions that multiply matrices: dots, and fusions that contain one."""
    computations, dots = {}, set()
    for line in program.splitlines():
        if opened := COMPUTATION.match(line):
            computation = opened["name"]
        elif found := INSTRUCTION.match(line):
            if re.search(r"\bdot\(", found["text"]):
                dots |= {found["name"], computation}
            elif called := re.search(r"\bfusion\(.*calls=%?([\w.-]+)", found["text"]):
                computations[found["name"]] = called[1]
    return dots | {name for name, called in computations.items() if called in dots}


def _instructions(program: str) -> Iterator[re.Match[str]]:
    return filter(None, map(INSTRUCTION.match, program.splitlines()))


def main() -> None:
    """The program: its argument is a size, a compute dtype and a number of updates as JSON."""
    serving.keep_memory()
    answers, request = serving.Answers(), json.loads(sys.argv[1])
    size, count = Size(**request["size"]), request["count"]
    config = updates.architecture(size, compute_dtype=request["compute_dtype"])
    state, step, *_ = updates.ours(config, updates.parameters(config))
    batch = jax.device_put(updates.random_batch(size))
    compiled = step.lower(state, batch).compile()
    program, seconds = compiled.as_text(), []
    for number in range(2 + count):  # the first two warm up
        if number == 2:
            began, processor = time.perf_counter(), time.process_time()
        start = time.perf_counter()
        state, sums = jax.block_until_ready(compiled(state, batch))
        seconds.append(time.perf_counter() - start)
    processor = time.process_time() - processor
    busy = processor / (time.perf_counter() - began) / data.cores()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(count):
                state, sums = jax.block_until_ready(compiled(state, batch))
        kinds = dict.fromkeys(products(program), PRODUCT)
        table = profile_table.read(Path(folder), count, kinds)
    named = sources(program)
    for row in table["operations"]:
        row["source"] = named.get(row["name"], "")
    answers.give(
        {
            "seconds_per_update": round(statistics.median(seconds[2:]), 5),
            "busy_share_of_cores": round(busy, 3),
            "traced": table,
        }
    )
