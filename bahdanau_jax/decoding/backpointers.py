"""The record of a search: words and back-pointers of each step, and the histories read from them.

B sentences, K hypotheses of the beam, N hypotheses of the result, T steps.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from bahdanau_jax.batch import PAD


class NBest(NamedTuple):
    """The n-best list of each sentence. A filler has score -inf and length 0.

    Those of a beam have the best first, and either all are finished or, where none finished within
    the limit, none is. Samples are in the order of drawing.
    """

    tokens: Int[Array, "B N T"]  # int32 word ids, EOS included, then PAD
    length: Int[Array, "B N"]  # int32 tokens, EOS counted
    log_probabilities: Float[Array, "B N T"]  # float32, of each token; 0 on padding
    score: Float[Array, "B N"]  # float32, by `ranking.Ranking`
    finished: Bool[Array, "B N"]  # False for fillers, and where the limit comes before EOS
    aux: Any  # the step's third result for each token: arrays [B, N, T, ...]; zeros on padding


class Tips(NamedTuple):
    """The last token of each hypothesis, and the live hypothesis that it continues."""

    total: Float[Array, "B K"]  # float32 Σ log p; -inf where there is no hypothesis
    length: Int[Array, "B K"]  # int32 tokens so far
    token: Int[Array, "B K"]  # int32 the last one
    log_probability: Float[Array, "B K"]  # float32, of the last one
    parent: Int[Array, "B K"]  # int32 index among the live hypotheses of the previous step
    covered: Float[Array, "B K"]  # float32 the coverage term of the score; 0 without a penalty


class Record(NamedTuple):
    """The tokens and back-pointers of every step, in the order of its beam."""

    token: Int[Array, "T B K"]  # of the live hypotheses after the step
    log_probability: Float[Array, "T B K"]
    parent: Int[Array, "T B K"]
    aux: Any  # [T, B, K, ...] of the live hypotheses BEFORE the step: index it by parent


def empty(entry: Any, steps: int) -> Any:
    """Allocate buffers of zeros for `steps` entries like `entry` (arrays, or their shapes)."""
    return jax.tree.map(lambda leaf: jnp.zeros((steps, *leaf.shape), leaf.dtype), entry)


def write(record: Any, time: Int[Array, ""], entry: Any) -> Any:
    """Write an entry into the record at a step; an entry [B, 1, ...] is broadcast over the beam."""
    return jax.tree.map(lambda old, now: old.at[time].set(now), record, entry)


def pick(tree: Any, index: Int[Array, "B J"]) -> Any:
    """Select from every leaf [B, K, ...] by an index into K; leaves become [B, J, ...]."""
    return jax.tree.map(lambda leaf: jax.vmap(lambda row, i: row[i])(leaf, index), tree)


def read_back(
    tips: Tips, score: Float[Array, "B N"], finished: Bool[Array, "B 1"], record: Record
) -> NBest:
    """Read the histories of the hypotheses with these tips by their back-pointers."""
    exists = (tips.total > -jnp.inf) & (tips.length > 0)
    tips = tips._replace(length=jnp.where(exists, tips.length, 0))
    path = _path(tips, record.parent)
    place = jnp.roll(path, -1, axis=2)  # the place of token t itself, except for the last token
    time = jnp.arange(path.shape[2], dtype=jnp.int32)[None, None]
    row = jnp.arange(path.shape[0])[:, None, None]
    length = tips.length[:, :, None]

    def history(recorded, tip, padding):
        values = jnp.where(time + 1 == length, tip[:, :, None], recorded[time, row, place])
        return jnp.where(time < length, values, padding)

    def aux_of_path(recorded):
        values = recorded[time, row, path]
        inside = (time < length).reshape(path.shape + (1,) * (values.ndim - 3))
        return jnp.where(inside, values, jnp.zeros((), values.dtype))

    return NBest(
        tokens=history(record.token, tips.token, PAD),
        length=tips.length,
        log_probabilities=history(record.log_probability, tips.log_probability, 0.0),
        score=jnp.where(exists, score, -jnp.inf),
        finished=exists & finished,
        aux=jax.tree.map(aux_of_path, record.aux),
    )


def _path(tips: Tips, parents: Int[Array, "T B K"]) -> Int[Array, "B N T"]:
    """Return the index of the live hypothesis that token t continues; arbitrary past the length."""

    def back(place, step):
        time, parent = step
        continued = jnp.take_along_axis(parent, place, 1)
        place = jnp.where(time + 1 == tips.length, tips.parent, continued)
        return place, place

    times = jnp.arange(parents.shape[0], dtype=jnp.int32)
    _, path = lax.scan(back, jnp.zeros_like(tips.parent), (times, parents), reverse=True)
    return path.transpose(1, 2, 0)
