"""What a translation is worth, where the model looked, and pictures of both: NumPy in."""

from bahdanau_jax.evaluation import alignment, figures, scores
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

__all__ = [
    "AlignmentScores",
    "Bleu",
    "Chrf",
    "Drawing",
    "Gold",
    "Link",
    "Links",
    "MissingFont",
    "SequenceScores",
    "accuracy",
    "aer",
    "alignment",
    "alignment_scores",
    "bleu",
    "chrf",
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
]
