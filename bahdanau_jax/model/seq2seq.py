"""The one Flax module: it declares the parameters; its methods are the pure functions."""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType

import flax.linen as nn
import jax
from jaxtyping import Array, Float, Int

from bahdanau_jax.batch import Batch
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import decoder, encoder
from bahdanau_jax.model.attention import Memory, score_named
from bahdanau_jax.model.loss import Sums, sums
from bahdanau_jax.model.parameters import INITS, Params, embedding

VOCABULARIES = ("source_vocabulary", "target_vocabulary")

PARTS: Mapping[str, Callable[[Array, ModelConfig], Params]] = MappingProxyType(
    {
        "source_embedding": lambda key, c: embedding(
            key, INITS[c.init], c.source_vocabulary, c.embedding_size, c.embedding_bias
        ),
        "target_embedding": lambda key, c: embedding(
            key, INITS[c.init], c.target_vocabulary, c.embedding_size, c.embedding_bias
        ),
        "encoder": encoder.init_encoder,
        "initial_state": encoder.init_initial,
        "attention": lambda key, c: score_named(c.attention).init(key, c),
        "decoder": decoder.init_decoder,
        "readout": decoder.init_readout,
        "output": decoder.init_output,
    }
)


class Seq2Seq(nn.Module):
    """RNNsearch, or RNNencdec with attention `none`.

    >>> model = Seq2Seq(config.model)
    >>> params = model.init(jax.random.key(0), batch)["params"]
    >>> model.apply({"params": params}, batch) == sums(config.model, params, batch)
    """

    config: ModelConfig

    def setup(self) -> None:
        for side in VOCABULARIES:
            if not getattr(self.config, side):
                raise ValueError(f"model.{side} is 0: set it to the size of the vocabulary first")
        self.parts = {name: self.param(name, init, self.config) for name, init in PARTS.items()}

    def __call__(self, batch: Batch, key: Array | None = None, smoothing: float = 0.0) -> Sums:
        """`loss.sums`: the totals of a batch under teacher forcing."""
        return sums(self.config, self.parts, batch, key, smoothing)

    def encode(self, source: Int[Array, "B S"], mask: Array) -> Memory:
        """`encoder.encode`: what the decoder may look at."""
        return encoder.encode(self.config, self.parts, source, mask)

    def step(
        self, memory: Memory, tokens: Int[Array, " B"], state: decoder.State
    ) -> tuple[Float[Array, "B V"], decoder.State, Float[Array, "B S"]]:
        """One call of `decoder.stepper`: one word of a translation."""
        return decoder.stepper(self.config, self.parts, memory)(tokens, state)


def shapes(config: ModelConfig) -> Params:
    """Shapes and dtypes of all parameters; a vocabulary of unknown size, 0, counts as one word.

    >>> shapes(config.model)["output"]["b_w"].shape
    """
    sizes = {side: max(1, getattr(config, side)) for side in VOCABULARIES}
    known = dataclasses.replace(config, **sizes)
    key = jax.eval_shape(jax.random.key, 0)
    return {
        name: jax.eval_shape(lambda key, init=init: init(key, known), key)
        for name, init in PARTS.items()
    }


def count(params: Params) -> int:
    """Numbers in a tree of parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
