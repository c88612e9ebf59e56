"""Planned batches as padded arrays, which a thread makes ahead of the consumer."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Int

from bahdanau_jax.batch import PAD, Batch
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.batches import bucket_shapes
from bahdanau_jax.data.batches.plan import Plan, Planned, Rows
from bahdanau_jax.data.store.store import Pairs, Ragged

DEV_SHAPES = 3  # evaluation has few batches, so more programs cost more than padding
ENDLESS = 1 << 40  # batches; Grain requires a length
PREFETCHED = 16  # batches that a thread makes ahead


def lay_out(pairs: Pairs, planned: Planned, process: int = 0, processes: int = 1) -> Batch:
    """The padded batch, with filler rows of weight 0 at its end, or the share of a process.

    The shares of all processes, stacked in their order, are the batch. They have equal heights
    where `processes` divides its height.
    """
    rows, shape, height = planned
    start, end = (height * i // processes for i in (process, process + 1))
    rows, height = rows[start:end], end - start
    weight = np.zeros(height, np.float32)
    weight[: len(rows)] = 1
    source, target = pairs.sides
    return Batch(
        *_rectangle(source, rows, height, shape[0]),
        *_rectangle(target, rows, height, shape[1]),
        weight,
    )


def _rectangle(
    side: Ragged, rows: Rows, height: int, width: int
) -> tuple[Int[np.ndarray, "B L"], Bool[np.ndarray, "B L"]]:
    """The result of `batch.pad`, by one indexing for all sentences."""
    starts, ends = side.offsets[rows], side.offsets[rows + 1]
    places = np.arange(width)
    mask = np.zeros((height, width), np.bool_)
    mask[: len(rows)] = places < (ends - starts)[:, None]
    ids = np.full((height, width), PAD, np.int32)
    ids[mask] = side.ids[(starts[:, None] + places)[mask[: len(rows)]]]
    return ids, mask


class _Steps:
    """A random-access source for Grain: item i is the batch of step i.

    Several plans give batches with an axis for them in front, padded to the largest one.
    """

    def __init__(
        self,
        pairs: Pairs,
        plans: Plan | Sequence[Plan],
        process: int,
        processes: int,
        multiple: int,
    ):
        self._pairs, self._share, self._multiple = pairs, (process, processes), multiple
        self._is_one = isinstance(plans, Plan)
        self._plans = [plans] if isinstance(plans, Plan) else list(plans)

    def __len__(self) -> int:
        return ENDLESS

    def planned(self, index: int) -> list[Planned]:
        """The batches of a step, with the same shape and height for all plans."""
        planned = [plan.at(int(index)) for plan in self._plans]
        source, target = (max(each.shape[side] for each in planned) for side in (0, 1))
        height = -(-max(each.height for each in planned) // self._multiple) * self._multiple
        return [Planned(each.rows, (source, target), height) for each in planned]

    def __getitem__(self, index: int) -> Batch:
        batches = [lay_out(self._pairs, each, *self._share) for each in self.planned(index)]
        return batches[0] if self._is_one else Batch(*map(np.stack, zip(*batches, strict=True)))


def train_batches(
    store: Pairs,
    plan: Plan | Sequence[Plan],
    start_step: int = 0,
    process: int = 0,
    processes: int = 1,
    multiple: int = 1,
) -> Iterator[Batch]:
    """Endless batches from a step on; each of several processes gets its share of every batch.

    The batch of a step depends neither on `start_step` nor on the number of processes. Filler rows
    make the height of every batch a multiple of `multiple`, so that devices can share it. Several
    plans give the batches of all of them, stacked along a new first axis. Raises ValueError for a
    store without pairs.

    >>> batches = train_batches(store, Plan.of(store, config, seed=1), start_step=300)
    >>> next(batches).source.shape
    (80, 31)
    """
    import grain  # takes a second

    if not len(store):
        raise ValueError("there is no pair to train on")
    steps = grain.MapDataset.source(_Steps(store, plan, process, processes, multiple))[start_step:]
    ahead = grain.ReadOptions(num_threads=1, prefetch_buffer_size=PREFETCHED)
    return iter(steps.to_iter_dataset(ahead))


def each_shape(
    store: Pairs, plan: Plan | Sequence[Plan], steps: Iterable[int], multiple: int = 1
) -> Iterator[Batch]:
    """The first batch of each padded shape among these steps, in their order."""
    seen, batches = set(), _Steps(store, plan, 0, 1, multiple)
    for step in steps:
        shape = batches.planned(step)[0][1:]
        if shape not in seen:
            seen.add(shape)
            yield batches[step]


def dev_batches(pairs: Pairs, config: DataConfig) -> list[Batch]:
    """All pairs once, sorted by length, in few shapes; long pairs are not dropped."""
    return [lay_out(pairs, planned) for planned in dev_plan(pairs, config)]


def dev_plan(pairs: Pairs, config: DataConfig) -> list[Planned]:
    """The rows and the shape of each of the `dev_batches`."""
    by_length = np.lexsort((*pairs.lengths.T, pairs.lengths.max(1, initial=0)))
    size = config.batch_size
    batches = np.split(by_length, range(size, len(by_length), size)) if len(pairs) else []
    extents = np.array([pairs.lengths[rows].max(0) for rows in batches]).reshape(-1, 2)
    shapes = bucket_shapes.choose(extents, min(config.shapes, DEV_SHAPES))
    places = bucket_shapes.place(extents, shapes) if batches else ()
    return [Planned(rows, shapes[i], size) for rows, i in zip(batches, places, strict=True)]
