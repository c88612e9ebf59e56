"""The code that programs on an accelerator share: precisions, compilation in threads, timing."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from bahdanau_jax import data
from benchmarks import machine
from benchmarks.peers import serving

Result = TypeVar("Result")
WARM_UPS = 3  # calls before the first timed one: a GPU records its graphs in the first calls
MOST_CALLS = 2_000  # in a round
ERROR_LENGTH = 400  # characters of an error that are kept
PEAK = "peak_bytes_in_use"  # of the memory statistics of a device, where it has them


class Precision(NamedTuple):
    """The precision of matrix products."""

    compute_dtype: str  # of the model
    products: str  # of products of float32, a value of `jax.default_matmul_precision`


# On a CPU, tf32 is float32.
PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        "float32": Precision("float32", "highest"),
        "tf32": Precision("float32", "default"),
        "bfloat16": Precision("bfloat16", "default"),
    }
)


def greeting() -> dict[str, Any]:
    """The device and the versions."""
    return {
        "device": machine.device(),
        "versions": {name: metadata.version(name) for name in ("jax", "jaxlib")},
    }


def threads() -> int:
    return max(1, data.cores() // 2)  # each compilation keeps nearly two cores busy


def in_threads(jobs: Sequence[Callable[[], Result]]) -> list[Result | Exception]:
    """The result of each job, or its error."""

    def attempt(job: Callable[[], Result]) -> Result | Exception:
        try:
            return job()
        except Exception as error:  # of one program, such as too little memory; the others count
            return error

    with ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(attempt, jobs))


def described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:ERROR_LENGTH]


def time_calls(
    calls: Callable[[int], object], seconds: float, rounds: int
) -> dict[str, float | list[float]]:
    """Time `calls(n)`, which makes n calls and waits for them; the median of the rounds counts.

    A round has as many calls as take about `seconds`.
    """
    calls(WARM_UPS)
    start = time.perf_counter()
    calls(1)
    one = time.perf_counter() - start
    count = min(MOST_CALLS, max(1, round(seconds / one)))
    each = []
    for _ in range(rounds):
        start = time.perf_counter()
        calls(count)
        each.append((time.perf_counter() - start) / count)
    return {"seconds": round(statistics.median(each), 7), "rounds": [round(x, 7) for x in each]}


def device_peak() -> int:
    """The peak memory of this process on the device, in bytes; 0 on a CPU and where it is unknown.

    XLA's trials of kernels count too.
    """
    first = jax.local_devices()[0]
    return 0 if first.platform == "cpu" else (first.memory_stats() or {}).get(PEAK, 0)


def growth(before: int) -> dict[str, int]:
    """`device_mib`, the peak, where it is above the earlier peak `before`, and {} otherwise."""
    peak = device_peak()
    return {"device_mib": round(peak / 2**20)} if peak > before else {}


def limits(rows: int, repeats: int, elements: int) -> dict[str, Any]:
    """The rates of a large product in each precision, and of a copy, read and write counted."""

    def matrix(precision: Precision) -> float:
        dtype = jnp.dtype(precision.compute_dtype)
        a, b = jax.random.normal(jax.random.key(0), (2, rows, rows)).astype(dtype)

        @jax.jit
        def product(a, b):
            with jax.default_matmul_precision(precision.products):
                return jnp.matmul(a, b, preferred_element_type=jnp.float32)

        rate = serving.matrix_rate(lambda: product(a, b), jax.block_until_ready, rows, repeats)
        return round(rate["flops_per_second"] / 1e9, 1)

    x = jax.random.normal(jax.random.key(1), (elements,))
    add = jax.jit(lambda x: x + 1)

    def copies(count: int) -> None:
        for _ in range(count):
            last = add(x)
        jax.block_until_ready(last)

    copies(WARM_UPS)
    start = time.perf_counter()
    copies(repeats)
    copy = 2 * x.nbytes * repeats / (time.perf_counter() - start)
    return {
        "matrix_gflops": {name: matrix(precision) for name, precision in PRECISIONS.items()},
        "copy_gb_per_second": round(copy / 1e9, 1),
    }
