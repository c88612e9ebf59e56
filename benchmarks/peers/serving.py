"""The code of a peer: answers to lines of JSON, memory, allocator. Standard library only.

A peer's own Python imports this file from its folder, and ours imports it from the package.
"""

import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

# The table of `bahdanau_jax.cli.jax_defaults`, which a peer's Python cannot import.
# glibc's mallopt(3): no mmap for large arrays, keep freed memory, grow the heap in large steps, few
# heaps. Page faults of fresh memory cost an eighth of an update.
MALLOC = {-4: 0, -1: 2**31 - 1, -2: 2**28, -8: 1 + (os.cpu_count() or 1)}


def keep_memory() -> None:
    """Make the allocator reuse freed memory; Linux only."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for parameter, value in MALLOC.items():
            mallopt(parameter, value)


def release() -> None:
    """Return freed memory to the kernel; glibc only."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


# As `bahdanau_jax.data.ends_with_parent`, which a peer's Python cannot import.
def end_with_parent() -> None:
    """From now on this process ends after its parent, also in the middle of a case."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


class Answers:
    """Writes answers to stdout, until the parent ends. All other output goes to stderr."""

    def __init__(self) -> None:
        end_with_parent()
        self._file = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def give(self, answer: Mapping[str, Any]) -> None:
        print(json.dumps(answer), file=self._file, flush=True)

    def serve(self, table: Mapping[str, Callable[..., Mapping[str, Any]]]) -> None:
        """Answer requests until stdin ends. "do" of a request is a key of `table`."""
        for line in sys.stdin:
            request = json.loads(line)
            self.give(table[request.pop("do")](**request))


class Stepping:
    """The answers of every trainer, for a function that runs one update and returns its loss."""

    def __init__(self, step: Callable[[], float], device_peak: Callable[[], int] | None = None):
        """`device_peak` returns the peak memory of this process on an accelerator, in bytes."""
        self._step, self._device_peak = step, device_peak

    def step(self, count: int) -> dict[str, Any]:
        """The seconds of `count` updates, and their losses, summed over all words."""
        start, losses = time.perf_counter(), []
        for _ in range(count):
            losses.append(float(self._step()))
        return {"seconds": time.perf_counter() - start, "losses": losses}

    def memory(self, before: float) -> dict[str, Any]:
        """The peak memory of an update above `before` in MiB, or the peak on an accelerator.

        Memory that compilation has freed is returned to the kernel first.
        """
        if self._device_peak is not None:
            self._step()
            return {"device_mib": round(self._device_peak() / 2**20)}
        release()
        forget_peak()
        self._step()
        return {"resident_mib": round(resident("VmHWM") - before)}


def matrix_rate(
    product: Callable[[], Any], wait: Callable[[Any], object], size: int, repeats: int
) -> dict[str, float]:
    """The floating point operations per second of `repeats` products of two square matrices.

    All are started before the last one is waited for.
    """
    wait(product())
    start = time.perf_counter()
    for _ in range(repeats):
        last = product()
    wait(last)
    return {"flops_per_second": 2 * size**3 * repeats / (time.perf_counter() - start)}


def resident(field: str = "VmRSS") -> float:
    """The memory of this process in MiB, or its peak (`VmHWM`); 0 where it is not Linux."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines[field].split()[0]) / 1024
    except (OSError, KeyError):
        return 0.0


def forget_peak() -> None:
    """Reset the peak memory of this process."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:  # the peak then includes compilation
        pass
