"""The plan of batches: the pairs and the padded shape of the batch of every step.

The plan is a pure function of (lengths, settings, seed, step). The step number is the only position
in the data, so a resumed run gets the same batches as an uninterrupted one.
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

ROW_MULTIPLE = (
    8  # a batch measured in words has a multiple of this number of rows, for several devices
)


class Planned(NamedTuple):
    """A batch whose ids were not read yet."""

    rows: Rows  # at most `height`; filler rows follow
    shape: BucketShape  # the padded lengths (S, T)
    height: int  # rows of the batch, with filler rows


class Corpora(NamedTuple):
    """The layout of a store: corpus after corpus, each pair with all its encodings."""

    pairs: tuple[int, ...]  # number of pairs of each corpus
    weights: tuple[float, ...]  # passes through each corpus in an epoch
    encodings: int = 1  # consecutive rows of each pair; epoch e takes row e modulo this
    sample: Int[np.ndarray, " pairs"] | None = None  # sorted pairs to train on; None: all

    @classmethod
    def of(cls, store: Store, config: DataConfig) -> Self:
        """The corpora of a store. Raises ValueError where `data.limit_words` leaves no pair."""
        weights = tuple(corpus.weight for corpus in addresses.corpora(config.train))
        encodings, sample = store.statistics["encodings"], None
        if config.limit_words:
            tokens = store.lengths[::encodings, 0] - 1
            sample = limited(tokens, config.limit_words, store.statistics["read_tokens"])
            if not len(sample):
                raise ValueError(f"data.limit_words = {config.limit_words} leaves no training pair")
        return cls(tuple(store.statistics["corpora"]), weights, encodings, sample)


class Plan:
    """The batches of every step of an endless training.

    >>> plan = Plan.of(store, config, seed=1)
    >>> plan.at(300).shape
    (27, 31)
    """

    @classmethod
    def of(cls, store: Store, config: DataConfig, seed: int) -> Self:
        """The plan for the pairs of a store."""
        return cls(store.lengths, config, seed, Corpora.of(store, config))

    def __init__(
        self, lengths: Lengths, config: DataConfig, seed: int, corpora: Corpora | None = None
    ):
        corpora = corpora or Corpora((len(lengths),), (1.0,))
        self._draw = functools.partial(draw, corpora, seed)
        if len(lengths) and not len(self._draw(0)):
            raise ValueError(_no_pair(corpora))
        self._batching = PLANS[config.plan](lengths, config, self._draw)
        self._seed, self._lengths = seed, lengths
        self._ends: list[int] = []  # steps up to the end of each epoch so far
        # Two epochs: the prefetching thread may be in the next one.
        self._cached = functools.lru_cache(maxsize=2)(self.epoch)

    @property
    def shapes(self) -> tuple[BucketShape, ...]:
        """The padded shapes of all batches, the largest last."""
        return self._batching.shapes

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows of a batch of each shape."""
        return self._batching.heights

    def rows(self, epoch: int = 0) -> Rows:
        """The rows that an epoch draws, in the order of the store."""
        return self._draw(epoch)

    def steps(self, epoch: int = 0) -> int:
        """The number of batches of an epoch."""
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
        """The share of padding in all positions of both sides of an epoch."""
        positions = sum(sum(batch.shape) * batch.height for batch in self.epoch(epoch))
        return 1 - self.tokens(epoch) / positions

    def tokens(self, epoch: int = 0) -> int:
        """The tokens of both sides of an epoch, with EOS and without padding."""
        return int(self._lengths[self._draw(epoch)].sum())


def draw(corpora: Corpora, seed: int, epoch: int) -> Rows:
    """The rows of an epoch in the order of the store.

    A corpus of weight w and n pairs gives round(e·w·n) pairs to e epochs: every pair ⌊w⌋ times in
    each, and the rest from an endless sequence of permutations, which the epochs continue.
    """
    rows = []
    for number, (members, weight) in enumerate(
        zip(_members(corpora), corpora.weights, strict=True)
    ):
        count = len(members)
        whole, share = int(weight), weight * count
        chosen = [np.arange(count)] * whole
        start, end = (round(e * share) - e * whole * count for e in (epoch, epoch + 1))
        if end > start:
            places = np.arange(start, end)
            laps = places // count
            chosen += [
                np.random.default_rng([seed, number, lap, 1]).permutation(count)[
                    places[laps == lap] % count
                ]
                for lap in np.unique(laps)
            ]
        rows.append(members[np.sort(np.concatenate([*chosen, np.arange(0)]))])
    return np.concatenate(rows) * corpora.encodings + epoch % corpora.encodings


def _members(corpora: Corpora) -> list[Int[np.ndarray, " pairs"]]:
    """The pairs of each corpus that are trained on."""
    ends, sample = np.cumsum(corpora.pairs)[:-1], corpora.sample
    if sample is None:
        return np.split(np.arange(sum(corpora.pairs)), ends)
    return np.split(sample, np.searchsorted(sample, ends))


def _no_pair(corpora: Corpora) -> str:
    sizes = ", ".join(str(len(members)) for members in _members(corpora))
    weights = ", ".join(map(str, corpora.weights))
    where, what = "", "them, in data.train"
    if corpora.sample is not None:
        where, what = " in the sample of data.limit_words", "one of these settings"
    return (
        f"an epoch has no pair: of corpora of {sizes} pairs{where}, weights {weights} leave none; "
        f"raise {what}"
    )


def limited(words: Int[np.ndarray, " pairs"], limit: int, read: int) -> Int[np.ndarray, " sample"]:
    """A random sample of pairs, the same for the same corpus: the share limit / read of `words`.

    `read` also counts the words of dropped pairs, so that the share does not depend on which pairs
    are dropped. The paper's authors selected text by its domain (Axelrod et al. 2011) instead, and
    dropped long pairs of the selection.
    """
    order = np.random.default_rng(0).permutation(len(words))
    return np.sort(order[np.cumsum(words[order]) <= limit * int(words.sum()) // read])


class _Pools:
    """The paper's plan: pools of pairs, each sorted by the longer side and cut into batches.

    A pool has pool_batches * batch_size pairs. Only the last batch may be short. Every epoch draws
    its pools anew, where the paper shuffles once. Source: arXiv 1409.0473, appendix B.2.
    """

    def __init__(self, lengths: Lengths, config: DataConfig, drawn: Callable[[int], Rows]):
        self._lengths, self._config = lengths, config
        # The shapes are the best ones for the batches of a trial epoch.
        trial = self._sorted(np.random.default_rng([0, 0]), drawn(0))
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
    """Batches of pairs that have the same cheapest shape, with less padding than pools.

    A batch has batch_size pairs or, where batch_words is set, as many pairs as have that many
    positions on the longer side. Pairs that do not fill a batch of their shape move to the next
    larger shape, so only one batch may be short.
    """

    def __init__(self, lengths: Lengths, config: DataConfig, drawn: Callable[[int], Rows]):
        # The shapes are the best ones for the epochs in which all encodings take their turns.
        rows = np.concatenate([drawn(epoch) for epoch in range(config.encodings)])
        largest = bucket_shapes.longest(lengths) if len(lengths) else None
        self.shapes = bucket_shapes.choose(lengths[rows], config.shapes, largest)
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
            bucket = waiting[i]
            if larger is not None:
                full = len(bucket) - len(bucket) % height
                waiting[larger] = np.concatenate([bucket[full:], waiting[larger]])
                bucket = bucket[:full]
            parts = np.split(bucket, range(height, len(bucket), height)) if len(bucket) else []
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
