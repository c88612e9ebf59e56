"""Search over any model's step function, and translation of text with it."""

from bahdanau_jax.decoding.search import NORMALIZATIONS, Found, Normalization, beam, greedy
from bahdanau_jax.decoding.translate import force, translate
from bahdanau_jax.decoding.unknown import LexiconCounts, read_lexicon, replace_unknown

__all__ = [
    "NORMALIZATIONS",
    "Found",
    "LexiconCounts",
    "Normalization",
    "beam",
    "force",
    "greedy",
    "read_lexicon",
    "replace_unknown",
    "translate",
]
