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
WARM_UPS = 2  # updates before the timed ones
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
        environment = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        with Peer("the profile", command, environment=environment) as program:
            profiles.append({"size": each._asdict(), **program.greeting})
    return {
        "machine": machine.describe(PACKAGES),
        "compute_dtype": compute_dtype,
        "updates": count,
        "sizes": profiles,
    }


def sources(program: str) -> dict[str, str]:
    """Instruction of a compiled program -> where it comes from in the model: its `op_name`."""
    lines = filter(None, map(INSTRUCTION.match, program.splitlines()))
    found = ((line["name"], SOURCE.search(line["text"])) for line in lines)
    return {name: source[1] for name, source in found if source}


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


def main() -> None:
    """The program: its argument is a size, a compute dtype and a number of updates as JSON."""
    answers, request = serving.Answers(), json.loads(sys.argv[1])
    size, count = Size(**request["size"]), request["count"]
    config = updates.architecture(size, compute_dtype=request["compute_dtype"])
    updates.as_a_training(updates.of_size(config, size))
    state, step, *_ = updates.ours(config, updates.parameters(config))
    batch = jax.device_put(updates.random_batch(size))
    compiled = step.lower(state, batch).compile()
    program, seconds = compiled.as_text(), []
    for _ in range(WARM_UPS):
        state, _ = jax.block_until_ready(compiled(state, batch))
    processor = time.process_time()
    for _ in range(count):
        start = time.perf_counter()
        state, _ = jax.block_until_ready(compiled(state, batch))
        seconds.append(time.perf_counter() - start)
    busy = (time.process_time() - processor) / sum(seconds) / data.cores()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(count):
                state, _ = jax.block_until_ready(compiled(state, batch))
        kinds = dict.fromkeys(products(program), PRODUCT)
        table = profile_table.read(Path(folder), count, kinds)
    named = sources(program)
    for row in table["operations"]:
        row["source"] = named.get(row["name"], "")
    answers.give(
        {
            "seconds_per_update": round(statistics.median(seconds), 5),
            "busy_share_of_cores": round(busy, 3),
            "traced": table,
        }
    )
