"""Word alignment in NumPy: links from attention weights, gold links and error rates."""

from bahdanau_jax.alignment import gold
from bahdanau_jax.alignment.cooccurrence import Dice, merge_scores, strongest
from bahdanau_jax.alignment.error_rate import aer, alignment_scores
from bahdanau_jax.alignment.gold import Gold, GoldFile, format_pharaoh
from bahdanau_jax.alignment.linking import (
    EOS_RULES,
    WEIGHTS,
    Link,
    Links,
    coverage,
    diagonal,
    entropy,
    links,
    links_above,
    merge_pieces,
    share,
)
from bahdanau_jax.alignment.symmetrization import SYMMETRIZATIONS, transposed

__all__ = [
    "EOS_RULES",
    "SYMMETRIZATIONS",
    "WEIGHTS",
    "Dice",
    "Gold",
    "GoldFile",
    "Link",
    "Links",
    "aer",
    "alignment_scores",
    "coverage",
    "diagonal",
    "entropy",
    "format_pharaoh",
    "gold",
    "links",
    "links_above",
    "merge_pieces",
    "merge_scores",
    "share",
    "strongest",
    "transposed",
]
