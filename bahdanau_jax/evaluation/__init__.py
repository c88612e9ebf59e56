"""What a translation is worth, where the model looked, and pictures of both: NumPy in."""

from bahdanau_jax.evaluation import alignment, figures, gold, scores
from bahdanau_jax.evaluation.alignment import AlignmentScores, aer, alignment_scores
from bahdanau_jax.evaluation.cooccurrence import Dice, merge_scores, strongest
from bahdanau_jax.evaluation.drawing import Drawing, MissingFont, save
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
from bahdanau_jax.evaluation.symmetrization import SYMMETRIZATIONS, transposed
from bahdanau_jax.evaluation.unknown import unknown_effect

__all__ = [
    "EOS_LOOKS",
    "SYMMETRIZATIONS",
    "WEIGHTS",
    "AlignmentScores",
    "Bleu",
    "Chrf",
    "Dice",
    "Drawing",
    "Gold",
    "GoldFile",
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
    "strongest",
    "transposed",
    "unknown_effect",
]
