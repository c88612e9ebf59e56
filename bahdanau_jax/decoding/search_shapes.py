"""Few padded shapes, for each compiles a program; and sentences put into them, alike with alike."""

from collections.abc import Iterator, Sequence

LENGTHS = tuple(step * 2**i for i in range(20) for step in (8, 12))  # padded lengths
ROWS = (1, 8)  # batches of fewer sentences than the configured size


def padded(length: int) -> int:
    """The grid's length that holds so many tokens."""
    return next(size for size in LENGTHS if size >= length)


def height(rows: int, batch_size: int) -> int:
    """The grid's number of rows that holds so many sentences."""
    return next((size for size in ROWS if rows <= size < batch_size), batch_size)


def grouped(lengths: Sequence[int], batch_size: int) -> Iterator[tuple[list[int], int]]:
    """Rows that are searched together, and their padded length; the longest first.

    Whole batches are cut from the sorted sentences, so that at most one, of the shortest, has rows
    to fill.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for i in range(0, len(order), batch_size):
        rows = order[i : i + batch_size]
        yield rows, padded(lengths[rows[0]])
