"""Cross-entropy over a large vocabulary, a few words at a time.

The logits [T, B, V] of a large batch are never whole in memory: they are made, reduced and
differentiated in chunks of words. Since the gradient of a sum of log-probabilities is known as soon
as they are, the forward pass of a differentiated loss leaves finished gradients, which the backward
one scales.

T target positions, B sentences, M readout size, V vocabulary; N chunks of R words.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from bahdanau_jax.batch import Batch
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.decoder import teacher_force
from bahdanau_jax.model.dropout import row_keys
from bahdanau_jax.model.encoder import encode
from bahdanau_jax.model.matrix_products import einsum, matmul, rounded
from bahdanau_jax.model.parameters import Params, add_bias

CHUNK_BYTES = 32 * 2**20  # of logits in memory at a time: what a cache may hold
CHUNK_WORDS = 512  # but so many at least, or W_o is read too often,
CHUNK_MOST = 4  # unless they take more than so many times these bytes.
ON_ACCELERATORS = 8  # times all that: there is no cache to fit, and W_o is read for each chunk


class Sums(NamedTuple):
    """What a batch adds to the totals; divided once, on the host."""

    loss: Float[Array, ""]  # −Σ log p, label smoothing included: what is minimised
    nll: Float[Array, ""]  # −Σ log p of the target words, in nats
    words: Float[Array, ""]  # target words counted, EOS among them
    correct: Float[Array, ""]  # target words that were the likeliest
    sentences: Float[Array, ""]  # rows of weight above 0


class _Words(NamedTuple):
    """Of each word by itself, or their weighted sums."""

    loss: Array
    nll: Array
    correct: Array

    def sums(self, weight: Array) -> "_Words":
        return _Words(*(jnp.sum(each * weight) for each in self))


def _words(smoothing, compute_dtype, t, W_o, b_w, target) -> tuple[_Words, Array]:
    """Those of one chunk, and the probabilities [R V]."""
    logits = add_bias(matmul(compute_dtype, t, W_o), b_w).astype(
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
    return _Words(loss, nll, correct), exp / total[..., None]


def _chunks(t: Array, target: Array, weight: Array, vocabulary: int):
    """Words of all steps and sentences in equal chunks [N R ...], filled up with weight 0."""
    words, times = target.size, 1 if jax.default_backend() == "cpu" else ON_ACCELERATORS
    wanted, needed = (
        -(-words * vocabulary * 4 // (times * most))
        for most in (CHUNK_BYTES, CHUNK_MOST * CHUNK_BYTES)
    )
    count = min(max(1, needed, min(wanted, words // (times * CHUNK_WORDS))), max(words, 1))
    height = -(-words // count)
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
) -> tuple[Array, Array, Array]:
    """(loss, nll, correct): sums over time and batch, weighted, in nats.

    loss = −Σ w [(1−ε) log p(y) + ε/V Σ_v log p(v)], p = softmax(W_o t + b_w). JAX differentiates
    it in both modes; reverse mode computes the logits of each chunk again.
    """

    @jax.checkpoint
    def body(sums, chunk):
        t, target, weight = chunk
        words, _ = _words(smoothing, compute_dtype, t, W_o, b_w, target)
        return jax.tree.map(jnp.add, sums, words.sums(weight)), None

    sums, _ = lax.scan(body, _nothing(weight), _chunks(t, target, weight, W_o.shape[-1]))
    return sums.loss, sums.nll, sums.correct


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def cross_entropy(
    smoothing: float,
    compute_dtype: str,
    t: Array,
    W_o: Array,
    b_w: Array,
    target: Array,
    weight: Array,
) -> tuple[Array, Array, Array]:
    """`plain_cross_entropy`, with gradients that its forward pass makes; reverse mode alone.

    Where ε > 0, nll has gradients of w, but none of t, W_o and b_w.
    """
    W_o = rounded(compute_dtype, {"W_o": W_o})["W_o"]  # once, not for each chunk
    return plain_cross_entropy(smoothing, compute_dtype, t, W_o, b_w, target, weight)


def _nothing(weight: Array) -> _Words:
    return _Words(*(jnp.zeros((), weight.dtype) for _ in _Words._fields))


def _forward(smoothing, compute_dtype, t, W_o, b_w, target, weight):
    """The form of each line is what XLA makes fast on a CPU: docs/decisions.md."""
    vocabulary = W_o.shape[-1]
    rows, *others = _chunks(t, target, weight, vocabulary)
    W_o = rounded(compute_dtype, {"W_o": W_o})["W_o"]

    def body(carry, chunk):
        sums, d_W, d_b = carry
        t, turned, target, weight = chunk
        words, p = _words(smoothing, compute_dtype, t, W_o, b_w, target)
        hit = lax.broadcasted_iota(target.dtype, p.shape, 1) == target[:, None]
        d = (p - jnp.where(hit, 1 - smoothing, 0.0) - smoothing / vocabulary) * weight[:, None]
        d = d.astype(t.dtype)
        d_W = d_W + matmul(compute_dtype, turned, d)
        d_b = d_b + jnp.matmul(jnp.ones_like(d[:, 0]), d, precision="highest")  # sum over rows
        sums = jax.tree.map(jnp.add, sums, words.sums(weight))
        return (sums, d_W, d_b), (einsum(compute_dtype, "rv,mv->rm", d, W_o), words)

    start = (_nothing(weight), jnp.zeros(W_o.shape, t.dtype), jnp.zeros_like(b_w))
    chunks = (rows, jnp.swapaxes(rows, 1, 2), *others)
    (sums, d_W, d_b), (d_t, words) = lax.scan(body, start, chunks)
    d_t = d_t.reshape(-1, t.shape[-1])[: target.size].reshape(t.shape)
    words = jax.tree.map(lambda each: each.reshape(-1)[: target.size].reshape(target.shape), words)
    return tuple(sums), ((d_t, d_W, d_b), words)


def _backward(smoothing, compute_dtype, residuals, cotangent):
    gradients, words = residuals
    scale = cotangent[0] if smoothing else cotangent[0] + cotangent[1]  # then the two are one
    d_weight = sum(c * each for c, each in zip(cotangent, words, strict=True))
    return (*(g * scale.astype(g.dtype) for g in gradients), None, d_weight)


cross_entropy.defvjp(_forward, _backward)

# Values of `model.gradients` -> how the loss is differentiated.
CROSS_ENTROPIES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"deferred": cross_entropy, "autodiff": plain_cross_entropy}
)


def sums(
    config: ModelConfig,
    params: Params,
    batch: Batch,
    key: Array | None = None,
    smoothing: float = 0.0,
) -> Sums:
    """The totals of a batch under teacher forcing.

    `key` switches dropout on: one for the batch, or an array of one for each of its rows.

    >>> sums(config.model, params, batch).nll / sums(config.model, params, batch).words
    """
    keys = row_keys(key, batch.source.shape[0])
    memory = encode(config, params, batch.source, batch.source_mask, keys)
    t, _ = teacher_force(config, params, memory, batch.target, keys)
    weight = (batch.target_mask * batch.weight[:, None]).T.astype(
        jnp.promote_types(t.dtype, jnp.float32)
    )
    output = params["output"]
    target = batch.target.T
    loss, nll, correct = CROSS_ENTROPIES[config.gradients](
        smoothing, config.compute_dtype, t, output["W_o"], output["b_w"], target, weight
    )
    return Sums(
        loss=loss,
        nll=nll,
        words=jnp.sum(weight),
        correct=correct,
        sentences=jnp.sum(batch.weight > 0).astype(weight.dtype),
    )


def loss(config: ModelConfig, params: Params, batch: Batch) -> Float[Array, ""]:
    """−Σ log p of the batch's target words, summed over time and batch, in nats.

    With `gradients` autodiff and float32 products, `jax.jvp` differentiates it, too.

    >>> value, grads = jax.value_and_grad(loss, argnums=1)(config.model, params, batch)
    """
    return sums(config, params, batch).loss
