"""What a translation is worth, where the model looked, and pictures of both: NumPy in."""

import importlib
from typing import TYPE_CHECKING, Any

from bahdanau_jax.evaluation import (
    alignment,
    behaviour,
    calibration,
    gold,
    scores,
    significance,
)
from bahdanau_jax.evaluation.alignment import AlignmentScores, aer, alignment_scores
from bahdanau_jax.evaluation.by_length import EDGES, LengthBin, by_length
from bahdanau_jax.evaluation.cooccurrence import Dice, merge_scores, strongest
from bahdanau_jax.evaluation.gold import (
    Gold,
    GoldFile,
    format_pharaoh,
    read_gold,
    read_pharaoh,
    read_wa,
)
from bahdanau_jax.evaluation.linking import (
    EOS_LOOKS,
    WEIGHTS,
    Link,
    Links,
    coverage,
    diagonal,
    entropy,
    links,
    links_above,
    membership,
    merge_pieces,
    share,
)
from bahdanau_jax.evaluation.scores import (
    Bleu,
    Chrf,
    SequenceScores,
    accuracy,
    bleu,
    chrf,
    psa_lcsr,
)
from bahdanau_jax.evaluation.significance import Comparison, Interval
from bahdanau_jax.evaluation.symmetrization import SYMMETRIZATIONS, transposed
from bahdanau_jax.evaluation.tally import TOKENIZERS, Tally, bleu_tally, chrf_tally
from bahdanau_jax.evaluation.unknown import unknown_effect

if TYPE_CHECKING:
    from bahdanau_jax.evaluation import figures as figures
    from bahdanau_jax.evaluation.drawing import Drawing as Drawing
    from bahdanau_jax.evaluation.drawing import MissingFont as MissingFont
    from bahdanau_jax.evaluation.drawing import save as save

# Loaded at first use: matplotlib takes half a second, and translating draws nothing.
_DRAWING = ("Drawing", "MissingFont", "save")


def __getattr__(name: str) -> Any:
    if name == "figures":
        return importlib.import_module(f"{__name__}.figures")
    if name in _DRAWING:
        return getattr(importlib.import_module(f"{__name__}.drawing"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AlignmentScores",
    "Bleu",
    "Chrf",
    "Comparison",
    "Dice",
    "Drawing",
    "EDGES",
    "EOS_LOOKS",
    "Gold",
    "GoldFile",
    "Interval",
    "LengthBin",
    "Link",
    "Links",
    "MissingFont",
    "SYMMETRIZATIONS",
    "SequenceScores",
    "TOKENIZERS",
    "Tally",
    "WEIGHTS",
    "accuracy",
    "aer",
    "alignment",
    "alignment_scores",
    "behaviour",
    "bleu",
    "bleu_tally",
    "by_length",
    "calibration",
    "chrf",
    "chrf_tally",
    "coverage",
    "diagonal",
    "entropy",
    "figures",
    "format_pharaoh",
    "gold",
    "links",
    "links_above",
    "membership",
    "merge_pieces",
    "merge_scores",
    "psa_lcsr",
    "read_gold",
    "read_pharaoh",
    "read_wa",
    "save",
    "scores",
    "share",
    "significance",
    "strongest",
    "transposed",
    "unknown_effect",
]
