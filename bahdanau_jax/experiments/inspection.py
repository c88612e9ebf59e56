"""The parts of a computation: states, losses and gradients of each example, changed sources.

B sentences, S source and T target positions, C annotation size, H decoder units.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bahdanau_jax.batch import UNK, Batch, pad
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.decoding import target_ids
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.model import Params, encode, intervene, interventions, loss, teacher_forced_states
from bahdanau_jax.pairing import check_equal_counts
from bahdanau_jax.trained import Run


def as_batch(run: Run, sources: Sequence[str], targets: Sequence[str | Hypothesis]) -> Batch:
    """Return the pairs as one padded batch of JAX arrays, for functions of (config, params, batch).

    A hypothesis keeps its own tokens. Raises ValueError for unequal numbers of both.

    >>> batch = as_batch(run, lines, run.translate(lines))
    """
    check_equal_counts("sources", sources, "targets", targets)
    x = [run.codecs[0].encode(line) for line in sources]
    y = [target_ids(run.codecs[1], target) for target in targets]
    sides = [pad(side, max(map(len, side), default=0)) for side in (x, y)]
    return jax.tree.map(jnp.asarray, Batch(*sides[0], *sides[1], np.ones(len(x), np.float32)))


def without(batch: Batch, words: Bool[Array | np.ndarray, "B S"]) -> Batch:
    """Replace these source words by UNK.

    >>> without(batch, np.arange(batch.source.shape[1])[None] == 2)
    """
    return batch._replace(source=jnp.where(words & batch.source_mask, UNK, batch.source))


class HiddenStates(NamedTuple):
    """The states of encoder and decoder for given pairs; arbitrary at padding."""

    annotations: Float[Array, "B S C"]  # h_j
    initial: Float[Array, "B H"]  # s_0
    states: Float[Array, "B T H"]  # the state that step i reads out: s_i, or s_{i-1} in groundhog
    contexts: Float[Array, "B T C"]  # c_i
    alpha: Float[Array, "B T S"]  # the weights of c_i


def hidden_states(
    config: ModelConfig,
    params: Params,
    batch: Batch,
    intervention: interventions.Intervention | None = None,
) -> HiddenStates:
    """Return the states under teacher forcing.

    >>> best = run.translate(lines)
    >>> hidden_states(run.config.model, run.params, as_batch(run, lines, best)).contexts.shape
    """
    memory = intervene(encode(config, params, batch.source, batch.source_mask), intervention)
    forced = teacher_forced_states(config, params, memory, batch.target)
    s, c, alpha = (jnp.swapaxes(x, 0, 1) for x in (forced.state.s, forced.state.c, forced.alpha))
    return HiddenStates(memory.annotations, memory.initial, s, c, alpha)


def example_losses(config: ModelConfig, params: Params, batch: Batch) -> Float[Array, " B"]:
    """Return −Σ log p of each example; their sum is the loss of the batch.

    >>> jax.jit(example_losses, static_argnums=0)(config.model, params, batch).argmax()
    """
    return jax.vmap(lambda row: _loss(config, params, row))(batch)


def example_gradients(config: ModelConfig, params: Params, batch: Batch) -> Params:
    """Return the gradient of each example: every leaf has a leading axis B.

    Their sum over B is the gradient of the batch. They take B times the memory of the parameters.

    >>> jax.jit(example_gradients, static_argnums=0)(config.model, params, batch)["output"]["b_w"]
    """
    gradient = jax.grad(lambda params, row: _loss(config, params, row))
    return jax.vmap(gradient, in_axes=(None, 0))(params, batch)


def _loss(config: ModelConfig, params: Params, row: Batch) -> Float[Array, ""]:
    return loss.loss(config, params, jax.tree.map(lambda leaf: leaf[None], row))
