"""What a translation is worth, where the model looked, and pictures of both: NumPy in."""

from bahdanau_jax.evaluation import (
    alignment,
    behaviour,
    calibration,
    figures,
    scores,
    significance,
)
from bahdanau_jax.evaluation.alignment import (
    AlignmentScores,
    Gold,
    Link,
    Links,
    aer,
    alignment_scores,
    diagonal,
    format_pharaoh,
    links,
    merge_pieces,
    read_gold,
    read_pharaoh,
)
from bahdanau_jax.evaluation.by_length import EDGES, LengthBin, by_length
from bahdanau_jax.evaluation.drawing import Drawing, MissingFont, save
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
from bahdanau_jax.evaluation.tally import TOKENIZERS, Tally, bleu_tally, chrf_tally

__all__ = [
    "EDGES",
    "TOKENIZERS",
    "AlignmentScores",
    "Bleu",
    "Chrf",
    "Comparison",
    "Drawing",
    "Gold",
    "Interval",
    "LengthBin",
    "Link",
    "Links",
    "MissingFont",
    "SequenceScores",
    "Tally",
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
    "diagonal",
    "figures",
    "format_pharaoh",
    "links",
    "merge_pieces",
    "psa_lcsr",
    "read_gold",
    "read_pharaoh",
    "save",
    "scores",
    "significance",
]
