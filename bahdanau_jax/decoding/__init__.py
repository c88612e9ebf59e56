"""Search over any model's step function, and translation of text with it."""

from bahdanau_jax.decoding.search import NORMALIZATIONS, Found, Normalization, beam, greedy
from bahdanau_jax.decoding.translate import force, translate

__all__ = ["NORMALIZATIONS", "Found", "Normalization", "beam", "force", "greedy", "translate"]
