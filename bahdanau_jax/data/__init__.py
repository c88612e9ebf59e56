"""From text to padded batches: sources, tokens, vocabularies, the store, the plan of batches."""

from bahdanau_jax.data import grammar, remarks
from bahdanau_jax.data.cleaning import UNICODE
from bahdanau_jax.data.codec import Codec, learn, load, save, save_words
from bahdanau_jax.data.export import write_tfds
from bahdanau_jax.data.files import DAMAGE, OPENERS
from bahdanau_jax.data.folders import replacing
from bahdanau_jax.data.grammar import AlignedPair
from bahdanau_jax.data.grouping import LEVELS, Segmented, overlaps, token_spans, unit_spans
from bahdanau_jax.data.pipeline import dev_batches, dev_plan, each_shape, lay_out, train_batches
from bahdanau_jax.data.plan import PLANS, Plan
from bahdanau_jax.data.prepare import Prepared, prepare
from bahdanau_jax.data.sampling import SAMPLERS
from bahdanau_jax.data.sources import (
    SOURCES,
    Pair,
    aligned_pairs,
    are_apart,
    corpora,
    is_aligned,
    pairs,
)
from bahdanau_jax.data.store import Pairs, Store, key, write
from bahdanau_jax.data.subwords import TooManyPieces
from bahdanau_jax.data.tasks import TASKS
from bahdanau_jax.data.tokenizer import TOKENIZERS
from bahdanau_jax.data.vocabulary import EOS_SYMBOL, VOCABULARIES, Vocabulary
from bahdanau_jax.data.workers import cores

__all__ = [
    "DAMAGE",
    "EOS_SYMBOL",
    "LEVELS",
    "OPENERS",
    "PLANS",
    "SAMPLERS",
    "SOURCES",
    "TASKS",
    "TOKENIZERS",
    "UNICODE",
    "VOCABULARIES",
    "AlignedPair",
    "Codec",
    "Pair",
    "Pairs",
    "Plan",
    "Prepared",
    "Segmented",
    "Store",
    "TooManyPieces",
    "Vocabulary",
    "aligned_pairs",
    "are_apart",
    "cores",
    "corpora",
    "dev_batches",
    "dev_plan",
    "each_shape",
    "grammar",
    "is_aligned",
    "key",
    "lay_out",
    "learn",
    "load",
    "overlaps",
    "pairs",
    "prepare",
    "remarks",
    "replacing",
    "save",
    "save_words",
    "token_spans",
    "train_batches",
    "unit_spans",
    "write",
    "write_tfds",
]
