"""The scores of a test set by their names in reports: their decimals, and what they mean.

This file imports nothing of the package, so that the help of the commands is fast.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Reported(NamedTuple):
    """How reports show a score."""

    decimals: int
    meaning: str  # a phrase


# Scores of a model.
SCORES: Mapping[str, Reported] = MappingProxyType(
    {
        "BLEU": Reported(1, "sacreBLEU's, on ordinary text"),
        "BLEU-lowercased": Reported(1, "the same in lower case"),
        "BLEU-tokenized": Reported(1, "BLEU of Moses tokens, as in the paper"),
        "BLEU-tokenized-lowercased": Reported(1, "the same in lower case"),
        "BLEU-no-UNK": Reported(1, "BLEU of sentences without unknown words"),
        "chrF": Reported(1, "sacreBLEU's, of character n-grams"),
        "exact": Reported(3, "share of translations that equal the reference"),
        "PSA": Reported(3, "position-specific accuracy"),
        "LCSR": Reported(3, "ratio of the longest common subsequence"),
        "GeoMean": Reported(3, "root of PSA times LCSR"),
        "PSA-seed": Reported(3, "PSA, but 0 for an empty reference"),
        "LCSR-seed": Reported(3, "LCSR, likewise"),
        "GeoMean-seed": Reported(3, "GeoMean, likewise"),
        "length-ratio": Reported(2, "words divided by words of the references"),
        "unfinished": Reported(3, "share of translations that decoding.max_ratio cut off"),
        "UNK": Reported(3, "share of UNK in the output"),
        "perplexity": Reported(2, "perplexity of the references' words"),
        "ECE": Reported(3, "expected calibration error of the likeliest word"),
        "confidence-chrF": Reported(
            2, "rank correlation of the mean log p and the sentence's chrF"
        ),
        "AER": Reported(3, "alignment error rate; only with gold links (builtin:)"),
        "AER-share": Reported(3, "AER of weights divided by the sum of their source word's"),
        "alignment-precision": Reported(3, "precision of the links, likewise"),
        "alignment-recall": Reported(3, "recall of the links, likewise"),
    }
)

# Numbers that show how hard the test pairs are.
FACTS: Mapping[str, Reported] = MappingProxyType(
    {
        "AER-diagonal": Reported(3, "alignment error rate of the diagonal, which needs no model"),
        "alignment-left-out": Reported(
            0, "pairs with an empty or very long side, which have no error rate"
        ),
        "BLEU-word-for-word": Reported(1, "BLEU of a dictionary that keeps the order of words"),
        "mean-source-words": Reported(1, "mean number of source words in a test sentence"),
        "crossing-share": Reported(2, "share of test sentences with links that cross"),
        "test-in-training": Reported(0, "test sentences that are also in the training text"),
    }
)


def decimals(name: str, otherwise: int = 3) -> int:
    """The decimals of a score or fact; `otherwise` for a name that is in neither table.

    >>> decimals("BLEU")
    1
    """
    known = SCORES.get(name) or FACTS.get(name)
    return known.decimals if known else otherwise
