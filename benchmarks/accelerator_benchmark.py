"""Measures an accelerator within a time limit, part by part, into one file.

The file is written again after every figure, so a command that is killed loses only the figure
under way. A part that fails is recorded with its error, and a part that does not fit into the time
left is left out. This process does not use the accelerator: each program that does runs alone.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import bahdanau_jax
from bahdanau_jax.atomic import write_text
from bahdanau_jax.config import Config
from bahdanau_jax.names import choose
from bahdanau_jax.parsing import finite
from bahdanau_jax.reporting import say
from bahdanau_jax.training import run_record
from benchmarks import accelerator_parts, machine
from benchmarks.accelerator_parts import LEAST_SECONDS, Part
from benchmarks.accelerator_plan import FULL, Request, Scale
from benchmarks.peers import process

RESULTS = "accelerator.json"  # in the output folder
PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")
ENVIRONMENT = ("JAX_", "XLA_")  # the prefixes of variables that are recorded
GPUS = ("nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv")
RESERVE = 10.0  # seconds at the end that no part gets


class Measured(NamedTuple):
    """A part of the benchmark, and its share of the time."""

    measure: Callable[[Part, Request, Scale], None]
    share: float  # of the time, relative to the parts that are still to come
    least: float = LEAST_SECONDS  # with less time than this it is left out
    why: str = ""  # it needs so many seconds, for the line about it


# In this order; what one part leaves over goes to the next.
PARTS: Mapping[str, Measured] = MappingProxyType(
    {
        "correctness": Measured(accelerator_parts.correctness, 0.15),
        "training": Measured(accelerator_parts.training, 0.42),
        "profile": Measured(accelerator_parts.profile, 0.08),
        "decoding": Measured(accelerator_parts.decoding, 0.13),
        "torch": Measured(accelerator_parts.torch, 0.14),
        "learning": Measured(
            accelerator_parts.learning,
            0.08,
            150.0,
            "its first evaluation comes after over 60 s: choose --parts learning and more time",
        ),
    }
)


def run(
    output: Path,
    minutes: float = 9.0,
    parts: Sequence[str] = (),
    scale: Scale = FULL,
    torch_python: Path | None = None,
    config: Config | None = None,
) -> dict[str, Any]:
    """Measure the parts, by default all, and return where the results are and what was left out.

    `torch` needs `torch_python`, and `learning` needs a `config`. Raises ValueError for unknown
    parts, and for a folder with earlier results.
    """
    chosen = {name: choose(PARTS, name, "part") for name in parts or PARTS}
    path = output / RESULTS
    if path.exists():
        raise ValueError(f"{path} exists already: name another --output, or delete it")
    if torch_python is not None:
        torch_python = process.located("--torch-python", torch_python)
    output.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + max(0.0, 60 * minutes - RESERVE)
    results: dict[str, Any] = {
        "machine": machine.describe(PACKAGES),
        **_circumstances(),
        "minutes": minutes,
        "scale": scale._asdict() | {"size": scale.size._asdict()},
        "parts": {},
    }

    def save() -> None:
        write_text(path, json.dumps(finite(results), indent=1) + "\n")

    save()
    with tempfile.TemporaryDirectory(prefix="accelerator-", ignore_cleanup_errors=True) as folder:
        request = Request(output, Path(folder), torch_python, config)
        waiting = {name: part.share for name, part in chosen.items() if not request.missing(name)}
        for name, part in chosen.items():
            shares = sum(waiting.values())
            share = waiting.pop(name, 0.0)
            seconds = (until - time.monotonic()) * share / shares if share else 0.0
            figures = results["parts"][name] = {"limit_seconds": round(seconds, 1)}
            _measure(name, part, request, scale, Part(figures, save, time.monotonic() + seconds))
            save()
    return {"results": str(path), "parts": {n: _summary(p) for n, p in results["parts"].items()}}


def _circumstances() -> dict[str, Any]:
    """What else decides the figures: variables, the commit, and NVIDIA's driver and clocks."""
    return {
        "environment": {n: v for n, v in sorted(os.environ.items()) if n.startswith(ENVIRONMENT)},
        "git": run_record.git(Path(bahdanau_jax.__file__).parent),
        "gpus": _gpus(),
    }


def _gpus() -> list[str] | str | None:
    """The lines of nvidia-smi, or its error; None where there is no such program."""
    try:
        done = subprocess.run(GPUS, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    lines = (done.stderr.strip() or done.stdout.strip()) if done.returncode else done.stdout
    return lines.splitlines()


def _measure(name: str, measured: Measured, request: Request, scale: Scale, part: Part) -> None:
    """Measure a part; its results have `failed` or `left_out` where not all was measured."""
    start, seconds = time.monotonic(), part.left()
    if missing := request.missing(name):
        part.results["left_out"] = [missing]
        return
    if seconds < measured.least:
        line = f"{seconds:.0f} s were left, and this part needs at least {measured.least:.0f}"
        line += f"; {measured.why}" if measured.why else ""
        say(f"{name}: left out, {line}")
        part.results["left_out"] = [line]
        return
    say(f"{name}: at most {seconds:.0f} s")
    try:
        measured.measure(part, request, scale)
    except Exception as error:  # whatever it is, the other parts are still to be measured
        part.results["failed"] = f"{type(error).__name__}: {error}"
        say(f"{name}: failed, {part.results['failed']}")
    part.results["seconds"] = round(time.monotonic() - start, 1)


def _summary(part: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader wants to know at once: how many figures there are, and which are missing."""
    figures = part.get("figures", [])
    failed = [each for each in figures if "failed" in each or each.get("passed") is False]
    chosen = {name: part[name] for name in ("seconds", "failed", "left_out") if part.get(name)}
    return {"figures": len(figures), "failed_figures": failed, **chosen}
