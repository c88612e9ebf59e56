"""From text to padded batches: sources, tokens, vocabularies, the store, the plan of batches."""

from bahdanau_jax.data import grammar
from bahdanau_jax.data.codec import Codec, learn, load, save
from bahdanau_jax.data.export import write_tfds
from bahdanau_jax.data.grammar import AlignedPair
from bahdanau_jax.data.names import choose
from bahdanau_jax.data.pipeline import (
    dev_batches,
    plan,
    shapes,
    steps_per_epoch,
    train_batches,
)
from bahdanau_jax.data.prepare import Prepared, prepare
from bahdanau_jax.data.sources import SOURCES, Pair, aligned_pairs, pairs
from bahdanau_jax.data.store import Pairs, Store, key, write
from bahdanau_jax.data.tasks import TASKS
from bahdanau_jax.data.tokenizer import TOKENIZERS
from bahdanau_jax.data.vocabulary import VOCABULARIES, Vocabulary

__all__ = [
    "SOURCES",
    "TASKS",
    "TOKENIZERS",
    "VOCABULARIES",
    "AlignedPair",
    "Codec",
    "Pair",
    "Pairs",
    "Prepared",
    "Store",
    "Vocabulary",
    "aligned_pairs",
    "choose",
    "dev_batches",
    "grammar",
    "key",
    "learn",
    "load",
    "pairs",
    "plan",
    "prepare",
    "save",
    "shapes",
    "steps_per_epoch",
    "train_batches",
    "write",
    "write_tfds",
]
