"""Greedy and beam search over step(tokens, state), whatever model is behind it.

B sentences, K hypotheses (the beam), V words, T steps (max_length). Histories are never copied: a
step records its words and back-pointers, and the histories are read back once, at the end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from bahdanau_jax.batch import EOS, PAD, START, UNK

State = Any  # a pytree of arrays [B, K, ...]
Aux = Any  # a pytree of arrays [B, K, ...] that leave search with the hypothesis; () for none
Step = Callable[[Int[Array, "B K"], State], tuple[Float[Array, "B K V"], State, Aux]]


@dataclass(frozen=True)
class Normalization:
    """score = Σ log p / penalty(length, alpha); the penalty is positive and monotone in the length.

    >>> dataclasses.replace(NORMALIZATIONS["wu"], alpha=1.0)
    """

    penalty: Callable[[Float[Array, "..."], float], Float[Array, "..."]]
    alpha: float = 0.6  # the exponent, where the penalty has one

    def __call__(
        self, total: Float[Array, "..."], length: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        return total / self.penalty(jnp.maximum(length, 1).astype(total.dtype), self.alpha)


NORMALIZATIONS: Mapping[str, Normalization] = MappingProxyType(
    {
        "none": Normalization(lambda length, alpha: jnp.ones_like(length)),
        "average": Normalization(lambda length, alpha: length),
        # ((5 + n) / 6)^α: Wu et al., arXiv 1609.08144, equation 14
        "wu": Normalization(lambda length, alpha: ((5 + length) / 6) ** alpha),
    }
)


class Found(NamedTuple):
    """The n-best list of each sentence, best first. A filler has score -inf and length 0.

    All are finished; or, where no hypothesis has finished by the limit, none is.
    """

    tokens: Int[Array, "B K T"]  # int32 word ids, EOS included, then PAD
    length: Int[Array, "B K"]  # int32 tokens, EOS counted
    log_probabilities: Float[Array, "B K T"]  # float32, of each token; 0 on padding
    score: Float[Array, "B K"]  # float32 Σ log p, normalised as asked: what the ranking is by
    finished: Bool[Array, "B K"]  # False where the limit came before EOS, and for fillers
    aux: Any  # what step returned beside each token: arrays [B, K, T, ...]; zeros on padding


class _Tips(NamedTuple):
    """The last token of each hypothesis, and which live hypothesis it continues."""

    total: Float[Array, "B K"]  # float32 Σ log p; -inf where there is no hypothesis
    length: Int[Array, "B K"]  # int32 tokens so far
    token: Int[Array, "B K"]  # int32 the last one
    log_probability: Float[Array, "B K"]  # float32, of the last one
    parent: Int[Array, "B K"]  # int32 index among the live hypotheses of the step before


class _Record(NamedTuple):
    """What each step wrote, in the order of its beam: enough to read every history back."""

    token: Int[Array, "T B K"]  # of the live hypotheses after the step
    log_probability: Float[Array, "T B K"]
    parent: Int[Array, "T B K"]
    aux: Any  # [T, B, K, ...] of the live hypotheses BEFORE the step: index it by parent


class _Search(NamedTuple):
    """The carry of the loop."""

    time: Int[Array, ""]  # int32 steps done
    state: State
    live: _Tips  # best first, none ends in EOS
    finished: _Tips  # best first, all end in EOS
    record: _Record
    done: Bool[Array, " B"]  # True: live and finished of this sentence change no more


def greedy(step: Step, state: State, limits: Int[Array, " B"], max_length: int) -> Found:
    """The likeliest word at every step: the beam of one. Shapes and arguments as in `beam`."""
    return beam(step, state, limits, max_length, beam_size=1)


def beam(
    step: Step,
    state: State,
    limits: Int[Array, " B"],
    max_length: int,
    beam_size: int,
    normalization: Normalization = NORMALIZATIONS["none"],
    ban_unk: bool = False,
) -> Found:
    """The `beam_size` translations of highest score that a beam of that size meets.

    A step extends the K live hypotheses by every word and ranks all by Σ log p. Of the best K those
    in EOS are finished; the best K that are not in EOS live on. Ties go to the earlier hypothesis
    of the beam, then to the lower word id. A sentence stops after `limits[b]` steps, or when no
    live hypothesis can still beat the worst of K finished ones.

    Wrap the caller in `jax.jit`: `step` closes over parameters and memory, which are not copied.

    Args:
        step: (tokens [B, K], state) -> (log-probabilities [B, K, V], state, aux); START is first.
        state: arrays [B, 1, ...], before the first word.
        limits: steps allowed for each sentence, EOS counted, at most max_length; 0 gives fillers.
        max_length: T, a Python int: the size of the buffers.
        beam_size: K.
        normalization: a value of NORMALIZATIONS.
        ban_unk: give UNK no probability.

    >>> found = beam(step, state, limits=3 * source_mask.sum(1), max_length=150, beam_size=12)
    >>> best = found.tokens[:, 0]
    """
    limits = jnp.minimum(limits, max_length).astype(jnp.int32)

    def advance(search: _Search) -> _Search:
        log_probabilities, state, aux = step(search.live.token, search.state)
        log_probabilities = log_probabilities.astype(jnp.float32)
        if ban_unk:
            log_probabilities = log_probabilities.at[..., UNK].set(-jnp.inf)
        live, finished = _extend(search, log_probabilities, normalization)
        new = _Record(live.token, live.log_probability, live.parent, aux)
        record = jax.tree.map(lambda old, now: old.at[search.time].set(now), search.record, new)
        state = _pick(state, live.parent)
        search = _Search(search.time + 1, state, live, finished, record, search.done)
        return search._replace(done=search.done | _settled(search, limits, normalization))

    start = _start(step, state, limits, max_length, beam_size)
    end = lax.while_loop(lambda search: ~search.done.all(), advance, start)
    return _read_back(end, normalization)


def _start(
    step: Step, state: State, limits: Int[Array, " B"], max_length: int, beam_size: int
) -> _Search:
    """One live hypothesis a sentence, empty; the other places of the beam are fillers."""
    shape = (limits.shape[0], beam_size)
    zero = jnp.zeros(shape, jnp.int32)
    nothing = _Tips(
        total=jnp.full(shape, -jnp.inf, jnp.float32),
        length=zero,
        token=jnp.full(shape, START, jnp.int32),
        log_probability=jnp.zeros(shape, jnp.float32),
        parent=zero,
    )
    # One copy of the state in every place: the first step costs as much as the others, but the
    # program has one step in it instead of two.
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape[2:]), state)
    aux = jax.eval_shape(step, zero, state)[2]
    written = _Record(nothing.token, nothing.log_probability, nothing.parent, aux)
    return _Search(
        time=jnp.int32(0),
        state=state,
        live=nothing._replace(total=nothing.total.at[:, 0].set(0)),
        finished=nothing,
        record=jax.tree.map(lambda leaf: jnp.zeros((max_length, *leaf.shape), leaf.dtype), written),
        done=limits <= 0,
    )


def _extend(
    search: _Search, log_probabilities: Float[Array, "B K V"], normalization: Normalization
) -> tuple[_Tips, _Tips]:
    """(live, finished) after one more word; those of a sentence that is done stay as they are."""
    beam_size = log_probabilities.shape[1]
    # At most one continuation of each hypothesis is EOS: among 2K, at least K are not.
    best = _best(search.live, log_probabilities, 2 * beam_size)
    ends = best.token == EOS
    # An EOS that is not among the best K is no hypothesis of this beam, as no other word there is.
    ends_in_beam = ends.at[:, beam_size:].set(False)
    ended = best._replace(total=jnp.where(ends_in_beam, best.total, -jnp.inf))
    going = best._replace(total=jnp.where(ends, -jnp.inf, best.total))
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, 1), search.finished, ended)
    live = _pick(going, lax.top_k(going.total, beam_size)[1])
    finished = _pick(both, lax.top_k(normalization(both.total, both.length), beam_size)[1])
    return jax.tree.map(
        lambda old, new: jnp.where(search.done[:, None], old, new),
        (search.live, search.finished),
        (live, finished),
    )


def _settled(
    search: _Search, limits: Int[Array, " B"], normalization: Normalization
) -> Bool[Array, " B"]:
    """Where the limit is reached, or no live hypothesis can still beat the worst finished one.

    A live total L only falls. So the best that can come of it is L at some length from time + 1 to
    the limit, and as the penalty is monotone, at one of these two.
    """
    total = search.live.total.max(1)
    ends = (normalization(total, length) for length in (search.time + 1, limits))
    attainable = jnp.maximum(*ends)
    worst = normalization(search.finished.total, search.finished.length).min(1)
    return (search.time >= limits) | (attainable <= worst)


_WINDOW = 64  # words


def _best(live: _Tips, log_probabilities: Float[Array, "B K V"], count: int) -> _Tips:
    """The `count` best continuations of the beam, best first; ties to the lower (place, word).

    The best words lie in the `count` windows of the highest maxima, so that only those are sorted.
    Beam 12, V 30,000, 64 sentences, two CPU cores: 6 ms; `top_k` of all K·V 60 ms, and likewise
    of each place first.
    """
    B, K, V = log_probabilities.shape
    windows = -(-V // _WINDOW)
    tail = windows * _WINDOW - V
    size = (1, 1, _WINDOW)
    highest = lax.reduce_window(
        log_probabilities, -jnp.inf, lax.max, size, size, ((0, 0), (0, 0), (0, tail))
    )
    highest = (live.total[:, :, None] + highest).reshape(B, K * windows)
    chosen = jnp.sort(lax.top_k(highest, min(count, K * windows))[1])  # in order: ties stay right
    place = (chosen // windows)[:, :, None]
    word = (chosen % windows * _WINDOW)[:, :, None] + jnp.arange(_WINDOW, dtype=jnp.int32)[
        None, None
    ]
    row = jnp.arange(B)[:, None, None]
    values = log_probabilities.at[row, place, word].get(mode="fill", fill_value=-jnp.inf)
    totals = jnp.take_along_axis(live.total, place[:, :, 0], 1)[:, :, None] + values
    total, index = lax.top_k(totals.reshape(B, -1), count)
    parent, token, value = (
        jnp.take_along_axis(jnp.broadcast_to(x, totals.shape).reshape(B, -1), index, 1)
        for x in (place, word, values)
    )
    token = jnp.where(total > -jnp.inf, token, EOS)  # a filler's word may lie beyond V
    length = jnp.broadcast_to(live.length[:, :1] + 1, total.shape)
    return _Tips(total, length, token, value, parent)


def _pick(tree: Any, index: Int[Array, "B J"]) -> Any:
    """Every leaf [B, K, ...] becomes [B, J, ...], by an index into K."""
    return jax.tree.map(lambda leaf: jax.vmap(lambda row, i: row[i])(leaf, index), tree)


def _read_back(search: _Search, normalization: Normalization) -> Found:
    """The histories of the hypotheses that are left, by their back-pointers."""
    none = ~(search.finished.total > -jnp.inf).any(1, keepdims=True)
    tips = jax.tree.map(lambda *two: jnp.where(none, *two), search.live, search.finished)
    exists = (tips.total > -jnp.inf) & (tips.length > 0)
    tips = tips._replace(length=jnp.where(exists, tips.length, 0))
    path = _path(tips, search.record.parent)
    place = jnp.roll(path, -1, axis=2)  # of token t itself, where it is not the last
    time = jnp.arange(path.shape[2], dtype=jnp.int32)[None, None]
    row = jnp.arange(path.shape[0])[:, None, None]
    length = tips.length[:, :, None]

    def history(recorded, tip, padding):
        values = jnp.where(time + 1 == length, tip[:, :, None], recorded[time, row, place])
        return jnp.where(time < length, values, padding)

    def beside(recorded):
        values = recorded[time, row, path]
        inside = (time < length).reshape(path.shape + (1,) * (values.ndim - 3))
        return jnp.where(inside, values, jnp.zeros((), values.dtype))

    return Found(
        tokens=history(search.record.token, tips.token, PAD),
        length=tips.length,
        log_probabilities=history(search.record.log_probability, tips.log_probability, 0.0),
        score=jnp.where(exists, normalization(tips.total, tips.length), -jnp.inf),
        finished=exists & ~none,
        aux=jax.tree.map(beside, search.record.aux),
    )


def _path(tips: _Tips, parents: Int[Array, "T B K"]) -> Int[Array, "B K T"]:
    """Which live hypothesis of the step before token t continues; anything past the length."""

    def back(place, step):
        time, parent = step
        continued = jnp.take_along_axis(parent, place, 1)
        place = jnp.where(time + 1 == tips.length, tips.parent, continued)
        return place, place

    times = jnp.arange(parents.shape[0], dtype=jnp.int32)
    _, path = lax.scan(back, jnp.zeros_like(tips.parent), (times, parents), reverse=True)
    return path.transpose(1, 2, 0)
