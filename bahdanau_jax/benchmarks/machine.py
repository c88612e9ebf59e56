"""What a measurement was taken on."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from bahdanau_jax.data import cores


def describe(packages: Sequence[str]) -> dict[str, Any]:
    """Cores, memory, processor, Python, and the versions of some packages."""
    return {
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "processor": _processor(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if "model name" in line]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or sys.platform
