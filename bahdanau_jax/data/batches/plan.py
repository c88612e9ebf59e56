"""Which pairs are trained on together, in which padded shape, at which step.

Everything here is a pure function of (lengths, settings, seed, step), so the step number alone is
the position in the data, and a run that resumes sees what it would have seen.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Int

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.batches import bucket_shapes
from bahdanau_jax.data.batches.bucket_shapes import BucketShape
from bahdanau_jax.data.sources import addresses
from bahdanau_jax.data.store.store import Store

Lengths = Int[np.ndarray, "N 2"]  # of source and target, EOS counted
Rows = Int[np.ndarray, " rows"]  # of the store

ROW_MULTIPLE = 8  # of the rows of a batch that is measured in words, so that devices share it


class Planned(NamedTuple):
    """One batch before its ids are looked up."""

    rows: Rows  # at most `height`; the rest is filler
    shape: BucketShape
    height: int


class Corpora(NamedTuple):
    """How a store is divided: corpus after corpus, each pair with all its encodings."""

    pairs: tuple[int, ...]  # of each corpus
    weights: tuple[float, ...]  # how often an epoch goes through each
    encodings: int = 1  # rows of each pair, one after the other; epoch e takes number e modulo this
    sample: Int[np.ndarray, " pairs"] | None = None  # the pairs to train on, rising; None: all

    @classmethod
    def of(cls, store: Store, config: DataConfig) -> Self:
        """Raises ValueError where `data.limit_words` leaves no pair."""
        weights = tuple(corpus.weight for corpus in addresses.corpora(config.train))
        encodings, sample = store.statistics["encodings"], None
        if config.limit_words:
            sample = limited(store.lengths[::encodings, 0] - 1, config.limit_words)
            if not len(sample):
                raise ValueError(f"data.limit_words = {config.limit_words} leaves no training pair")
        return cls(tuple(store.statistics["corpora"]), weights, encodings, sample)


class Plan:
    """The batches of every step, for ever.

    >>> plan = Plan.of(store, config, seed=1)
    >>> plan.at(300).cell
    (27, 31)
    """

    @classmethod
    def of(cls, store: Store, config: DataConfig, seed: int) -> Self:
        """The batches of the pairs of a store."""
        return cls(store.lengths, config, seed, Corpora.of(store, config))

    def __init__(
        self, lengths: Lengths, config: DataConfig, seed: int, corpora: Corpora | None = None
    ):
        corpora = corpora or Corpora((len(lengths),), (1.0,))
        self._draw = functools.partial(draw, corpora, seed)
        if len(lengths) and not len(self._draw(0)):
            raise ValueError(
                f"an epoch has no pair: of corpora of {', '.join(map(str, corpora.pairs))} pairs, "
                f"weights {', '.join(map(str, corpora.weights))} leave none; raise them, in "
                "data.train"
            )
        self._batching = PLANS[config.plan](lengths, config, self._draw(0))
        self._seed, self._lengths = seed, lengths
        self._ends: list[int] = []  # steps up to the end of each epoch that was asked for
        # Two: the thread that looks ahead may stand in the next epoch.
        self._cached = functools.lru_cache(maxsize=2)(self.epoch)

    @property
    def shapes(self) -> tuple[BucketShape, ...]:
        """The padded shapes of all batches, the largest last."""
        return self._batching.shapes

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows of a batch in each cell."""
        return self._batching.heights

    def steps(self, epoch: int = 0) -> int:
        """Batches of an epoch."""
        return self._batching.steps(self._draw(epoch))

    def epoch(self, epoch: int) -> list[Planned]:
        """All batches of an epoch in the order of training."""
        rng = np.random.default_rng([self._seed, epoch])
        batches = self._batching.cut(rng, self._draw(epoch))
        return [batches[i] for i in rng.permutation(len(batches))]

    def at(self, step: int) -> Planned:
        """The batch of a step."""
        while not self._ends or self._ends[-1] <= step:
            self._ends.append(sum(self._ends[-1:]) + self.steps(len(self._ends)))
        epoch = int(np.searchsorted(self._ends, step, side="right"))
        return self._cached(epoch)[step - (self._ends[epoch - 1] if epoch else 0)]

    def padding(self, epoch: int = 0) -> float:
        """Padded positions of both sides over all positions of an epoch."""
        planned = self.epoch(epoch)
        positions = sum(sum(batch.shape) * batch.height for batch in planned)
        return 1 - sum(int(self._lengths[batch.rows].sum()) for batch in planned) / positions


def draw(corpora: Corpora, seed: int, epoch: int) -> Rows:
    """The rows of an epoch in the order of the store.

    A corpus of weight 1 gives each of its pairs once. One of weight w and n pairs gives round(w·n):
    its pairs stand in an endless sequence of permutations, of which each epoch takes the next part.
    """
    rows, first = [], 0
    for number, (pairs, weight) in enumerate(zip(corpora.pairs, corpora.weights, strict=True)):
        mine = _members(corpora.sample, first, pairs)
        whole, rest = divmod(round(weight * len(mine)), len(mine)) if len(mine) else (0, 0)
        chosen = [np.arange(len(mine))] * whole
        if rest:
            places = np.arange(epoch * rest, (epoch + 1) * rest)
            laps = places // len(mine)
            chosen += [
                np.random.default_rng([seed, number, lap, 1]).permutation(len(mine))[
                    places[laps == lap] % len(mine)
                ]
                for lap in np.unique(laps)
            ]
        rows.append(mine[np.sort(np.concatenate([*chosen, np.arange(0)]))])
        first += pairs
    return np.concatenate(rows) * corpora.encodings + epoch % corpora.encodings


