"""Weights of source positions from their energies: softmax, and Luong et al.'s local attention.

B sentences, S source positions, Q numbers of a query.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Num

from bahdanau_jax.model.parameters import Params


def masked_softmax(e: Float[Array, "B S"], mask: Bool[Array, "B S"]) -> Float[Array, "B S"]:
    """Softmax over real positions, α_j = exp e_j / Σ_k exp e_k; zeros where a row has none.

    The softmax is computed in float32 or wider. Finite scores give finite weights and gradients.
    """
    e = e.astype(jnp.promote_types(e.dtype, jnp.float32))
    e = jnp.where(mask, e, -jnp.inf)
    top = jax.lax.stop_gradient(jnp.max(e, axis=-1, keepdims=True))
    weights = jnp.exp(e - jnp.where(jnp.isfinite(top), top, 0.0))
    total = jnp.sum(weights, axis=-1, keepdims=True)
    return weights / jnp.where(total > 0, total, 1.0)


WINDOW = 10  # D of local attention, the largest distance of a position from its centre p_i


def _around(mask: Bool[Array, "B S"], p: Float[Array, " B"]) -> tuple[Array, Array]:
    """Return j − p_i, and whether j is a real position with |j − p_i| ≤ D."""
    offset = jnp.arange(mask.shape[1])[None] - p[:, None]
    return offset, mask & (jnp.abs(offset) <= WINDOW)


def monotonic_weights(
    params: Params,
    e: Float[Array, "B S"],
    mask: Bool[Array, "B S"],
    query: Float[Array, "B Q"],
    i: Num[Array, " B"],
) -> Float[Array, "B S"]:
    """Softmax over |j − p_i| ≤ D, where p_i is i, at most the last real j (Luong, local-m)."""
    return masked_softmax(e, _around(mask, jnp.minimum(i, mask.sum(-1) - 1))[1])


def predictive_weights(
    params: Params,
    e: Float[Array, "B S"],
    mask: Bool[Array, "B S"],
    query: Float[Array, "B Q"],
    i: Num[Array, " B"],
) -> Float[Array, "B S"]:
    """Softmax over |j − p_i| ≤ D, times exp(−(j − p_i)² / (2 (D/2)²)) (Luong, local-p).

    p_i = S σ(v_pᵀ tanh(W_p s)) for S real positions, and a query is [s W, s W_p]. The weights are
    not normalised again, so they sum to less than 1.
    """
    hidden = jnp.tanh(query[:, -len(params["v_p"]) :])
    hidden = hidden.astype(jnp.promote_types(hidden.dtype, jnp.float32))
    logit = jnp.matmul(hidden, params["v_p"], precision="highest")[:, 0]
    offset, inside = _around(mask, mask.sum(-1) * jax.nn.sigmoid(logit))
    return masked_softmax(e, inside) * jnp.exp(-(offset**2) / (2 * (WINDOW / 2) ** 2))
