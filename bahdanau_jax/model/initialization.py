"""The parameters of a whole model: its parts and their initialisation."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
from jaxtyping import Array, Key

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import decoder, encoder, readout
from bahdanau_jax.model.attention import score_named
from bahdanau_jax.model.cells import CELLS
from bahdanau_jax.model.compute_dtype import AUTO, COMPUTE_DTYPES
from bahdanau_jax.model.orders import ORDERS
from bahdanau_jax.model.parameters import INITS, Params, embedding
from bahdanau_jax.model.recurrence import GRADIENTS
from bahdanau_jax.names import choose

# Field of ModelConfig -> the table of its variants. `score_named` finds those of `attention`.
VARIANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "order": ORDERS,
        "cell": CELLS,
        "encoder_directions": encoder.DIRECTIONS,
        "initial_state": encoder.INITIAL_STATES,
        "readout": readout.READOUTS,
        "readout_inputs": readout.READOUT_INPUTS,
        "init": INITS,
        "gradients": GRADIENTS,
        "compute_dtype": {**COMPUTE_DTYPES, AUTO: None},
    }
)

VOCABULARIES = ("source_vocabulary", "target_vocabulary")

PARTS: Mapping[str, Callable[[Array, ModelConfig], Params]] = MappingProxyType(
    {
        "source_embedding": lambda key, c: embedding(
            key, INITS[c.init], c.source_vocabulary, c.embedding_size, c.embedding_bias
        ),
        "target_embedding": decoder.init_embedding,
        "encoder": encoder.init_encoder,
        "initial_state": encoder.init_initial,
        "attention": lambda key, c: score_named(c.attention).init(key, c),
        "decoder": decoder.init_decoder,
        "readout": readout.init_readout,
        "output": readout.init_output,
    }
)


def init(config: ModelConfig, key: Key[Array, ""]) -> Params:
    """Draw the parameters of a new model: a tree of float32 arrays.

    `Seq2Seq(config).init` draws the same numbers from the same key.

    >>> params = init(config.model, jax.random.key(0))
    >>> ten = jax.vmap(lambda key: init(config.model, key))(jax.random.split(key, 10))

    Raises ValueError for an unknown variant, where a vocabulary has no size yet, and where other
    settings forbid `initial_state` or `tied_embeddings`.
    """
    check(config)
    return {
        name: draw(_key(key, number), config)
        for number, (name, draw) in enumerate(PARTS.items(), 1)
    }


def check(config: ModelConfig) -> None:
    """Raise ValueError where the parameters of this model cannot be drawn.

    A variant may be unknown, a vocabulary may have the size 0, which leaves it to the data, or
    `initial_state` or `tied_embeddings` may not fit the other settings.
    """
    for field, table in VARIANTS.items():
        choose(table, getattr(config, field), f"model.{field}")
    for side in VOCABULARIES:
        if not getattr(config, side):
            raise ValueError(f"model.{side} is 0: set it to the size of the vocabulary first")
    for fault in (*encoder.direction_faults(config), *readout.tie_faults(config)):
        raise ValueError(fault)


def _key(key: Key[Array, ""], number: int) -> Array:
    """Derive the key of a parameter from its number, as Flax derives it in a module."""
    number_bytes = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return jax.random.fold_in(key, int.from_bytes(hashlib.sha1(number_bytes).digest()[:4], "big"))


def shapes(config: ModelConfig) -> Params:
    """Return shapes and dtypes of all parameters; a vocabulary of size 0 counts as one word.

    >>> shapes(config.model)["output"]["b_w"].shape
    """
    sizes = {side: max(1, getattr(config, side)) for side in VOCABULARIES}
    sized = dataclasses.replace(config, **sizes)
    return jax.eval_shape(lambda: init(sized, jax.random.key(0)))


def count(params: Params) -> int:
    """Count the numbers in a tree of parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
