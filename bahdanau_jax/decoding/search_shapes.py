"""The padded shapes of decoding: few, since each shape compiles a program of its own."""

import math
from collections.abc import Iterator, Sequence

LENGTHS = tuple(step * 2**i for i in range(20) for step in (8, 12))  # padded lengths
ROWS = (1, 8)  # padded numbers of sentences below the configured batch size


def padded(length: int) -> int:
    """Return the smallest padded length that holds this many tokens."""
    return next(size for size in LENGTHS if size >= length)


def height(rows: int, batch_size: int) -> int:
    """Return the smallest padded number of rows that holds this many sentences."""
    return next((size for size in ROWS if rows <= size < batch_size), batch_size)


def search_steps(max_ratio: float, length: int) -> int:
    """Return the number of steps of a search whose sources have this padded length."""
    return math.ceil(max_ratio * length)


def grouped(lengths: Sequence[int], batch_size: int) -> Iterator[tuple[list[int], int]]:
    """Yield the rows of each batch and their padded length, the longest sentences first.

    All batches are full except the last one, which has the shortest sentences.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for i in range(0, len(order), batch_size):
        rows = order[i : i + batch_size]
        yield rows, padded(lengths[rows[0]])
