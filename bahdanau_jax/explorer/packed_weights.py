"""Weights of a model in 20 bits a number, as the page reads them.

Each BLOCK consecutive numbers of a matrix are whole numbers of 20 bits and one float32 scale.
Vectors (biases, v_a) stay float32. With IEEE half precision, the log-probabilities of unlikely
words differ from those of the original weights by 0.01; with 16 bits and a scale, by 0.001.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int32

from bahdanau_jax.model import Params

BLOCK = 32
LARGEST = 2**19 - 1  # the largest whole number of a block


class Packed(NamedTuple):
    """All numbers of a model, little-endian, one array after the other.

    A vector is its float32 numbers. A matrix is its float32 scales, then the upper 16 bits of its
    numbers as int16, row by row, then their lower 4 bits, two numbers to a byte, the first one in
    the lower half. The last block is filled up with zeros.
    """

    data: bytes
    manifest: list[tuple[str, list[int]]]  # dotted name and shape of each array, in this order


def pack(params: Params) -> Packed:
    """Pack parameters. Raises ValueError for weights that are not finite.

    >>> pack({"output": {"b_w": np.zeros(3)}}).manifest
    [('output.b_w', [3])]
    """
    chunks, manifest = [], []
    for name, array in _leaves(params):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has weights that are not finite: the training diverged")
        if array.ndim == 1:
            chunks.append(array.astype("<f4").tobytes())
        else:
            scales, numbers = _blocks(array)
            lower = (numbers & 15).astype(np.uint8).reshape(-1, 2)
            chunks += [scales.astype("<f4").tobytes(), (numbers >> 4).astype("<i2").tobytes()]
            chunks.append((lower[:, 0] | lower[:, 1] << 4).tobytes())
        manifest.append((name, [*array.shape]))
    return Packed(b"".join(chunks), manifest)


def rounded(params: Params) -> Params:
    """Return the parameters as the page has them: float32 arrays of rounded values.

    >>> rounded({"output": {"b_w": np.zeros(3)}})["output"]["b_w"].dtype
    dtype('float32')
    """
    return {
        name: rounded(leaf) if isinstance(leaf, Mapping) else _rounded(np.asarray(leaf, np.float32))
        for name, leaf in params.items()
    }


def _rounded(array: np.ndarray) -> Float[np.ndarray, "..."]:
    if array.ndim == 1:
        return array
    scales, numbers = _blocks(array)
    values = numbers.astype(np.float32) * scales[:, None]
    return values.reshape(-1)[: array.size].reshape(array.shape)


def _blocks(array: np.ndarray) -> tuple[Float[np.ndarray, " N"], Int32[np.ndarray, "N BLOCK"]]:
    """The scale and the whole numbers of each block."""
    padding = -array.size % BLOCK
    blocks = np.pad(array.reshape(-1), (0, padding)).reshape(-1, BLOCK)
    scales = (np.abs(blocks).max(1) / LARGEST).astype(np.float32)
    divisors = np.where(scales > 0, scales, 1)[:, None]
    return scales, np.clip(np.rint(blocks / divisors), -LARGEST, LARGEST).astype(np.int32)


def _leaves(params: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for name, leaf in sorted(params.items()):
        if isinstance(leaf, Mapping):
            yield from _leaves(leaf, f"{path}{name}.")
        else:
            yield path + name, np.asarray(leaf, np.float32)
