"""A small set of padded shapes with little padding; each shape compiles a program.

A shape (S, T) holds an extent of at most S source and T target positions. An extent is the lengths
of one pair or, where batches are cut first, the longest source and longest target of a batch.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

BucketShape = tuple[int, int]  # padded lengths (S, T), EOS counted
Extents = Int[np.ndarray, "N 2"]  # source and target positions

MOST_LEVELS = 64  # different lengths of a side; others are rounded up while shapes are chosen
MOST_ROUNDS = 8  # rounds in which each shape is exchanged for a better one


def choose(
    extents: Extents, most: int, largest: BucketShape | None = None
) -> tuple[BucketShape, ...]:
    """Choose at most `most` shapes so that the sum of S + T over all extents is small.

    Each extent counts with the cheapest shape that holds it. The last shape holds all extents: it
    is `largest`, by default the smallest such shape. Shapes are added greedily, then each one is
    exchanged for a better one until there is none. docs/results/README.md has the remaining padding
    of Europarl.

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
        for i in range(1, len(chosen)):  # the first one, which holds everything, stays
            others = chosen[:i] + chosen[i + 1 :]
            chosen[i] = saved.best(others)[0]
        if chosen == before:
            break
    return tuple(sorted(dict.fromkeys(chosen), key=lambda shape: (sum(shape), shape)))


def longest(extents: Extents) -> BucketShape:
    """The smallest shape that holds all extents, of which there is at least one."""
    source, target = extents.max(0)
    return int(source), int(target)


def place(extents: Extents, shapes: Sequence[BucketShape]) -> Int[np.ndarray, " N"]:
    """For each extent, the index of the cheapest shape that holds it; shapes have rising costs.

    Raises ValueError for an extent that no shape holds.
    """
    is_placed = np.zeros(len(extents), bool)
    places = np.zeros(len(extents), np.int64)
    for i in reversed(range(len(shapes))):  # cheaper shapes overwrite more expensive ones
        fits = (extents <= np.array(shapes[i])).all(1)
        places[fits] = i
        is_placed |= fits
    if not is_placed.all():
        source, target = extents[~is_placed][0]
        raise ValueError(
            f"no shape of {list(shapes)} holds {source} source, {target} target tokens"
        )
    return places


def _points(extents: Extents) -> tuple[Extents, Float[np.ndarray, " P"]]:
    """The different extents after rounding up to at most MOST_LEVELS a side, and their counts."""
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
    """Every shape whose S is the source of a point and whose T is the target of a point."""
    return np.stack(np.meshgrid(*map(np.unique, points.T)), axis=-1).reshape(-1, 2)


class _Savings:
    """The positions that one more shape saves, for all candidates at once."""

    def __init__(self, points: Extents, counts: Float[np.ndarray, " P"], grid: Extents):
        self._points, self._grid = points, grid
        self._sums = grid.sum(1).astype(np.float32)
        # [P, G]: the number of pairs at a point if the candidate holds them, else 0.
        holds = (points[:, None] <= grid[None]).all(2)
        self._counts = np.where(holds, counts[:, None], 0).astype(np.float32)

    def best(self, chosen: Sequence[BucketShape]) -> tuple[BucketShape, float]:
        """The candidate that saves most in addition to the chosen shapes, and its savings."""
        costs = np.full(len(self._points), np.inf, np.float32)
        for shape in chosen:
            fits = (self._points <= np.array(shape)).all(1)
            costs[fits] = np.minimum(costs[fits], sum(shape))
        gains = np.maximum(costs[:, None] - self._sums, 0)
        gains *= self._counts
        total = gains.sum(0)
        i = int(total.argmax())
        source, target = self._grid[i]
        return (int(source), int(target)), float(total[i])
