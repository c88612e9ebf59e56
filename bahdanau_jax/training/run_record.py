"""record.json: the command, settings, versions and devices of each start of a run."""

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

from bahdanau_jax.atomic import write_text
from bahdanau_jax.config import Config
from bahdanau_jax.data import cores
from bahdanau_jax.distributed import is_main_process, process_count
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.run_folder import RECORD

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy")
ENVIRONMENT = ("JAX_", "XLA_", "BAHDANAU_")  # the prefixes of variables that are recorded


def append_record(workdir: Path, config: Config, step: int, has_ended: bool) -> None:
    """Add this start to the list in record.json, which is replaced atomically.

    A start with no update left to make, `has_ended`, adds nothing, unless it is the first. A
    damaged file is renamed to record.json.damaged. Only the main process writes.
    """
    if not is_main_process():
        return
    path = Path(workdir) / RECORD
    entries = _read(path)
    if entries and has_ended:
        return
    entries.append(describe(config, step))
    text = json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
    # Bytes of the command or the environment that are no UTF-8 become escapes of JSON.
    write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))


def read_record(workdir: Path) -> list[dict[str, Any]]:
    """The starts of a run, the first one first; [] where record.json is missing or damaged."""
    try:
        entries = parse_json((Path(workdir) / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return (
        [start for start in entries if isinstance(start, dict)] if isinstance(entries, list) else []
    )


def _read(path: Path) -> list:
    try:
        entries = parse_json(path.read_text(encoding="utf-8"))
        if isinstance(entries, list):
            return entries
    except FileNotFoundError:
        return []
    except ValueError:
        pass
    path.replace(path.with_name(f"{RECORD}.damaged"))
    return []


def describe(config: Config, step: int) -> dict[str, Any]:
    """A start: its time, command, settings, seed, versions, devices and commit."""
    devices = jax.devices()
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "step": step,
        "command": sys.argv,
        "seed": config.training.seed,
        "versions": {"python": platform.python_version(), **_versions()},
        "platform": platform.platform(),
        "machine": machine(),
        "devices": {
            "backend": jax.default_backend(),
            "kind": devices[0].device_kind,
            "count": len(devices),
            "processes": process_count(),
        },
        "git": git(Path(__file__).parent),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(ENVIRONMENT)
        },
        "config": json.loads(config.to_json()),
    }


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, and memory."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if "model name" in line]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or sys.platform


def _versions() -> dict[str, str]:
    versions = {}
    for name in ("bahdanau-jax", *PACKAGES):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def git(folder: Path) -> dict[str, Any] | None:
    """The commit of the checkout that contains this code, and whether files differ from it.

    None where the code is installed outside a checkout, or where git is missing.
    """

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True
        ).stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", "__init__.py")
        commit = ask("rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(ask("status", "--porcelain", "."))}
    except (OSError, subprocess.SubprocessError):
        return None
