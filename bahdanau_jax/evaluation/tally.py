"""Statistics of BLEU and chrF for each sentence; a corpus score is a formula of their sums.

sacreBLEU counts the statistics once. Any selection of sentences, and thousands of resamples, are
then one matrix product. Counts are kept, since several runs, and several checkpoints of one run,
translate many sentences in the same way. N sentences, D statistics of each.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from bahdanau_jax.names import choose
from bahdanau_jax.pairing import check_equal_counts

# Of all metrics together, the counts of so many pairs of a translation and its reference are kept,
# where the two have at most so many characters: this bounds the memory.
KEPT, LONGEST_KEPT = 100_000, 1_000
TOKENIZERS = ("13a", "none", "intl", "char", "zh")  # sacreBLEU's, without those that it downloads

# Counts of corpora -> their scores.
Formula = Callable[[Float[np.ndarray, "*X D"]], Float[np.ndarray, "*X"]]


@dataclass(frozen=True)
class Tally:
    """The statistics of a metric for each sentence of a system's output.

    >>> tally = bleu_tally(["a b c d", "a"], ["a b c d", "b"], "none")
    >>> tally.score(), tally.take([0]).score()
    """

    counts: Float[np.ndarray, "N D"]  # D numbers of each of N sentences
    formula: Formula  # sums of counts -> scores, 0 to 100
    signature: str  # of sacreBLEU, with its version, to be quoted with the score

    def score(self) -> float:
        """Return the score of the whole corpus; NaN where it has no sentences."""
        return float(self.formula(self.counts.sum(axis=0))) if len(self.counts) else math.nan

    def take(self, rows: Sequence[int] | Int[np.ndarray, " R"]) -> "Tally":
        """Return the tally of R chosen sentences."""
        rows = np.asarray(rows, np.int64)
        return Tally(self.counts[rows], self.formula, self.signature)


def bleu_tally(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Tally:
    """Count for BLEU. Raises ValueError for no sentences, unequal counts, an unknown tokeniser."""
    choose(dict.fromkeys(TOKENIZERS), tokenize, "BLEU tokeniser")
    # `force` suppresses a warning about tokenised text, which is the caller's choice here.
    metric = _metric(BLEU, tokenize=tokenize, lowercase=lowercase, force=True)
    return _tally(metric, bleu_formula, hypotheses, references)


def chrf_tally(hypotheses: Sequence[str], references: Sequence[str]) -> Tally:
    """Count for chrF2. Raises ValueError for no sentences or unequal counts."""
    return _tally(_metric(CHRF), chrf_formula, hypotheses, references)


def bleu_formula(sums: Float[np.ndarray, "*X D"]) -> Float[np.ndarray, "*X"]:
    """BP · exp(¼ Σ_n log p_n), p_n = matches / n-grams, BP = min(1, exp(1 − r / c)).

    Source: Papineni et al. 2002. The k-th order without a match counts 2^-k matches, as in
    mteval-v13a (sacreBLEU's `exp` smoothing). Sums: length of the output c, of the reference r,
    matches of order 1 to 4, n-grams of order 1 to 4. BLEU is 0 where an order has no n-gram.
    """
    sums = np.asarray(sums, np.float64)
    ours, theirs, matches, grams = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    scored = (grams > 0).all(axis=-1) & (matches > 0).any(axis=-1)
    smoothed = 0.5 ** np.cumsum(matches == 0, axis=-1)
    precision = np.where(matches > 0, matches, smoothed) / np.maximum(grams, 1)
    brevity = np.minimum(1, np.exp(1 - theirs / np.maximum(ours, 1)))
    score = 100 * brevity * np.exp(np.log(precision).mean(axis=-1))
    return np.where(scored, score, 0.0)


def chrf_formula(sums: Float[np.ndarray, "*X D"]) -> Float[np.ndarray, "*X"]:
    """F2 of the mean precision and the mean recall of character n-grams (Popović 2015).

    Sums: for each order, n-grams of the output, of the reference, and of both. The means leave out
    orders without n-grams on either side.
    """
    sums = np.asarray(sums, np.float64)
    ours, theirs, matches = (sums[..., i::3] for i in range(3))
    counts = (ours > 0) & (theirs > 0)
    orders = np.maximum(counts.sum(axis=-1), 1)
    precision = np.where(counts, matches / np.maximum(ours, 1), 0).sum(axis=-1) / orders
    recall = np.where(counts, matches / np.maximum(theirs, 1), 0).sum(axis=-1) / orders
    weighted = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(weighted > 0, weighted, 1)


def check_counts(name: str, items: Sequence, other_name: str, others: Sequence) -> None:
    """Raise ValueError for no items or unequal counts."""
    check_equal_counts(name, items, other_name, others)
    if not len(items):
        raise ValueError(f"no {name} to score: there should be at least one")


@functools.cache
def _metric(kind: type[Metric], **options: Any) -> Metric:
    """The metric with these options, always the same object: its counts are kept by it."""
    return kind(**options)


def _counts(metric: Metric, hypothesis: str, reference: str) -> tuple[float, ...]:
    # sacreBLEU's significance tests use this private method; no public one has chrF's statistics.
    (counts,) = metric._extract_corpus_statistics([hypothesis], [[reference]])
    return tuple(counts)


_kept_counts = functools.lru_cache(KEPT)(_counts)


def _tally(
    metric: Metric, formula: Formula, hypotheses: Sequence[str], references: Sequence[str]
) -> Tally:
    check_counts("hypotheses", hypotheses, "references", references)
    counts = [
        (_kept_counts if len(ours) + len(theirs) <= LONGEST_KEPT else _counts)(metric, ours, theirs)
        for ours, theirs in zip(hypotheses, references, strict=True)
    ]
    return Tally(np.array(counts, np.float64), formula, str(metric.get_signature()))
