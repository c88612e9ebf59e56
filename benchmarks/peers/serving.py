"""The side of a peer: answers to lines of JSON, its memory, its allocator. Standard library alone.

A peer's own Python imports this file from its folder, ours from the package.
"""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

# glibc's mallopt(3): no block of its own for large arrays, keep what is freed, ask for much at a
# time, few heaps. The page faults of fresh memory cost an eighth of an update.
_MALLOC = {-4: 0, -1: 2**31 - 1, -2: 2**28, -8: 1 + (os.cpu_count() or 1)}


def keep_memory() -> None:
    """Let every update reuse the memory of the one before; Linux only."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for parameter, value in _MALLOC.items():
            mallopt(parameter, value)


def release() -> None:
    """Give what is freed back to the kernel; glibc only."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


class Answers:
    """Owns stdout: whatever else is printed goes to stderr."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def give(self, answer: Mapping[str, Any]) -> None:
        print(json.dumps(answer), file=self._file, flush=True)

    def serve(self, table: Mapping[str, Callable[..., Mapping[str, Any]]]) -> None:
        """Answer until stdin ends; a request names what to "do" and holds its arguments."""
        for line in sys.stdin:
            request = json.loads(line)
            self.give(table[request.pop("do")](**request))


class Stepping:
    """What every trainer answers, around a function that makes one update and returns its loss."""

    def __init__(self, step: Callable[[], float], device_peak: Callable[[], int] | None = None):
        """`device_peak`: the most bytes of an accelerator that this process held so far."""
        self._step, self._device_peak = step, device_peak

    def step(self, count: int) -> dict[str, Any]:
        """Seconds of `count` updates, each with its loss, which is the sum over all words."""
        start, losses = time.perf_counter(), []
        for _ in range(count):
            losses.append(float(self._step()))
        return {"seconds": time.perf_counter() - start, "losses": losses}

    def memory(self, before: float) -> dict[str, Any]:
        """MiB that an update grew this process by at its peak, over `before`; or, of an
        accelerator, the most that this process ever held.

        What compiling and making the parameters left behind is given back before.
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
    """Floating point operations a second of a product of two square matrices, several begun one
    after the other before the last is waited for."""
    wait(product())
    start = time.perf_counter()
    for _ in range(repeats):
        last = product()
    wait(last)
    return {"flops_per_second": 2 * size**3 * repeats / (time.perf_counter() - start)}


def resident(field: str = "VmRSS") -> float:
    """MiB of this process in memory, or its peak (`VmHWM`); Linux, elsewhere 0."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines[field].split()[0]) / 1024
    except (OSError, KeyError):
        return 0.0


def forget_peak() -> None:
    """The peak begins anew."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:  # then the peak is that of compilation, too
        pass
