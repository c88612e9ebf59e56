"""Confidence intervals of scores, and significance tests between two systems.

All tests resample the statistics of sentences (`tally`), a block of resamples in one matrix
product. They draw the same random numbers as sacreBLEU, so the same seed and number of resamples
give its results, with one exception. Approximate randomisation also counts shuffles with exactly
the observed difference, as Riezler and Maxwell 2005 do. N sentences, R resamples.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from bahdanau_jax.evaluation.tally import Tally

SEED = 12345  # the default of sacreBLEU
RESAMPLES = 1000  # resamples of the bootstrap, as in Koehn 2004
SHUFFLES = 10_000  # resamples of approximate randomisation
ROUNDING = 1e-9  # sums of the same numbers in another order may differ in their last bits
BLOCK = 1 << 22  # entries of the matrix of a block of resamples
WORD = 32  # random bits of one word


class Interval(NamedTuple):
    """The middle 95 % of the resampled scores."""

    low: float  # the 2.5th percentile
    high: float  # the 97.5th percentile


class Comparison(NamedTuple):
    """A system's score and a baseline's on the same sentences. Each p-value is two-sided."""

    score: float  # of the system
    baseline: float  # the score of the baseline
    difference: float  # score - baseline
    interval: Interval  # of the difference, by paired bootstrap
    wins: float  # share of the resamples where the system has the higher score
    p_bootstrap: float  # paired bootstrap of Koehn 2004, with sacreBLEU's centring
    p_randomization: float  # approximate randomisation, which swaps outputs of a sentence


def intervals(
    tallies: Mapping[str, Tally], resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, Interval]:
    """Return each metric's 95 % interval by bootstrap over sentences (Efron and Tibshirani 1993).

    All metrics use the same resamples. Raises ValueError for fewer than one resample, and where
    the tallies differ in their number of sentences.

    >>> intervals({"BLEU": bleu_tally(translations, references)})["BLEU"].low
    """
    return {name: middle(scores) for name, scores in resampled(tallies, resamples, seed).items()}


def resampled(
    tallies: Mapping[str, Tally], resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, Float[np.ndarray, " R"]]:
    """Return each metric's score on every resample of the sentences, drawn with replacement."""
    sentences = _sentences(tallies)
    blocks = [_scores(tallies, times) for times in multiplicities(sentences, resamples, seed)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in tallies}


def multiplicities(
    sentences: int, resamples: int = RESAMPLES, seed: int = SEED
) -> Iterator[Float[np.ndarray, "R N"]]:
    """Yield how often each of N sentences is in each resample, in blocks of R resamples.

    Sentences are drawn with replacement. The same arguments give the same numbers. Raises
    ValueError for fewer than one resample.

    >>> [times.sum(axis=1).tolist() for times in multiplicities(4, resamples=2)]
    [[4.0, 4.0]]
    """
    rng = np.random.default_rng(seed)
    for rows in _blocks(resamples, sentences):
        chosen = rng.choice(sentences, size=(rows, sentences))
        chosen += sentences * np.arange(rows)[:, None]  # each row has its own range of bins
        times = np.bincount(chosen.ravel(), minlength=rows * sentences)
        yield times.reshape(rows, sentences).astype(np.float64)


def compare(
    ours: Mapping[str, Tally],
    theirs: Mapping[str, Tally],
    resamples: int = RESAMPLES,
    shuffles: int = SHUFFLES,
    seed: int = SEED,
) -> dict[str, Comparison]:
    """Compare a system with a baseline on the same sentences, by each metric.

    Source: Koehn 2004; Riezler and Maxwell 2005. A difference of 0 has p = 1. Raises ValueError as
    `intervals` does, and where the metrics of both differ.

    >>> compare({"BLEU": ours}, {"BLEU": theirs})["BLEU"].p_bootstrap
    """
    both = {("ours", name): tally for name, tally in ours.items()}
    both |= {("theirs", name): tally for name, tally in theirs.items()}
    drawn = resampled(both, resamples, seed)  # pyright: ignore[reportArgumentType]
    if ours.keys() != theirs.keys():
        raise ValueError(f"the metrics are {', '.join(ours)} here, but {', '.join(theirs)} there")
    shuffled = _shuffled(ours, theirs, shuffles, seed)
    return {
        name: _comparison(
            (ours[name].score(), theirs[name].score()),
            drawn["ours", name] - drawn["theirs", name],  # pyright: ignore[reportArgumentType]
            shuffled[name],
        )
        for name in ours
    }


