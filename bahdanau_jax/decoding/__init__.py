"""Search over any model's step function, and translation of text with it."""

from bahdanau_jax.decoding import program
from bahdanau_jax.decoding.encoded import Encoded, encode
from bahdanau_jax.decoding.forced import below, force
from bahdanau_jax.decoding.history import Found
from bahdanau_jax.decoding.pieces import LONGEST
from bahdanau_jax.decoding.program import METHODS
from bahdanau_jax.decoding.ranking import NORMALIZATIONS, Normalization, Ranking
from bahdanau_jax.decoding.rules import Rules
from bahdanau_jax.decoding.sampling import sample
from bahdanau_jax.decoding.search import beam, greedy
from bahdanau_jax.decoding.translate import PRODUCTS, distinct, translate
from bahdanau_jax.decoding.unknown import LexiconCounts, read_lexicon, replace_unknown

__all__ = [
    "LONGEST",
    "METHODS",
    "NORMALIZATIONS",
    "PRODUCTS",
    "Encoded",
    "Found",
    "LexiconCounts",
    "Normalization",
    "Ranking",
    "Rules",
    "beam",
    "below",
    "distinct",
    "encode",
    "force",
    "greedy",
    "program",
    "read_lexicon",
    "replace_unknown",
    "sample",
    "translate",
]
