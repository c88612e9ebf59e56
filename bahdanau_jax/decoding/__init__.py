"""Decoding: beam search and sampling over any model's step function, and translation of text."""

from bahdanau_jax.decoding import search_program
from bahdanau_jax.decoding.constraints import Rules
from bahdanau_jax.decoding.encoder_states import EncoderStates, encode
from bahdanau_jax.decoding.long_lines import LONGEST
from bahdanau_jax.decoding.members import COMPUTE_DTYPES
from bahdanau_jax.decoding.ranking import NORMALIZATIONS, Ranking
from bahdanau_jax.decoding.scoring import below, score, target_ids
from bahdanau_jax.decoding.search_program import METHODS
from bahdanau_jax.decoding.translation import translate
from bahdanau_jax.decoding.unk_replacement import (
    LexiconCounts,
    read_lexicon,
    replace_in_all,
    replace_unknown,
)
from bahdanau_jax.decoding.warming import programs

__all__ = [
    "COMPUTE_DTYPES",
    "LONGEST",
    "METHODS",
    "NORMALIZATIONS",
    "EncoderStates",
    "LexiconCounts",
    "Ranking",
    "Rules",
    "below",
    "encode",
    "programs",
    "read_lexicon",
    "replace_in_all",
    "replace_unknown",
    "score",
    "search_program",
    "target_ids",
    "translate",
]