def _comparison(
    scores: tuple[float, float], drawn: Float[np.ndarray, " R"], shuffled: Float[np.ndarray, " R"]
) -> Comparison:
    difference = scores[0] - scores[1]
    distances, size = np.abs(drawn), abs(difference)
    return Comparison(
        *scores,
        difference,
        middle(drawn),
        wins=float((drawn > 0).mean()),
        p_bootstrap=_p_value(distances - distances.mean() > size + ROUNDING) if size else 1.0,
        p_randomization=_p_value(np.abs(shuffled) >= size - ROUNDING),
    )


def _shuffled(
    ours: Mapping[str, Tally], theirs: Mapping[str, Tally], shuffles: int, seed: int
) -> dict[str, Float[np.ndarray, " R"]]:
    """Return differences of scores after a swap of each sentence's outputs with probability 1/2."""
    sentences = _sentences({**ours, **{f"{name} ": t for name, t in theirs.items()}})
    rng = np.random.default_rng(seed)
    blocks = []
    for rows in _blocks(shuffles, sentences):
        swapped = rng.integers(2, size=(rows, sentences), dtype=bool).astype(np.float64)
        blocks.append({name: _swap(ours[name], theirs[name], swapped) for name in ours})
    return {name: np.concatenate([block[name] for block in blocks]) for name in ours}


def _swap(ours: Tally, theirs: Tally, swapped: Float[np.ndarray, "R N"]) -> Float[np.ndarray, " R"]:
    moved = swapped @ (theirs.counts - ours.counts)
    first, second = ours.counts.sum(axis=0) + moved, theirs.counts.sum(axis=0) - moved
    return ours.formula(first) - ours.formula(second)


def _scores(tallies: Mapping[str, Tally], times: Float[np.ndarray, "R N"]) -> dict:
    return {name: tally.formula(times @ tally.counts) for name, tally in tallies.items()}


def _sentences(tallies: Mapping[str, Tally]) -> int:
    sizes = {len(tally.counts) for tally in tallies.values()}
    if len(sizes) != 1 or 0 in sizes:
        shown = ", ".join(map(str, sorted(sizes))) or "none"
        raise ValueError(f"expected scores of the same sentences (at least one), not of {shown}")
    return sizes.pop()


def _blocks(resamples: int, sentences: int) -> Iterator[int]:
    """Yield the number of resamples of each block, whose matrix has about BLOCK entries at most.

    NumPy takes 32 random bits from each word and drops the rest at the end of a call. With a
    multiple of 32 rows nothing is dropped, so the blocks have the bits of one call for all rows.
    """
    if resamples < 1:
        raise ValueError(f"{resamples} resamples: there should be at least one")
    most = max(1, BLOCK // sentences // WORD) * WORD
    while resamples > 0:
        yield min(most, resamples)
        resamples -= most


def middle(drawn: Float[np.ndarray, " R"]) -> Interval:
    """Return the middle 95 % of R resampled values; NaN is left out.

    1/40 of the values is cut off at either end, at the ranks that sacreBLEU uses.

    >>> middle(np.arange(80.0))
    Interval(low=2.0, high=77.0)
    """
    ordered = np.sort(drawn[~np.isnan(drawn)])
    if not len(ordered):
        return Interval(np.nan, np.nan)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[len(ordered) - 1 - cut]))


def _p_value(extreme: Bool[np.ndarray, " R"]) -> float:
    """Return the share of extreme resamples; the observed value counts as one of them."""
    return (int(extreme.sum()) + 1) / (len(extreme) + 1)
