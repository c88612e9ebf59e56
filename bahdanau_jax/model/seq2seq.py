"""The Flax module: it declares the parameters, and its methods call the pure functions."""

import flax.linen as nn
from jaxtyping import Array, Bool, Float, Int, Key

from bahdanau_jax.batch import Batch
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import decoder, encoder
from bahdanau_jax.model.initialization import PARTS, check
from bahdanau_jax.model.loss import Sums, sums
from bahdanau_jax.model.memory import Memory
from bahdanau_jax.model.orders import State


class Seq2Seq(nn.Module):
    """RNNsearch, or RNNencdec with attention `none`.

    >>> model = Seq2Seq(config.model)
    >>> params = model.init(jax.random.key(0), batch)["params"]
    >>> model.apply({"params": params}, batch) == sums(config.model, params, batch)
    """

    config: ModelConfig  # with the sizes of both vocabularies

    def setup(self) -> None:
        """Declare the parameters. Flax calls it."""
        check(self.config)
        self.parts = {name: self.param(name, init, self.config) for name, init in PARTS.items()}

    def __call__(
        self,
        batch: Batch,
        key: Key[Array, ""] | Key[Array, " B"] | None = None,
        smoothing: float = 0.0,
        coverage: float = 0.0,
    ) -> Sums:
        """Return the totals of a batch under teacher forcing (`loss.sums`)."""
        return sums(self.config, self.parts, batch, key, smoothing, coverage)

    def encode(self, source: Int[Array, "B S"], mask: Bool[Array, "B S"]) -> Memory:
        """Return the memory that the decoder attends to (`encoder.encode`)."""
        return encoder.encode(self.config, self.parts, source, mask)

    def step(
        self, memory: Memory, tokens: Int[Array, " B"], state: State
    ) -> tuple[Float[Array, "B V"], State, Float[Array, "B S"]]:
        """Predict one word of a translation (`decoder.stepper`)."""
        return decoder.stepper(self.config, self.parts, memory)(tokens, state)
