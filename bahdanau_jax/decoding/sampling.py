"""Translations drawn at random from the model: temperature, top-k and top-p.

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
from bahdanau_jax.decoding.backpointers import Found
from bahdanau_jax.decoding.constraints import Rules, constrain
from bahdanau_jax.decoding.ranking import PLAIN, Ranking
from bahdanau_jax.decoding.search import State, Step
from bahdanau_jax.distribution import given


class _Drawn(NamedTuple):
    """What each step wrote."""

    token: Int[Array, "T B N"]
    log_probability: Float[Array, "T B N"]  # by the model, whatever it was drawn from
    aux: Any  # [T, B, N, ...]


class _Sampling(NamedTuple):
    """The carry of the loop."""

    time: Int[Array, ""]
    state: State
    token: Int[Array, "B N"]  # the last one
    length: Int[Array, "B N"]  # tokens so far, EOS counted
    ended: Bool[Array, "B N"]  # by EOS
    record: _Drawn


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
) -> Found:
    """So many independent translations of each sentence, in the order in which they were drawn.

    Sample n of a sentence is a function of its key and n alone, so neither other sentences nor the
    number of samples change it. Scores and log-probabilities are the model's own. Arguments that
    `beam` has too are as there.

    Args:
        samples: N.
        keys: a random key for each sentence, [B].
        temperature: divides the log-probabilities; 1 is the model itself.
        top_k: only so many of the likeliest words; 0: all.
        top_p: only the likeliest words that reach this share of the probability together; 1: all.

    >>> found = sample(step, state, Rules(limits), 150, 5, jax.random.split(key, B), top_p=0.9)
    """
    limits = jnp.minimum(rules.limits, max_length).astype(jnp.int32)[:, None]
    keys = jax.vmap(lambda key: jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(samples)))(
        keys
    )

    def advance(now: _Sampling) -> _Sampling:
        next_word, state, aux = step(now.token, now.state)
        log_p = given(next_word).log_p.astype(jnp.float32)
        allowed = constrain(rules, now.time, log_p)
        token = _draw(keys, now.time, likeliest(allowed / temperature, top_k, top_p))
        value = jnp.take_along_axis(allowed, token[..., None], 2)[..., 0]
        going = ~now.ended & (now.time < limits)
        record = backpointers.write(now.record, now.time, _Drawn(token, value, aux))
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
    """A word of each distribution, a function of its own key and the time."""

    def one(key, log_p):
        return jax.random.categorical(jax.random.fold_in(key, time), log_p)

    return jax.vmap(jax.vmap(one))(keys, log_p).astype(jnp.int32)


def _start(step: Step, state: State, shape: tuple[int, int], max_length: int) -> _Sampling:
    """Before the first word of [B, N] samples: each with its sentence's state."""
    token = jnp.full(shape, START, jnp.int32)
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape[2:]), state)
    entry = _Drawn(token, jnp.zeros(shape, jnp.float32), jax.eval_shape(step, token, state)[2])
    return _Sampling(
        time=jnp.int32(0),
        state=state,
        token=token,
        length=jnp.zeros(shape, jnp.int32),
        ended=jnp.zeros(shape, bool),
        record=backpointers.empty(entry, max_length),
    )


def likeliest(log_p: Float[Array, "B N V"], top_k: int, top_p: float) -> Float[Array, "B N V"]:
    """-inf for all words but the `top_k` likeliest, and of these but the fewest that hold `top_p`.

    Words as likely as the last one kept are kept too. The log-probabilities need not add up to 1.
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


def _gather(end: _Sampling, ranking: Ranking, words: Bool[Array, "B S"] | None) -> Found:
    """The record with sentences first, and nothing after each sample's end."""
    length = end.length

    def cut(recorded, padding):
        values = jnp.moveaxis(recorded, 0, 2)
        time = jnp.arange(values.shape[2])[None, None]
        inside = (time < length[..., None]).reshape(values.shape[:3] + (1,) * (values.ndim - 3))
        return jnp.where(inside, values, jnp.asarray(padding, values.dtype))

    values, aux = (
        cut(end.record.log_probability, 0),
        jax.tree.map(lambda a: cut(a, 0), end.record.aux),
    )
    score = ranking.normalization(values.sum(2), length)
    if ranking.coverage:
        score = score + ranking.covered(aux.sum(2), words[:, None])  # pyright: ignore
    return Found(
        tokens=cut(end.record.token, PAD),
        length=length,
        log_probabilities=values,
        score=jnp.where(length > 0, score, -jnp.inf),
        finished=end.ended,
        aux=aux,
    )
