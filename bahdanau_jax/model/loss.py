"""Cross-entropy over a large vocabulary, computed in chunks of words.

The logits [T, B, V] of a large batch are never in memory at once: each chunk of words is computed,
reduced and differentiated by itself. The gradient of the loss needs the probabilities alone, so the
forward pass of a differentiated loss computes it, and the backward pass only scales it.

T target positions, B sentences, M inputs of the softmax, V vocabulary; N chunks of R words.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from bahdanau_jax.batch import Batch
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.decoder import teacher_force
from bahdanau_jax.model.dropout import row_keys
from bahdanau_jax.model.encoder import encode
from bahdanau_jax.model.matrix_products import (
    ALIGNED,
    aligned,
    einsum,
    matmul,
    on_accelerator,
    rounded,
    sum_of_rows,
)
from bahdanau_jax.model.memory import before_eos
from bahdanau_jax.model.parameters import Params, add_bias
from bahdanau_jax.model.readout import output_weights

CHUNK_BYTES = 32 * 2**20  # the preferred size of a chunk's logits, which then fit a cache
CHUNK_WORDS = 512  # the least words of a chunk, because every chunk reads all of W_o
CHUNK_MOST = 4  # a chunk's logits never take more than this many times CHUNK_BYTES
ON_ACCELERATORS = 8  # the factor of these sizes on an accelerator, which has no such cache


class Sums(NamedTuple):
    """The totals of a batch. The host divides them, once."""

    loss: Float[Array, ""]  # the objective: −Σ log p with label smoothing, and coverage
    nll: Float[Array, ""]  # −Σ log p of the target words, in nats
    words: Float[Array, ""]  # target words, EOS included
    correct: Float[Array, ""]  # target words that have the highest probability
    sentences: Float[Array, ""]  # rows of weight above 0


class CrossEntropy(NamedTuple):
    """Fields of `Sums` for each word of a chunk, [R] each, or their weighted sums, scalars."""

    loss: Float[Array, "*R"]  # with label smoothing
    nll: Float[Array, "*R"]  # −log p of the target word
    correct: Float[Array, "*R"]  # whether the target word is the likeliest: 1 or 0

    def summed(self, weight: Float[Array, " R"]) -> "CrossEntropy":
        """Return scalars: the sums over words [R], each times its weight [R]."""
        return CrossEntropy(*(jnp.sum(values * weight) for values in self))


def _of_words(smoothing, compute_dtype, t, W_o, b_w, target) -> tuple[CrossEntropy, Array]:
    """Return the cross-entropy of each word of a chunk, and the probabilities [R V]."""
    logits = add_bias(matmul(compute_dtype, t, W_o)[..., : len(b_w)], b_w).astype(
        jnp.promote_types(t.dtype, jnp.float32)
    )
    top = jnp.max(logits, axis=-1)
    exp = jnp.exp(logits - top[..., None])
    total = jnp.sum(exp, axis=-1)
    log_z = jnp.log(total) + top
    at_target = jnp.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    nll = log_z - at_target
    loss = nll
    if smoothing:
        loss = (1 - smoothing) * nll + smoothing * (log_z - jnp.mean(logits, axis=-1))
    correct = (at_target >= top).astype(nll.dtype)
    # An accelerator computes another exp sooner than it writes and reads the first.
    p = jnp.exp(logits - log_z[..., None]) if on_accelerator() else exp / total[..., None]
    return CrossEntropy(loss, nll, correct), p


def _chunks(t: Array, target: Array, weight: Array, vocabulary: int):
    """Cut the words of all sentences into equal chunks [N R ...], padded with weight 0."""
    words, scale = target.size, ON_ACCELERATORS if on_accelerator() else 1
    preferred, least = (
        -(-words * vocabulary * 4 // (scale * size))
        for size in (CHUNK_BYTES, CHUNK_MOST * CHUNK_BYTES)
    )
    count = min(max(1, least, min(preferred, words // (scale * CHUNK_WORDS))), max(words, 1))
    height = -(-words // count)
    if on_accelerator():
        height += -height % ALIGNED  # the number of terms of the product for the gradient of W_o
    fill = count * height - words

    def cut(leaf: Array) -> Array:
        rows = leaf.reshape(words, *leaf.shape[2:])
        return jnp.pad(rows, [(0, fill), *[(0, 0)] * (rows.ndim - 1)]).reshape(
            count, height, *rows.shape[1:]
        )

    return cut(t), cut(target), cut(weight)


def plain_cross_entropy(
    smoothing: float,
    compute_dtype: str,
    t: Float[Array, "T B M"],
    W_o: Float[Array, "M V"],
    b_w: Float[Array, " V"],
    target: Int[Array, "T B"],
    weight: Float[Array, "T B"],
) -> CrossEntropy:
    """Return the weighted sums over time and batch, in nats.

    loss = −Σ w [(1−ε) log p(y) + ε/V Σ_v log p(v)], p = softmax(W_o t + b_w). JAX differentiates
    it in both modes; reverse mode computes the logits of each chunk twice.
    """

    @jax.checkpoint
    def body(sums, chunk):
        t, target, weight = chunk
        words, _ = _of_words(smoothing, compute_dtype, t, W_o, b_w, target)
        return jax.tree.map(jnp.add, sums, words.summed(weight)), None

    return lax.scan(body, _zeros(weight), _chunks(t, target, weight, W_o.shape[-1]))[0]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def cross_entropy(
    smoothing: float,
    compute_dtype: str,
    t: Float[Array, "T B M"],
    W_o: Float[Array, "M V"],
    b_w: Float[Array, " V"],
    target: Int[Array, "T B"],
    weight: Float[Array, "T B"],
) -> CrossEntropy:
    """`plain_cross_entropy` with gradients from its forward pass; reverse mode only.

    Where ε > 0, nll has a gradient with respect to w, but none with respect to t, W_o and b_w.
    """
    W_o = rounded(compute_dtype, {"W_o": W_o})["W_o"]  # once for all chunks
    return plain_cross_entropy(smoothing, compute_dtype, t, W_o, b_w, target, weight)


def _zeros(weight: Array) -> CrossEntropy:
    return CrossEntropy(*(jnp.zeros((), weight.dtype) for _ in CrossEntropy._fields))


def _forward(smoothing, compute_dtype, t, W_o, b_w, target, weight):
    """Each line has the form that XLA compiles to fast code on a CPU (docs/decisions/0023)."""
    vocabulary = W_o.shape[-1]
    rows, *others = _chunks(t, target, weight, vocabulary)
    W_o = aligned(rounded(compute_dtype, {"W_o": W_o})["W_o"], axis=1)

    def body(carry, chunk):
        sums, d_W, d_b = carry
        t, transposed, target, weight = chunk
        words, p = _of_words(smoothing, compute_dtype, t, W_o, b_w, target)
        hit = lax.broadcasted_iota(target.dtype, p.shape, 1) == target[:, None]
        d = (p - jnp.where(hit, 1 - smoothing, 0.0) - smoothing / vocabulary) * weight[:, None]
        d = aligned(d.astype(t.dtype), axis=1)
        d_W = d_W + matmul(compute_dtype, transposed, d)
        d_b = d_b + sum_of_rows(compute_dtype, d)
        sums = jax.tree.map(jnp.add, sums, words.summed(weight))
        return (sums, d_W, d_b), (einsum(compute_dtype, "rv,mv->rm", d, W_o), words)

    width = W_o.shape[-1]
    start = _zeros(weight), jnp.zeros((t.shape[-1], width), t.dtype), jnp.zeros(width, b_w.dtype)
    chunks = (rows, jnp.swapaxes(rows, 1, 2), *others)
    (sums, d_W, d_b), (d_t, words) = lax.scan(body, start, chunks)
    d_t = d_t.reshape(-1, len(W_o))[: target.size, : t.shape[-1]].reshape(t.shape)
    words = jax.tree.map(lambda leaf: leaf.reshape(-1)[: target.size].reshape(target.shape), words)
    return sums, ((d_t, d_W[:, :vocabulary], d_b[:vocabulary]), words)


def _backward(smoothing, compute_dtype, residuals, cotangent):
    gradients, words = residuals
    # Without smoothing, loss and nll are the same function.
    scale = cotangent.loss if smoothing else cotangent.loss + cotangent.nll
    d_weight = sum(c * values for c, values in zip(cotangent, words, strict=True))
    return (*(g * scale.astype(g.dtype) for g in gradients), None, d_weight)


cross_entropy.defvjp(_forward, _backward)

# Values of `model.gradients` -> the cross-entropy that is differentiated in this way.
CROSS_ENTROPIES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"deferred": cross_entropy, "autodiff": plain_cross_entropy}
)


def sums(
    config: ModelConfig,
    params: Params,
    batch: Batch,
    key: Key[Array, ""] | Key[Array, " B"] | None = None,
    smoothing: float = 0.0,
    coverage: float = 0.0,
) -> Sums:
    """Return the totals of a batch under teacher forcing.

    `key` switches dropout on: one key for the batch, or an array with a key for each of its rows.
    `coverage` is the weight of `uncovered` in the loss.

    >>> sums(config.model, params, batch).nll / sums(config.model, params, batch).words
    """
    keys = row_keys(key, batch.source.shape[0])
    memory = encode(config, params, batch.source, batch.source_mask, keys)
    t, alpha = teacher_force(config, params, memory, batch.target, keys)
    weight = (batch.target_mask * batch.weight[:, None]).T.astype(
        jnp.promote_types(t.dtype, jnp.float32)
    )
    W_o, b_w = output_weights(config, params), params["output"]["b_w"]
    totals = CROSS_ENTROPIES[config.gradients](
        smoothing, config.compute_dtype, t, W_o, b_w, batch.target.T, weight
    )
    if coverage:
        gaps = uncovered(alpha.astype(weight.dtype), batch.target_mask, batch.source_mask)
        totals = totals._replace(loss=totals.loss + coverage * jnp.sum(gaps * batch.weight))
    return Sums(
        **totals._asdict(),
        words=jnp.sum(weight),
        sentences=jnp.sum(batch.weight > 0).astype(weight.dtype),
    )


def uncovered(
    alpha: Float[Array, "T B S"], target_mask: Bool[Array, "B T"], source_mask: Bool[Array, "B S"]
) -> Float[Array, " B"]:
    """Return Σ_j (1 − Σ_i α_ij)² over the source words j before EOS, for each sentence.

    It is 0 where each source word receives the attention of one target word in all. Source: the
    doubly stochastic attention of Xu et al. 2015, arXiv 1502.03044, equation 14.

    >>> uncovered(alpha, batch.target_mask, batch.source_mask)
    """
    received = jnp.sum(jnp.where(target_mask.T[..., None], alpha, 0), axis=0)
    return jnp.sum(jnp.where(before_eos(source_mask), (1 - received) ** 2, 0), axis=1)


def loss(config: ModelConfig, params: Params, batch: Batch) -> Float[Array, ""]:
    """Return −Σ log p of the batch's target words, summed over time and batch, in nats.

    `jax.jvp` also works where `gradients` is "autodiff" and `compute_dtype` is "float32".

    >>> value, grads = jax.value_and_grad(loss, argnums=1)(config.model, params, batch)
    """
    return sums(config, params, batch).loss
