"""How far a score would move on other sentences, and whether one system beats another by chance.

All tests resample the counts of sentences (`tally`), a block of resamples at a time as one matrix
product, and follow sacreBLEU to the random number: with the same seed and number of resamples the
results are its own. N sentences, R resamples.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bahdanau_jax.evaluation.tally import Tally

SEED = 12345  # sacreBLEU's
RESAMPLES = 1000  # of the bootstrap, as in Koehn 2004
SHUFFLES = 10_000  # of approximate randomisation
BLOCK = 1 << 22  # entries of a matrix of resamples


class Interval(NamedTuple):
    """The middle 95 % of the resampled scores."""

    low: float
    high: float


class Comparison(NamedTuple):
    """A score beside another system's on the same sentences. Each p is two-sided."""

    score: float
    baseline: float
    difference: float  # score - baseline
    interval: Interval  # of the difference, by paired bootstrap
    wins: float  # share of the resamples where the score is the higher
    p_bootstrap: float  # Koehn 2004, with sacreBLEU's centring
    p_randomization: float  # approximate randomisation: outputs of a sentence change places


def intervals(
    tallies: Mapping[str, Tally], resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, Interval]:
    """The 95 % interval of each metric by bootstrap over sentences (Efron and Tibshirani 1993).

    All metrics see the same resamples. Raises ValueError for fewer than one resample, and where
    the tallies are not of one corpus.

    >>> intervals({"BLEU": bleu_tally(translations, references)})["BLEU"].low
    """
    return {name: _middle(drawn) for name, drawn in resampled(tallies, resamples, seed).items()}


def resampled(
    tallies: Mapping[str, Tally], resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, Float[np.ndarray, " R"]]:
    """Each metric's score on every resample of the sentences, drawn with replacement."""
    sentences = _sentences(tallies, resamples)
    rng = np.random.default_rng(seed)

    def draw(rows: int) -> np.ndarray:
        chosen = rng.choice(sentences, size=(rows, sentences))
        chosen += sentences * np.arange(rows)[:, None]  # each row counts in a range of its own
        times = np.bincount(chosen.ravel(), minlength=rows * sentences)
        return times.reshape(rows, sentences).astype(np.float64)

    blocks = [_scores(tallies, draw(rows)) for rows in _blocks(resamples, sentences)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in tallies}


def compare(
    ours: Mapping[str, Tally],
    theirs: Mapping[str, Tally],
    resamples: int = RESAMPLES,
    shuffles: int = SHUFFLES,
    seed: int = SEED,
) -> dict[str, Comparison]:
    """Each metric of a system against a baseline's, sentence by sentence of one test set.

    Source: Koehn 2004; Riezler and Maxwell 2005. A difference of 0 has p = 1. Raises ValueError as
    `intervals` does.

    >>> compare({"BLEU": ours}, {"BLEU": theirs})["BLEU"].p_bootstrap
    """
    both = {("ours", name): tally for name, tally in ours.items()}
    both |= {("theirs", name): tally for name, tally in theirs.items()}
    drawn = resampled(both, resamples, seed)  # pyright: ignore[reportArgumentType]
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
    distances = np.abs(drawn)
    return Comparison(
        *scores,
        difference,
        _middle(drawn),
        wins=float((drawn > 0).mean()),
        p_bootstrap=_p(distances - distances.mean(), abs(difference)),
        p_randomization=_p(np.abs(shuffled), abs(difference)),
    )


def _shuffled(
    ours: Mapping[str, Tally], theirs: Mapping[str, Tally], shuffles: int, seed: int
) -> dict[str, Float[np.ndarray, " R"]]:
    """Differences where each sentence's outputs change places with probability one half."""
    sentences = _sentences({**ours, **{f"{name} ": t for name, t in theirs.items()}}, shuffles)
    rng = np.random.default_rng(seed)
    blocks = []
    for rows in _blocks(shuffles, sentences):
        swapped = rng.integers(2, size=(rows, sentences), dtype=bool).astype(np.float64)
        blocks.append(
            {name: _swap(ours[name], theirs[name], swapped) for name in ours},
        )
    return {name: np.concatenate([block[name] for block in blocks]) for name in ours}


def _swap(ours: Tally, theirs: Tally, swapped: Float[np.ndarray, "R N"]) -> Float[np.ndarray, " R"]:
    moved = swapped @ (theirs.counts - ours.counts)
    first, second = ours.counts.sum(axis=0) + moved, theirs.counts.sum(axis=0) - moved
    return ours.formula(first) - ours.formula(second)


def _scores(tallies: Mapping[str, Tally], times: Float[np.ndarray, "R N"]) -> dict:
    return {name: tally.formula(times @ tally.counts) for name, tally in tallies.items()}


def _sentences(tallies: Mapping[str, Tally], resamples: int) -> int:
    sizes = {len(tally.counts) for tally in tallies.values()}
    if len(sizes) != 1 or 0 in sizes:
        found = ", ".join(map(str, sorted(sizes))) or "none"
        raise ValueError(f"scores of the same sentences (at least one) are needed, not of {found}")
    if resamples < 1:
        raise ValueError(f"{resamples} resamples: there should be at least one")
    return sizes.pop()


def _blocks(resamples: int, sentences: int) -> Iterator[int]:
    """How many resamples at a time, so that the matrix of a block stays small."""
    most = max(1, BLOCK // sentences)
    while resamples > 0:
        yield min(most, resamples)
        resamples -= most


def _middle(drawn: Float[np.ndarray, " R"]) -> Interval:
    """Without the fortieth part at either end, by sacreBLEU's choice of the two ranks."""
    ordered, cut = np.sort(drawn), len(drawn) // 40
    return Interval(float(ordered[cut]), float(ordered[len(drawn) - 1 - cut]))


def _p(drawn: Float[np.ndarray, " R"], observed: float) -> float:
    """Share of resamples above what was observed, itself counted as one: never 0."""
    # Equal sums added in another order may differ in their last bits.
    above = int((drawn > observed + 1e-9).sum()) if observed else len(drawn)
    return (above + 1) / (len(drawn) + 1)
