"""The grid of padded shapes: few, since each compiles a program, and with little padding.

A cell (S, T) holds what has at most S source and T target positions. What it holds is either one
pair or, where batches are cut first, the longest source and the longest target of one batch.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

BucketShape = tuple[int, int]  # padded lengths (S, T), EOS counted
Extents = Int[np.ndarray, "N 2"]  # positions that a source and a target need

MOST_LEVELS = 64  # different lengths a side, told apart when cells are chosen
MOST_ROUNDS = 8  # of exchanging every cell for a better one


def choose(
    extents: Extents, most: int, largest: BucketShape | None = None
) -> tuple[BucketShape, ...]:
    """At most `most` cells with few positions S + T in all when each extent gets its cheapest one.

    The last cell holds everything: it is `largest`, or else as large as the extents need. Cells are
    added greedily, each the one that saves most, and then each is exchanged for a better one until
    none is to be found. Europarl, 600,000 pairs of up to 50 words, 12 cells: see
    docs/results/README.md for what remains of the padding.

    >>> choose(np.array([[3, 4], [3, 5], [20, 22]]), 2)
    ((3, 5), (20, 22))
    """
    if not len(extents):
        return ()
    top = longest(extents) if largest is None else largest
    points, counts = _points(extents)
    saved = _Savings(points, counts, _corners(points))
    chosen = [top]
    while len(chosen) < most:
        shape, gain = saved.best(chosen)
        if gain <= 0:
            break
        chosen.append(shape)
    for _ in range(MOST_ROUNDS):
        before = list(chosen)
        for i in range(1, len(chosen)):  # the first holds everything, and stays
            others = chosen[:i] + chosen[i + 1 :]
            chosen[i] = saved.best(others)[0]
        if chosen == before:
            break
    return tuple(sorted(dict.fromkeys(chosen), key=lambda shape: (sum(shape), shape)))


def longest(extents: Extents) -> BucketShape:
    """The smallest cell that holds all of them, at least one."""
    source, target = extents.max(0)
    return int(source), int(target)


def place(extents: Extents, shapes: Sequence[BucketShape]) -> Int[np.ndarray, " N"]:
    """For each extent the index of the cheapest cell that holds it; cells by rising cost.

    Raises ValueError where none does.
    """
    fits = np.zeros(len(extents), bool)
    found = np.zeros(len(extents), np.int64)
    for i in reversed(
        range(len(shapes))
    ):  # by rising cost, so that the last to write is the cheapest
        here = (extents <= np.array(shapes[i])).all(1)
        found[here] = i
        fits |= here
    if not fits.all():
        source, target = extents[~fits][0]
        raise ValueError(
            f"no shape of {list(shapes)} holds {source} source, {target} target tokens"
        )
    return found


def _points(extents: Extents) -> tuple[Extents, Float[np.ndarray, " P"]]:
    """Different extents, rounded up to one of few levels a side, and how many there are of each."""
    levels = [_levels(side) for side in extents.T]
    source, target = (
        np.searchsorted(level, side) for level, side in zip(levels, extents.T, strict=True)
    )
    codes, counts = np.unique(source * MOST_LEVELS + target, return_counts=True)
    source, target = np.divmod(codes, MOST_LEVELS)
    return np.stack([levels[0][source], levels[1][target]], axis=1), counts.astype(np.float64)


def _levels(lengths: Int[np.ndarray, " N"]) -> Int[np.ndarray, " L"]:
    levels = np.unique(lengths)
    if len(levels) > MOST_LEVELS:
        shares = np.linspace(0, 1, MOST_LEVELS)
        levels = np.unique(np.quantile(lengths, shares, method="higher"))
    return levels


def _corners(points: Extents) -> Extents:
    """Every cell that is as long as some point on each side."""
    return np.stack(np.meshgrid(*map(np.unique, points.T)), axis=-1).reshape(-1, 2)


class _Savings:
    """How many positions one more cell saves, for every candidate at once."""

    def __init__(self, points: Extents, counts: Float[np.ndarray, " P"], grid: Extents):
        self._points, self._grid = points, grid
        self._sums = grid.sum(1).astype(np.float32)
        # [P, G]: the pairs that a candidate could hold.
        holds = (points[:, None] <= grid[None]).all(2)
        self._counts = np.where(holds, counts[:, None], 0).astype(np.float32)

    def best(self, chosen: Sequence[BucketShape]) -> tuple[BucketShape, float]:
        """The candidate that saves most beside the chosen cells, and what it saves."""
        costs = np.full(len(self._points), np.inf, np.float32)
        for shape in chosen:
            here = (self._points <= np.array(shape)).all(1)
            costs[here] = np.minimum(costs[here], sum(shape))
        gains = np.maximum(costs[:, None] - self._sums, 0)
        gains *= self._counts
        total = gains.sum(0)
        i = int(total.argmax())
        source, target = self._grid[i]
        return (int(source), int(target)), float(total[i])
