"""Attribution: how much each source word contributes to the log-probability of each target word.

A[i, j] belongs to target word i and source word j, from the gradient of log p(y_i) with respect to
the source's embedding x̄_j. B sentences, S source and T target positions, E embedding.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from bahdanau_jax.batch import UNK, Batch
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.encoder import encode_embedded
from bahdanau_jax.model.interventions import Intervention
from bahdanau_jax.model.memory import intervene
from bahdanau_jax.model.parameters import Params, embed
from bahdanau_jax.model.teacher_forcing import TeacherForced, predictions


def embedded(params: Params, batch: Batch) -> Float[Array, "S B E"]:
    """Return the embeddings x̄ of the source words."""
    return embed(params["source_embedding"], jnp.asarray(batch.source).T)


def predict(
    config: ModelConfig,
    params: Params,
    batch: Batch,
    x: Float[Array, "S B E"],
    intervention: Intervention | None = None,
) -> TeacherForced:
    """Return the predictions of the target under teacher forcing, from source embeddings x.

    >>> predict(config.model, params, batch, 0.5 * embedded(params, batch)).log_p
    """
    memory = encode_embedded(config, params, x, batch.source_mask)
    return predictions(config, params, intervene(memory, intervention), batch.target)


def gradients(
    config: ModelConfig,
    params: Params,
    batch: Batch,
    x: Float[Array, "S B E"],
    direction: Float[Array, "S B E"],
    intervention: Intervention | None = None,
) -> tuple[TeacherForced, Float[Array, "B T S"]]:
    """Return the predictions, and direction_j · ∂log p(y_i)/∂x̄_j for all i and j.

    It takes one backward pass for each target position, which all sentences share. Rows of target
    padding are arbitrary; columns of source padding are 0.

    >>> forced, A = gradients(config.model, params, batch, x, direction=x)
    """

    def log_p(x):
        forced = predict(config, params, batch, x, intervention)
        return forced.log_p.T, forced

    values, pullback, forced = jax.vjp(log_p, x, has_aux=True)

    def of_word(i):
        one = jnp.zeros_like(values).at[i].set(1)
        return jnp.sum(pullback(one)[0] * direction, axis=-1).T

    products = lax.map(of_word, jnp.arange(len(values)))
    return forced, jnp.swapaxes(products, 0, 1)


def gradient_times_input(
    config: ModelConfig, params: Params, batch: Batch, intervention: Intervention | None = None
) -> tuple[TeacherForced, Float[Array, "B T S"]]:
    """Return the predictions, and A[i, j] = x̄_j · ∂log p(y_i)/∂x̄_j. Source: arXiv 1605.01713.

    >>> forced, A = jax.jit(gradient_times_input, static_argnums=0)(config.model, params, batch)
    """
    x = embedded(params, batch)
    return gradients(config, params, batch, x, x, intervention)


def integrated_gradients(
    config: ModelConfig,
    params: Params,
    batch: Batch,
    points: int = 32,
    baseline: int = UNK,
    intervention: Intervention | None = None,
) -> tuple[TeacherForced, Float[Array, "B T S"]]:
    """Return the predictions, and A[i, j] = (x̄_j - x̄'_j) · ∫₀¹ ∂log p(y_i)/∂x̄_j dt on a line.

    The line x̄' + t (x̄ - x̄') begins at a source whose words, EOS too, are all the id `baseline`;
    START stands for the zero vector. Row i sums to log p(y_i) at x̄ less that at x̄', to the
    precision of `points` points of Gauss-Legendre quadrature. Source: arXiv 1703.01365.

    >>> A = integrated_gradients(config.model, params, batch, points=64)[1]
    """
    x = embedded(params, batch)
    origin = embed(params["source_embedding"], jnp.full(x.shape[:2], baseline))
    nodes, weights = np.polynomial.legendre.leggauss(points)

    def at(total, node):
        t, weight = node
        x_t = origin + t * (x - origin)
        part = gradients(config, params, batch, x_t, x - origin, intervention)[1]
        return total + weight * part, None

    zeros = jnp.zeros((*jnp.shape(batch.target), jnp.shape(batch.source)[1]), x.dtype)
    line = jnp.asarray((nodes + 1) / 2, x.dtype), jnp.asarray(weights / 2, x.dtype)
    total, _ = lax.scan(at, zeros, line)
    return predict(config, params, batch, x, intervention), total
