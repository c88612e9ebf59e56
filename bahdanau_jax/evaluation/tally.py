"""BLEU and chrF from counts of each sentence, whose sums are all that a corpus score needs.

sacreBLEU counts, once; any selection of sentences, and thousands of resamples, are then one matrix
product. N sentences, D counts of each, R selections.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

TOKENIZERS = ("13a", "none", "intl", "char", "zh")  # of sacreBLEU's, those that need no download

Formula = Callable[[Float[np.ndarray, "*X D"]], Float[np.ndarray, "*X"]]


@dataclass(frozen=True)
class Tally:
    """What a metric counted in each sentence of a system's output.

    >>> tally = bleu_tally(["a b c d", "a"], ["a b c d", "b"], "none")
    >>> tally.score(), tally.take([0]).score()
    """

    counts: Float[np.ndarray, "N D"]
    formula: Formula  # sums of counts -> scores, 0 to 100
    signature: str  # sacreBLEU's, with its version: quote it beside the score

    def score(self) -> float:
        """Of the whole corpus; NaN where it has no sentences."""
        return float(self.formula(self.counts.sum(axis=0))) if len(self.counts) else math.nan

    def take(self, rows: Sequence[int] | np.ndarray) -> "Tally":
        """The same of some of the sentences."""
        rows = np.asarray(rows, np.int64)
        return Tally(self.counts[rows], self.formula, self.signature)


def bleu_tally(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Tally:
    """Raises ValueError for no sentences, unequal counts, or an unknown tokeniser."""
    if tokenize not in TOKENIZERS:
        raise ValueError(f"no BLEU tokeniser {tokenize!r}; known: {', '.join(TOKENIZERS)}")
    # force: tokenised text is a choice of the caller here, not a slip to be warned of.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    return _tally(metric, bleu_formula, hypotheses, references)


def chrf_tally(hypotheses: Sequence[str], references: Sequence[str]) -> Tally:
    """Raises ValueError for no sentences or unequal counts."""
    return _tally(CHRF(), chrf_formula, hypotheses, references)


def bleu_formula(sums: Float[np.ndarray, "*X D"]) -> Float[np.ndarray, "*X"]:
    """BP · exp(¼ Σ_n log p_n), p_n = matches / n-grams, BP = min(1, exp(1 − r / c)).

    Source: Papineni et al. 2002; orders without a match smoothed as in mteval-v13a, the k-th of
    them counting 2^-k (sacreBLEU's `exp`). Sums: length of the output c, of the reference r, the
    matches of order 1 to 4, the n-grams of order 1 to 4. No n-gram of an order: 0.
    """
    sums = np.asarray(sums, np.float64)
    ours, theirs, matches, grams = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    scored = (grams > 0).all(axis=-1) & (matches > 0).any(axis=-1)
    smoothed = 0.5 ** np.cumsum(matches == 0, axis=-1)
    precision = np.where(matches > 0, matches, smoothed) / np.maximum(grams, 1)
    brevity = np.minimum(1, np.exp(1 - theirs / np.maximum(ours, 1)))
    score = 100 * brevity * np.exp(np.log(precision).mean(axis=-1))
    # Perfect matches come out as 100.00000000000004.
    return np.where(scored, np.minimum(score, 100), 0.0)


def chrf_formula(sums: Float[np.ndarray, "*X D"]) -> Float[np.ndarray, "*X"]:
    """F2 of the mean precision and the mean recall of character n-grams (Popović 2015).

    Sums: for each order, n-grams of the output, of the reference, and of both. An order that
    either side lacks is left out of the means.
    """
    sums = np.asarray(sums, np.float64)
    ours, theirs, matches = (sums[..., i::3] for i in range(3))
    there = (ours > 0) & (theirs > 0)
    orders = np.maximum(there.sum(axis=-1), 1)
    precision = np.where(there, matches / np.maximum(ours, 1), 0).sum(axis=-1) / orders
    recall = np.where(there, matches / np.maximum(theirs, 1), 0).sum(axis=-1) / orders
    weighted = 4 * precision + recall
    f = 5 * precision * recall / np.where(weighted > 0, weighted, 1)
    return np.minimum(100 * f, 100)


def check_counts(name: str, items: Sequence, other_name: str, others: Sequence) -> None:
    """Raises ValueError where there are none, or not as many of each."""
    if len(items) != len(others):
        raise ValueError(
            f"{len(items)} {name} but {len(others)} {other_name}: there should be as many of each"
        )
    if not len(items):
        raise ValueError(f"no {name} to score: there should be at least one")


def _tally(
    metric: Metric, formula: Formula, hypotheses: Sequence[str], references: Sequence[str]
) -> Tally:
    check_counts("hypotheses", hypotheses, "references", references)
    # The method by which sacreBLEU's own significance tests take the counts; no public one has
    # them for chrF.
    counts = metric._extract_corpus_statistics(hypotheses, [references])
    return Tally(np.array(counts, np.float64), formula, str(metric.get_signature()))
