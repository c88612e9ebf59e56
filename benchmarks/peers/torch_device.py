"""The shared code of the PyTorch programs: device, settings and matrix rate.

A program that is run by its path imports this file from its folder.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import serving  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAME = torch.cuda.get_device_name() if DEVICE == "cuda" else DEVICE
PEAK = torch.cuda.max_memory_allocated if DEVICE == "cuda" else None  # bytes


def prepare(settings: Mapping[str, Any]) -> Any:
    """Apply the settings `keep_memory` and `threads`; return the context of `autocast`."""
    if settings["keep_memory"]:
        serving.keep_memory()
    torch.set_num_threads(settings["threads"])
    if DEVICE == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32, which JAX's default is there
    return torch.autocast(DEVICE, torch.bfloat16, enabled=settings["autocast"])


def matrix(size: int, repeats: int, compute_dtype: str) -> dict[str, float]:
    a, b = torch.randn(2, size, size, device=DEVICE).to(getattr(torch, compute_dtype))

    def wait(_: torch.Tensor) -> None:
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    return serving.matrix_rate(lambda: torch.mm(a, b), wait, size, repeats)


@contextlib.contextmanager
def products(precision: str) -> Iterator[Any]:
    """Products of a precision within the block, whose value is the context of `autocast`.

    On a GPU, "float32" is exact, and "tf32" rounds the factors; "bfloat16" is autocast.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "float32"
    try:
        yield torch.autocast(DEVICE, torch.bfloat16, enabled=precision == "bfloat16")
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = True


WARM_UPS = 3  # updates before the first timed one
MOST_UPDATES = 2_000  # in a round


def timed(launch: Callable[[], torch.Tensor], seconds: float, rounds: int) -> dict[str, Any]:
    """Time updates; the loss of one is fetched while the next one runs, as in our training.

    `failed` has the error instead, such as too little memory.
    """

    def updates(count: int) -> float:
        pending = None
        for _ in range(count):
            loss, pending = pending, launch().clone()  # graphs use the memory of a result again
            if loss is not None:
                loss.item()
        return pending.item() if pending is not None else 0.0

    try:
        if PEAK is not None:
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        updates(WARM_UPS)
        first, start = time.perf_counter() - start, time.perf_counter()
        updates(1)
        count = min(MOST_UPDATES, max(1, round(seconds / (time.perf_counter() - start))))
        each = []
        for _ in range(rounds):
            start = time.perf_counter()
            updates(count)
            each.append((time.perf_counter() - start) / count)
    except RuntimeError as error:
        return {"failed": f"{type(error).__name__}: {error}"[:400]}
    memory = {"device_mib": round(PEAK() / 2**20)} if PEAK is not None else {}
    return {
        "seconds": round(statistics.median(each), 7),
        "rounds": [round(x, 7) for x in each],
        "warm_up_seconds": round(first, 1),
        **memory,
    }
