"""From text to padded batches: sources, tokens, vocabularies, the store, the plan of batches."""

from bahdanau_jax.data import remarks
from bahdanau_jax.data.batches.pipeline import (
    dev_batches,
    dev_plan,
    each_shape,
    lay_out,
    train_batches,
)
from bahdanau_jax.data.batches.plan import PLANS, Plan
from bahdanau_jax.data.preparation import Prepared, has_vocabulary, prepare
from bahdanau_jax.data.sources import grammar
from bahdanau_jax.data.sources.addresses import (
    Pair,
    aligned_pairs,
    are_apart,
    corpora,
    file_digests,
    is_aligned,
    is_here,
    open_corpora,
    pairs,
)
from bahdanau_jax.data.sources.grammar import AlignedPair
from bahdanau_jax.data.sources.integer_tasks import TASKS as INTEGER_TASKS
from bahdanau_jax.data.sources.tfds_export import write_tfds
from bahdanau_jax.data.store.store import Pairs, Store
from bahdanau_jax.data.store.workers import cores, ends_with_parent
from bahdanau_jax.data.text_spans import (
    LEVELS,
    Segmented,
    check_level,
    overlaps,
    token_spans,
    unit_spans,
)
from bahdanau_jax.data.tokens.cleaning import DROP_REASONS, UNICODE
from bahdanau_jax.data.tokens.codec import Codec, check_sizes, load, save_words
from bahdanau_jax.data.tokens.moses_tables import moses_tables
from bahdanau_jax.data.tokens.subword_sampling import SAMPLERS
from bahdanau_jax.data.tokens.subwords import TooManyPieces
from bahdanau_jax.data.tokens.tokenizer import TOKENIZERS
from bahdanau_jax.data.tokens.vocabulary import VOCABULARIES

__all__ = [
    "DROP_REASONS",
    "INTEGER_TASKS",
    "LEVELS",
    "PLANS",
    "SAMPLERS",
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
    "aligned_pairs",
    "are_apart",
    "check_level",
    "check_sizes",
    "cores",
    "corpora",
    "dev_batches",
    "dev_plan",
    "each_shape",
    "ends_with_parent",
    "file_digests",
    "grammar",
    "has_vocabulary",
    "is_aligned",
    "is_here",
    "lay_out",
    "load",
    "moses_tables",
    "open_corpora",
    "overlaps",
    "pairs",
    "prepare",
    "remarks",
    "save_words",
    "token_spans",
    "train_batches",
    "unit_spans",
    "write_tfds",
]
