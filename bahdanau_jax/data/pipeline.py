"""From encoded pairs to padded batches: which pairs, in which shape, at which step.

Everything here is a pure function of (lengths, settings, seed, step), so the step number alone is
the position in the data, and a run that resumes sees what it would have seen.
"""

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Int

from bahdanau_jax.batch import PAD, Batch
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.store import Pairs, Ragged

Cell = tuple[int, int]  # padded lengths (S, T)
Lengths = Int[np.ndarray, "N 2"]  # of source and target, EOS counted
Planned = tuple[Int[np.ndarray, " rows"], Cell]  # pairs of a batch, and the shape they get

DEV_SHAPES = 3  # evaluation visits few batches: more programs cost more than padding
MOST_GROUPS = 256  # of equally long batches, told apart when shapes are chosen
ENDLESS = 1 << 40  # batches; Grain asks for a number
PREFETCHED = 16  # batches made ahead, in a thread


def steps_per_epoch(pairs: int, config: DataConfig) -> int:
    return -(-pairs // config.batch_size)


def cut(lengths: Lengths, config: DataConfig, seed: int, epoch: int) -> list[np.ndarray]:
    """The rows of each batch of an epoch, in the order of training.

    The corpus is permuted by (seed, epoch); each pool of pool_batches * batch_size pairs is sorted
    by the longer side (arXiv 1409.0473, appendix B.2) and cut into batches; then the batches of the
    whole epoch are shuffled. Only one batch, the last cut, may be short.
    """
    rng = np.random.default_rng([seed, epoch])
    rows = rng.permutation(len(lengths))
    source, target = lengths[rows].T
    pool = np.arange(len(rows)) // (config.pool_batches * config.batch_size)
    rows = rows[np.lexsort((target, source, np.maximum(source, target), pool))]
    batches = np.split(rows, range(config.batch_size, len(rows), config.batch_size))
    return [batches[i] for i in rng.permutation(len(batches))]


def plan(
    lengths: Lengths,
    config: DataConfig,
    seed: int,
    epoch: int,
    cells: Sequence[Cell] | None = None,
) -> list[Planned]:
    """(rows, cell) of each batch of an epoch: every pair once, each batch in the smallest cell that
    holds it. `cells` are those of `shapes`, unless given.
    """
    if not len(lengths):
        return []
    cells = shapes(lengths, config) if cells is None else cells
    return _place(lengths, cut(lengths, config, seed, epoch), cells)


def _place(lengths: Lengths, batches: list[np.ndarray], cells: Sequence[Cell]) -> list[Planned]:
    grid = np.array(sorted(cells, key=lambda cell: (sum(cell), cell)))
    fits = (_extents(lengths, batches)[:, None] <= grid).all(2)
    chosen = grid[fits.argmax(1)]
    return [(rows, (int(s), int(t))) for rows, (s, t) in zip(batches, chosen, strict=True)]


def _extents(lengths: Lengths, batches: list[np.ndarray]) -> Int[np.ndarray, "batches 2"]:
    """The longest source and the longest target of each batch."""
    starts = np.cumsum([0, *map(len, batches[:-1])])
    return np.maximum.reduceat(lengths[np.concatenate(batches)], starts)


def shapes(lengths: Lengths, config: DataConfig) -> tuple[Cell, ...]:
    """At most `config.shapes` padded shapes (S, T) with little padding; the last holds every pair.

    They are the best ones for the batches of a trial epoch.
    """
    return _cells(lengths, cut(lengths, config, 0, 0), config.shapes)


def _cells(lengths: Lengths, batches: list[np.ndarray], most: int) -> tuple[Cell, ...]:
    """The batches are put in the order of their longer side. Runs of them share a cell; a dynamic
    programme finds the runs that need the fewest positions S + T in all.
    """
    if not len(lengths):
        return ()
    counts, extents = _groups(_extents(lengths, batches))
    extents[-1] = lengths.max(0)  # the last cell holds what other epochs may bring
    cost = _run_costs(counts, extents)
    best = cost[0]  # best[j]: the cost of groups 0..j in as many cells as there are `starts`
    starts = [np.zeros(len(counts), np.int64)]  # starts[k][j]: where the last of k + 1 cells begins
    while len(starts) < min(most, len(counts)):  # one cell more never costs more
        before = np.concatenate([[np.inf], best[:-1]])  # a run from group i follows groups 0..i-1
        total = before[:, None] + cost
        starts.append(total.argmin(0))
        best = total.min(0)
    return _trace(starts, extents)


def _groups(extents: np.ndarray) -> tuple[Int[np.ndarray, " G"], Int[np.ndarray, "G 2"]]:
    """Batches by their longer side: how many, and the cell that holds them; by rising length."""
    longer = extents.max(1)
    borders = np.unique(longer)
    if len(borders) > MOST_GROUPS:
        borders = np.unique(np.quantile(longer, np.linspace(0, 1, MOST_GROUPS), method="higher"))
    group = np.searchsorted(borders, longer)
    holds = np.zeros((len(borders), 2), np.int64)
    np.maximum.at(holds, group, extents)
    return np.bincount(group, minlength=len(borders)), holds


def _run_costs(counts: np.ndarray, extents: np.ndarray) -> np.ndarray:
    """[i, j]: the positions of one row of each batch in groups i..j, all in one cell."""
    costs = np.full((len(counts), len(counts)), np.inf)
    for j in range(len(counts)):
        cells = np.maximum.accumulate(extents[j::-1])[::-1]  # of runs i..j, for each i
        batches = np.cumsum(counts[j::-1])[::-1]
        costs[: j + 1, j] = batches * cells.sum(1)
    return costs


def _trace(starts: list[np.ndarray], extents: np.ndarray) -> tuple[Cell, ...]:
    """The cells of the best runs, shortest first, none twice."""
    cells: list[Cell] = []
    end = len(extents)
    for start_of in reversed(starts):
        start = int(start_of[end - 1])
        source, target = extents[start:end].max(0)
        cells.append((int(source), int(target)))
        end = start
        if not end:
            break
    return tuple(dict.fromkeys(reversed(cells)))


def lay_out(pairs: Pairs, planned: Planned, batch_size: int) -> Batch:
    """The padded batch of some rows; filler rows of weight 0 make it `batch_size` rows."""
    rows, (source_length, target_length) = planned
    weight = np.zeros(batch_size, np.float32)
    weight[: len(rows)] = 1
    source, target = pairs.sides
    return Batch(
        *_rectangle(source, rows, batch_size, source_length),
        *_rectangle(target, rows, batch_size, target_length),
        weight,
    )


def _rectangle(
    side: Ragged, rows: np.ndarray, height: int, width: int
) -> tuple[Int[np.ndarray, "B L"], Bool[np.ndarray, "B L"]]:
    """What `batch.pad` gives, with one indexing for all sentences together."""
    starts, ends = side.offsets[rows], side.offsets[rows + 1]
    places = np.arange(width)
    mask = np.zeros((height, width), np.bool_)
    mask[: len(rows)] = places < (ends - starts)[:, None]
    ids = np.full((height, width), PAD, np.int32)
    ids[mask] = side.ids[(starts[:, None] + places)[mask[: len(rows)]]]
    return ids, mask


class _Steps:
    """Grain's random-access source: item i is the batch of step i, for ever."""

    def __init__(self, pairs: Pairs, config: DataConfig, seed: int):
        self._pairs, self._config = pairs, config
        cells = shapes(pairs.lengths, config)
        # Two: the thread that looks ahead may stand in the next epoch.
        self._epoch = functools.lru_cache(maxsize=2)(
            lambda epoch: plan(pairs.lengths, config, seed, epoch, cells)
        )

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> Batch:
        epoch, place = divmod(int(index), steps_per_epoch(len(self._pairs), self._config))
        return lay_out(self._pairs, self._epoch(epoch)[place], self._config.batch_size)


def train_batches(
    store: Pairs, config: DataConfig, seed: int, start_step: int = 0
) -> Iterator[Batch]:
    """Endless batches from a step on, made ahead in a thread.

    Those from step n are the tail of those from step 0. Every batch has `config.batch_size` rows
    and one of the shapes of `shapes`.

    >>> batches = train_batches(store, config, seed=1, start_step=300)
    >>> next(batches).source.shape
    (80, 31)
    """
    import grain  # takes a second

    if not len(store):
        raise ValueError("there is no pair to train on")
    steps = grain.MapDataset.source(_Steps(store, config, seed))[start_step:]
    ahead = grain.ReadOptions(num_threads=1, prefetch_buffer_size=PREFETCHED)
    return iter(steps.to_iter_dataset(ahead))


def dev_batches(pairs: Pairs, config: DataConfig) -> list[Batch]:
    """All pairs once, by length, in few shapes; no pair is too long. Sums over them mean the same
    in any order.
    """
    order = np.lexsort((*pairs.lengths.T, pairs.lengths.max(1, initial=0)))
    batches = np.split(order, range(config.batch_size, len(order), config.batch_size))
    cells = _cells(pairs.lengths, batches, min(config.shapes, DEV_SHAPES))
    planned = _place(pairs.lengths, batches, cells) if cells else []
    return [lay_out(pairs, one, config.batch_size) for one in planned]
