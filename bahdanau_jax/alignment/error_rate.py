"""Alignment error rate, precision and recall of links against gold links."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from bahdanau_jax.alignment.linking import Link


class AlignmentScores(NamedTuple):
    """Scores from 0 to 1 over the links of all sentences."""

    aer: float  # alignment error rate; 0 is the best
    precision: float  # share of the predicted links that are possible
    recall: float  # share of the sure links that are predicted


def alignment_scores(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]],
) -> AlignmentScores:
    """AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), with A predicted, S sure, P possible or sure.

    Source: Och and Ney 2003. The sequences have one set for each sentence; sizes are summed over
    sentences before the division. A ratio with an empty denominator is 1. Raises ValueError for no
    sentences and for unequal counts.

    >>> alignment_scores([{(0, 0), (1, 1)}], sure=[{(0, 0)}], possible=[{(0, 0), (1, 0)}])
    AlignmentScores(aer=0.33333333333333337, precision=0.5, recall=1.0)
    """
    counts = {"predicted": len(predicted), "sure": len(sure), "possible": len(possible)}
    if len(set(counts.values())) > 1 or not predicted:
        shown = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ValueError(f"expected links of the same sentences (at least one), not {shown}")
    in_sure = in_possible = of_predicted = of_sure = 0
    for a, s, p in zip(predicted, sure, possible, strict=True):
        in_sure += len(a & s)
        in_possible += len(a & (p | s))
        of_predicted += len(a)
        of_sure += len(s)
    return AlignmentScores(
        aer=1 - _share(in_sure + in_possible, of_predicted + of_sure),
        precision=_share(in_possible, of_predicted),
        recall=_share(in_sure, of_sure),
    )


def aer(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]],
) -> float:
    """Return the error rate of `alignment_scores`."""
    return alignment_scores(predicted, sure, possible).aer


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
