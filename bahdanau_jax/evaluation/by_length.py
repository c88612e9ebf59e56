"""Scores by sentence length, with intervals: the paper's Figure 2."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bahdanau_jax.evaluation.significance import RESAMPLES, SEED, Interval, intervals
from bahdanau_jax.evaluation.tally import Tally

EDGES = (10, 20, 30, 40, 50, 60)  # the largest length of each bin; the last bin has none


class LengthBin(NamedTuple):
    """The sentences of `low` to `high` words."""

    low: int  # the fewest words
    high: int | None  # None for the last bin, which has no upper end
    sentences: int  # how many there are
    words: float | None  # mean length; None, as the scores, in an empty bin
    score: float | None  # of these sentences as one corpus
    interval: Interval | None  # of the score, at 95 %

    @property
    def name(self) -> str:
        """
        >>> LengthBin(61, None, 0, None, None, None).name
        'over 60'
        """
        if self.high is None:
            return f"over {self.low - 1}"
        return f"{self.low}–{self.high}" if self.low else f"up to {self.high}"


def by_length(
    lengths: Sequence[int],
    tally: Tally,
    edges: Sequence[int] = EDGES,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[LengthBin]:
    """Return the score and its 95 % interval for the sentences of each range of lengths.

    `lengths` has the number of words of each source sentence. The first bin begins at 0. Raises
    ValueError where `lengths` and the tally differ in their number of sentences, and where the
    edges are not positive and increasing.

    >>> [(b.name, b.sentences) for b in by_length([3, 12], tally, edges=[10])]
    [('up to 10', 1), ('over 10', 1)]
    """
    if len(lengths) != len(tally.counts):
        raise ValueError(f"{len(lengths)} lengths for {len(tally.counts)} sentences")
    if not len(edges) or edges[0] < 1 or not (np.diff(edges) > 0).all():
        shown = ",".join(map(str, edges))
        raise ValueError(f"edges of lengths should be positive and grow, as 10,20,30, not {shown}")
    words = np.asarray(lengths, np.int64)
    places = np.searchsorted(np.asarray(edges), words)
    lows, highs = [0, *(edge + 1 for edge in edges)], [*edges, None]
    bins = []
    for place, (low, high) in enumerate(zip(lows, highs, strict=True)):
        rows = np.flatnonzero(places == place)
        if not len(rows):
            bins.append(LengthBin(low, high, 0, None, None, None))
            continue
        part = tally.take(rows)
        interval = intervals({"score": part}, resamples, seed)["score"]
        mean = float(words[rows].mean())
        bins.append(LengthBin(low, high, len(rows), mean, part.score(), interval))
    return bins
