"""The shared code of the PyTorch programs: device, settings and matrix rate.

A program that is run by its path imports this file from its folder.
"""

from collections.abc import Mapping
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
