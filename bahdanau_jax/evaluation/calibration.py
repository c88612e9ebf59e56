"""Calibration: accuracy by confidence, the expected calibration error, and the area under ROC."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bahdanau_jax.names import choose

BINS = 15  # as in Guo et al. 2017


class ConfidenceBin(NamedTuple):
    """The predictions with a confidence between `low` and `high`."""

    low: float  # the least confidence
    high: float  # the largest confidence
    words: int  # predictions in the bin
    confidence: float | None  # mean confidence; None, as the accuracy, in an empty bin
    accuracy: float | None  # share of the predictions that are correct


def _equal_width(confidence: Float[np.ndarray, " N"], bins: int):
    """Bins (k/M, (k+1)/M] of probability; the first includes 0."""
    places = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    return places, [(k / bins, (k + 1) / bins) for k in range(bins)]


def _equal_mass(confidence: Float[np.ndarray, " N"], bins: int):
    """Bins of equal numbers of words, up to one, in the order of confidence."""
    parts = np.array_split(np.arange(len(confidence)), min(bins, max(len(confidence), 1)))
    places = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    ends = [(confidence[p[0]], confidence[p[-1]]) if len(p) else (0.0, 1.0) for p in parts]
    return places, [(float(low), float(high)) for low, high in ends]


# confidences [N], the number of bins -> the bin of each, and the ends of each bin.
Binning = Callable[..., tuple[Int[np.ndarray, " N"], list[tuple[float, float]]]]
# Name -> how confidences are put into bins.
BINNINGS: Mapping[str, Binning] = MappingProxyType(
    {"equal-width": _equal_width, "equal-mass": _equal_mass}
)


def reliability(
    confidence: Float[np.ndarray, " N"],
    correct: Bool[np.ndarray, " N"],
    bins: int = BINS,
    binning: str = "equal-width",
) -> list[ConfidenceBin]:
    """Return confidence and accuracy of N predictions in bins of confidence.

    The order of the predictions does not matter. Raises ValueError for an unknown binning and for
    values that are not probabilities.

    >>> float(reliability(np.array([0.9, 0.8]), np.array([True, False]), bins=1)[0].accuracy)
    0.5
    """
    into_bins = choose(BINNINGS, binning, "binning")
    confidence, correct = np.asarray(confidence, np.float64), np.asarray(correct, bool)
    if np.isnan(confidence).any():
        raise ValueError(
            "confidences are NaN instead of probabilities: the model may have diverged"
        )
    if confidence.shape != correct.shape or not ((confidence >= 0) & (confidence <= 1)).all():
        raise ValueError("expected probabilities, from 0 to 1, one for each entry of `correct`")
    order = np.argsort(confidence, kind="stable")
    confidence, runs = np.unique(confidence[order], return_inverse=True)
    # Equal confidences have no order, so each of them gets their mean accuracy.
    correct = (np.bincount(runs, correct[order]) / np.bincount(runs))[runs]
    confidence = confidence[runs]
    places, ranges = into_bins(confidence, bins)
    words = np.bincount(places, minlength=len(ranges))
    confidences = np.bincount(places, confidence, len(ranges)).tolist()
    hits = np.bincount(places, correct, len(ranges)).tolist()
    return [
        ConfidenceBin(*ends, int(n), c / n if n else None, h / n if n else None)
        for ends, n, c, h in zip(ranges, words, confidences, hits, strict=True)
    ]


def expected_calibration_error(bins: Sequence[ConfidenceBin]) -> float:
    """Return ECE = Σ_b n_b / N |accuracy_b − confidence_b|; NaN where there are no words.

    Source: Naeini et al. 2015; Guo et al. 2017; for the likeliest next word under teacher forcing,
    Kumar and Sarawagi 2019 (arXiv 1903.00802).
    """
    words = sum(b.words for b in bins)
    if not words:
        return float("nan")
    gaps = (b.words * abs(b.accuracy - b.confidence) for b in bins if b.accuracy is not None)  # pyright: ignore
    return sum(gaps) / words


def area_under_roc(confidence: Float[np.ndarray, " N"], correct: Bool[np.ndarray, " N"]) -> float:
    """Return the probability that a correct prediction has a larger confidence than a wrong one.

    Equal confidences count a half. NaN where all predictions are correct, or none.

    >>> area_under_roc(np.array([0.9, 0.5, 0.4]), np.array([True, False, True]))
    0.5
    """
    _, place, members = np.unique(confidence, return_inverse=True, return_counts=True)
    correct = np.asarray(correct, bool)
    right, wrong = int(correct.sum()), int((~correct).sum())
    if not right or not wrong:
        return float("nan")
    wrong_at = np.bincount(place[~correct], minlength=len(members))
    below = np.cumsum(wrong_at) - wrong_at / 2
    return float(below[place[correct]].sum() / (right * wrong))


def table(confidence: Float[np.ndarray, " N"], correct: Bool[np.ndarray, " N"]) -> dict[str, Any]:
    """Return all numbers on N predictions, as JSON has them; NaN for those of no predictions.

    Raises ValueError for values that are not probabilities.

    >>> table(np.array([0.9, 0.8]), np.array([True, False]))["accuracy"]
    0.5
    """
    words = len(confidence)
    bins = {name: reliability(confidence, correct, binning=name) for name in BINNINGS}
    return {
        "words": words,
        "accuracy": float(np.mean(correct)) if words else float("nan"),
        "confidence": float(np.mean(confidence)) if words else float("nan"),
        "AUC": area_under_roc(confidence, correct),
        "ECE": expected_calibration_error(bins["equal-width"]),
        "ECE-equal-mass": expected_calibration_error(bins["equal-mass"]),
        "bins": {name: [each._asdict() for each in binned] for name, binned in bins.items()},
    }
