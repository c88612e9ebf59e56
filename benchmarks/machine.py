"""Describes the machine of a measurement, and samples memory."""

import importlib.metadata
import os
import platform
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax.training import machine


def describe(packages: Sequence[str]) -> dict[str, Any]:
    """Cores, memory, processor, Python, and the versions of some packages."""
    return {
        **machine(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }


def device() -> str:
    """The device of JAX: "cpu", or the name of the first accelerator, such as "NVIDIA H200"."""
    import jax

    first = jax.local_devices()[0]
    return first.platform if first.platform == "cpu" else first.device_kind


class PeakMemory:
    """Samples the peak memory of this process and its children together. Linux only.

    >>> with PeakMemory() as peak:
    ...     work()
    >>> peak.mib
    """

    SECONDS = 0.05  # between samples

    def __init__(self):
        self.mib = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        # A child counts from its second sample on: until it runs its program, it has this process's
        # memory, which would count twice.
        before = {os.getpid()}
        while True:
            family = {*_family(os.getpid())}
            held = sum(_resident(process) for process in family & before)
            self.mib = max(self.mib, held / 2**20)
            before = family
            if self._done.wait(self.SECONDS):
                return


def _family(process: int) -> Iterator[int]:
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                yield from _family(int(child))
        except OSError:  # the process has ended
            continue


def _resident(process: int) -> int:
    """The bytes of a process in memory, where each sharing process has a share of a page."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        (kib,) = (line.split()[1] for line in lines if line.startswith("Pss:"))
    except (OSError, ValueError):  # the process has ended
        return 0
    return int(kib) * 1024