def _members(sample: np.ndarray | None, first: int, pairs: int) -> Int[np.ndarray, " pairs"]:
    """The pairs of a corpus that are trained on."""
    if sample is None:
        return np.arange(first, first + pairs)
    return sample[slice(*np.searchsorted(sample, [first, first + pairs]))]


def limited(words: Int[np.ndarray, " pairs"], limit: int) -> Int[np.ndarray, " sample"]:
    """A sample of all pairs, the same for the same corpus, with at most `limit` words in all.

    The paper's authors selected their 348 M words by domain (Axelrod et al. 2011); this does not.
    """
    order = np.random.default_rng(0).permutation(len(words))
    return np.sort(order[np.cumsum(words[order]) <= limit])


class _Pools:
    """The paper's: pools of pool_batches * batch_size pairs, each sorted by the longer side and cut
    into batches (arXiv 1409.0473, appendix B.2). Only one batch, the last cut, may be short.
    """

    def __init__(self, lengths: Lengths, config: DataConfig, rows: Rows):
        self._lengths, self._config = lengths, config
        # The cells are the best ones for the batches of a trial epoch.
        trial = self._sorted(np.random.default_rng([0, 0]), rows)
        largest = bucket_shapes.longest(lengths) if len(lengths) else None
        self.shapes = bucket_shapes.choose(_extents(lengths, trial), config.shapes, largest)
        self.heights = (config.batch_size,) * len(self.shapes)

    def steps(self, rows: Rows) -> int:
        return -(-len(rows) // self._config.batch_size)

    def cut(self, rng: np.random.Generator, rows: Rows) -> list[Planned]:
        batches = self._sorted(rng, rows)
        places = bucket_shapes.place(_extents(self._lengths, batches), self.shapes)
        return [
            Planned(batch, self.shapes[i], self._config.batch_size)
            for batch, i in zip(batches, places, strict=True)
        ]

    def _sorted(self, rng: np.random.Generator, rows: Rows) -> list[Rows]:
        size = self._config.batch_size
        rows = rows[rng.permutation(len(rows))]
        source, target = self._lengths[rows].T
        pool = np.arange(len(rows)) // (self._config.pool_batches * size)
        rows = rows[np.lexsort((target, source, np.maximum(source, target), pool))]
        return np.split(rows, range(size, len(rows), size)) if len(rows) else []


class _Buckets:
    """Every pair in its cheapest cell, and batches of one cell each, with less padding than pools.

    A batch has batch_size pairs or, where batch_words is set, as many as have that many positions
    on the longer side. What does not fill a batch of its cell goes to the next larger one, so only
    one batch may be short.
    """

    def __init__(self, lengths: Lengths, config: DataConfig, rows: Rows):
        del rows  # every epoch draws from the same lengths
        self.shapes = bucket_shapes.choose(lengths, config.shapes)
        self.heights = tuple(_height(config, shape) for shape in self.shapes)
        self._shape = bucket_shapes.place(lengths, self.shapes)
        self._larger = [
            next(
                (j for j in range(i + 1, len(self.shapes)) if _inside(shape, self.shapes[j])),
                None,
            )
            for i, shape in enumerate(self.shapes)
        ]

    def steps(self, rows: Rows) -> int:
        waiting = np.bincount(self._shape[rows], minlength=len(self.shapes))
        steps = 0
        for i, (height, larger) in enumerate(zip(self.heights, self._larger, strict=True)):
            full, rest = divmod(int(waiting[i]), height)
            steps += full + (larger is None and rest > 0)
            if larger is not None:
                waiting[larger] += rest
        return steps

    def cut(self, rng: np.random.Generator, rows: Rows) -> list[Planned]:
        rows = rows[rng.permutation(len(rows))]
        shape = self._shape[rows]
        waiting = [rows[shape == i] for i in range(len(self.shapes))]
        batches = []
        for i, (height, larger) in enumerate(zip(self.heights, self._larger, strict=True)):
            mine = waiting[i]
            if larger is not None:
                keep = len(mine) - len(mine) % height
                waiting[larger] = np.concatenate([mine[keep:], waiting[larger]])
                mine = mine[:keep]
            parts = np.split(mine, range(height, len(mine), height)) if len(mine) else []
            batches += [Planned(part, self.shapes[i], height) for part in parts]
        return batches


def _height(config: DataConfig, shape: BucketShape) -> int:
    if not config.batch_words:
        return config.batch_size
    rows = config.batch_words // max(shape)
    return max(1, rows if rows < ROW_MULTIPLE else rows // ROW_MULTIPLE * ROW_MULTIPLE)


def _inside(shape: BucketShape, other: BucketShape) -> bool:
    return shape[0] <= other[0] and shape[1] <= other[1]


def _extents(lengths: Lengths, batches: Sequence[Rows]) -> Int[np.ndarray, "batches 2"]:
    """The longest source and the longest target of each batch."""
    if not batches:
        return np.zeros((0, 2), np.int64)
    starts = np.cumsum([0, *map(len, batches[:-1])])
    return np.maximum.reduceat(lengths[np.concatenate(batches)], starts)


# Values of `data.plan`.
PLANS: Mapping[str, Callable[..., "_Pools | _Buckets"]] = MappingProxyType(
    {"pools": _Pools, "buckets": _Buckets}
)
