"""Teacher forcing: a model's probabilities and attention at each word of a given translation.

B sentences, S source and T target positions, M inputs of the softmax, V vocabulary.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from bahdanau_jax.batch import Batch
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.decoder import teacher_force
from bahdanau_jax.model.encoder import encode
from bahdanau_jax.model.interventions import Intervention
from bahdanau_jax.model.matrix_products import matmul
from bahdanau_jax.model.memory import Memory, intervene
from bahdanau_jax.model.parameters import Params, add_bias
from bahdanau_jax.model.readout import output_weights


class TeacherForced(NamedTuple):
    """The prediction of each target word from the words before it; arbitrary at padding."""

    log_p: Float[Array, "B T"]  # log-probability of the word, in nats
    confidence: Float[Array, "B T"]  # probability of the likeliest word
    correct: Bool[Array, "B T"]  # True where the likeliest word, of ties the lowest id, is the word
    alpha: Float[Array, "B T S"]  # attention weights of the step that predicts the word


def teacher_forced(
    config: ModelConfig, params: Params, batch: Batch, intervention: Intervention | None = None
) -> TeacherForced:
    """Return the predictions under teacher forcing; [B, V] is in memory for one step at a time.

    alpha is that after the intervention.

    >>> jax.jit(teacher_forced, static_argnums=0)(config.model, params, batch).alpha
    """
    memory = encode(config, params, batch.source, batch.source_mask)
    return predictions(config, params, intervene(memory, intervention), batch.target)


def teacher_forced_ensemble(
    configs: Sequence[ModelConfig], params: Sequence[Params], batch: Batch
) -> TeacherForced:
    """Return the predictions of an ensemble, as `teacher_forced` returns those of one model.

    The probabilities are the normalised geometric mean of the members', and alpha is the mean.

    >>> jax.jit(teacher_forced_ensemble, static_argnums=0)((a.model, b.model), params, batch).log_p
    """
    memories = [encode(*member, *batch[:2]) for member in zip(configs, params, strict=True)]
    return _predictions(configs, params, memories, batch.target)


def predictions(
    config: ModelConfig, params: Params, memory: Memory, target: Int[Array, "B T"]
) -> TeacherForced:
    """Return the predictions of the target's words from a memory, as `teacher_forced` does."""
    return _predictions([config], [params], [memory], target)


def _predictions(
    configs: Sequence[ModelConfig],
    params: Sequence[Params],
    memories: Sequence[Memory],
    target: Int[Array, "B T"],
) -> TeacherForced:
    """The predictions of one model or of an ensemble."""
    members = list(zip(configs, params, strict=True))
    forced = [
        teacher_force(*member, memory, target)
        for member, memory in zip(members, memories, strict=True)
    ]
    readouts, alphas = zip(*forced, strict=True)
    weights = [(output_weights(*member), member[1]["output"]["b_w"]) for member in members]

    def log_probabilities(config, t, W_o, b_w):
        logits = add_bias(matmul(config.compute_dtype, t, W_o), b_w)
        return jax.nn.log_softmax(logits.astype(jnp.promote_types(logits.dtype, jnp.float32)))

    def reduce(step):
        readouts, target = step
        each = [
            log_probabilities(config, t, *own)
            for config, t, own in zip(configs, readouts, weights, strict=True)
        ]
        log_p = each[0] if len(each) == 1 else jax.nn.log_softmax(sum(each) / len(each))
        own = jnp.take_along_axis(log_p, target[:, None], axis=-1)[:, 0]
        return own, jnp.exp(log_p.max(axis=-1)), log_p.argmax(axis=-1) == target

    words = lax.map(reduce, (readouts, jnp.asarray(target).T))
    log_p, confidence, correct = (value.T for value in words)
    return TeacherForced(log_p, confidence, correct, jnp.swapaxes(sum(alphas) / len(alphas), 0, 1))
