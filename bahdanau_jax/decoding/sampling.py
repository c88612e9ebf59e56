"""Translations sampled from the model, with temperature, top-k and top-p.

B sentences, N samples of each, V words, T steps (max_length), S source positions.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from bahdanau_jax.batch import EOS, PAD, START
from bahdanau_jax.decoding import backpointers
from bahdanau_jax.decoding.backpointers import NBest
from bahdanau_jax.decoding.constraints import Rules, constrain
from bahdanau_jax.decoding.ranking import PLAIN, Ranking
from bahdanau_jax.decoding.search import State, Step
from bahdanau_jax.distribution import as_distribution


class _Record(NamedTuple):
    """The tokens of every step."""

    token: Int[Array, "T B N"]
    log_probability: Float[Array, "T B N"]  # the model's own, without temperature, top-k and top-p
    aux: Any  # [T, B, N, ...]


class _Sampling(NamedTuple):
    """The carry of the loop."""

    time: Int[Array, ""]
    state: State
    token: Int[Array, "B N"]  # the last token
    length: Int[Array, "B N"]  # tokens so far, EOS counted
    ended: Bool[Array, "B N"]  # True after EOS
    record: _Record


def sample(
    step: Step,
    state: State,
    rules: Rules,
    max_length: int,
    samples: int,
    keys: Array,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    ranking: Ranking = PLAIN,
    words: Bool[Array, "B S"] | None = None,
) -> NBest:
    """Draw N independent translations of each sentence, and return them in the order of drawing.

    Sample n of a sentence depends on its key and n alone, not on other sentences or the number of
    samples. Scores and log-probabilities are the model's own. See `beam` for the other arguments.
    Raises ValueError for a `max_length` below 1.

    Args:
        samples: N.
        keys: a random key for each sentence, [B].
        temperature: divides the log-probabilities; 1 leaves the model unchanged.
        top_k: draw from this many of the likeliest words; 0 for all.
        top_p: draw from the fewest likeliest words with this total probability; 1 for all.

    >>> drawn = sample(step, state, Rules(limits), 150, 5, jax.random.split(key, B), top_p=0.9)
    """
    limits = rules.within(max_length).limits[:, None]
    keys = jax.vmap(lambda key: jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(samples)))(
        keys
    )

    def advance(now: _Sampling) -> _Sampling:
        next_word, state, aux = step(now.token, now.state)
        log_p = as_distribution(next_word).log_p.astype(jnp.float32)
        allowed = constrain(rules, now.time, log_p)
        token = _draw(keys, now.time, likeliest(allowed / temperature, top_k, top_p))
        value = jnp.take_along_axis(allowed, token[..., None], 2)[..., 0]
        going = ~now.ended & (now.time < limits)
        record = backpointers.write(now.record, now.time, _Record(token, value, aux))
        return _Sampling(
            time=now.time + 1,
            state=state,
            token=token,
            length=now.length + going,
            ended=now.ended | (going & (token == EOS)),
            record=record,
        )

    def unfinished(now: _Sampling) -> Bool[Array, ""]:
        return (~now.ended & (now.time < limits)).any()

    start = _start(step, state, (limits.shape[0], samples), max_length)
    return _gather(lax.while_loop(unfinished, advance, start), ranking, words)


def _draw(
    keys: Key[Array, "B N"], time: Int[Array, ""], log_p: Float[Array, "B N V"]
) -> Int[Array, "B N"]:
    """Draw a word of each distribution from its own key and the time."""

    def draw_word(key, log_p):
        return jax.random.categorical(jax.random.fold_in(key, time), log_p)

    return jax.vmap(jax.vmap(draw_word))(keys, log_p).astype(jnp.int32)


def _start(step: Step, state: State, shape: tuple[int, int], max_length: int) -> _Sampling:
    """Return the carry before the first word of [B, N] samples."""
    token = jnp.full(shape, START, jnp.int32)
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape[2:]), state)
    entry = _Record(token, jnp.zeros(shape, jnp.float32), jax.eval_shape(step, token, state)[2])
    return _Sampling(
        time=jnp.int32(0),
        state=state,
        token=token,
        length=jnp.zeros(shape, jnp.int32),
        ended=jnp.zeros(shape, bool),
        record=backpointers.empty(entry, max_length),
    )


def likeliest(log_p: Float[Array, "B N V"], top_k: int, top_p: float) -> Float[Array, "B N V"]:
    """Keep the `top_k` likeliest words and, of these, the fewest with probability `top_p`.

    All other words become -inf. Words as likely as the last kept one are kept, too. The
    probabilities need not add up to 1.
    """
    if 0 < top_k < log_p.shape[2]:
        least = lax.top_k(log_p, top_k)[0][..., -1:]
        log_p = jnp.where(log_p < least, -jnp.inf, log_p)
    if top_p < 1:
        falling = -jnp.sort(-log_p)
        before = jnp.cumsum(jax.nn.softmax(falling), -1) - jax.nn.softmax(falling)
        least = jnp.where(before < top_p, falling, jnp.inf).min(-1, keepdims=True)
        log_p = jnp.where(log_p < least, -jnp.inf, log_p)
    return log_p


def _gather(end: _Sampling, ranking: Ranking, words: Bool[Array, "B S"] | None) -> NBest:
    """Return the record with sentences first and padding after each sample's end."""
    length = end.length

    def cut(recorded, padding):
        values = jnp.moveaxis(recorded, 0, 2)
        time = jnp.arange(values.shape[2])[None, None]
        inside = (time < length[..., None]).reshape(values.shape[:3] + (1,) * (values.ndim - 3))
        return jnp.where(inside, values, jnp.asarray(padding, values.dtype))

    values = cut(end.record.log_probability, 0)
    aux = jax.tree.map(lambda leaf: cut(leaf, 0), end.record.aux)
    score = ranking.normalization(values.sum(2), length)
    if ranking.coverage:
        score = score + ranking.covered(aux.sum(2), words[:, None])  # pyright: ignore
    return NBest(
        tokens=cut(end.record.token, PAD),
        length=length,
        log_probabilities=values,
        score=jnp.where(length > 0, score, -jnp.inf),
        finished=end.ended,
        aux=aux,
    )
