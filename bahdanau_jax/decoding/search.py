"""Beam search over any model's step(tokens, state).

B sentences, K hypotheses of the beam, N of the result, V words, T steps (max_length), S source
positions. A step records its words and back-pointers and copies no history; the histories are read
back once, at the end.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from bahdanau_jax.batch import EOS, START
from bahdanau_jax.decoding import backpointers
from bahdanau_jax.decoding.backpointers import NBest, Record, Tips, pick
from bahdanau_jax.decoding.candidates import best
from bahdanau_jax.decoding.constraints import Rules, constrain
from bahdanau_jax.decoding.ranking import PLAIN, Ranking
from bahdanau_jax.distribution import Distribution, as_distribution

State = Any  # a pytree of arrays [B, K, ...]
Aux = Any  # a pytree of arrays [B, K, ...] that the result has for each token; () for none
# (tokens, state) -> (log-probabilities or a Distribution, which is faster; state; aux)
Step = Callable[[Int[Array, "B K"], State], tuple[Float[Array, "B K V"] | Distribution, State, Aux]]


class _Search(NamedTuple):
    """The carry of the loop."""

    time: Int[Array, ""]  # int32 number of finished steps
    state: State
    attended: (
        Any  # [B, K, S] α of each live hypothesis, summed over its steps; () without a penalty
    )
    width: Int[Array, " B"]  # int32 current size of the beam
    live: Tips  # [B, K] best first, none ends in EOS
    finished: Tips  # [B, N] best first, all end in EOS
    record: Record
    done: Bool[Array, " B"]  # True: the search of this sentence is over


class _Settings(NamedTuple):
    """The settings of `beam` that hold for all sentences."""

    beam_size: int
    ranking: Ranking
    shrink: bool


def beam(
    step: Step,
    state: State,
    rules: Rules,
    max_length: int,
    beam_size: int,
    *,
    n_best: int | None = None,
    ranking: Ranking = PLAIN,
    words: Bool[Array, "B S"] | None = None,
    shrink: bool = False,
    narrow: Callable[[Int[Array, " b"]], Step] | None = None,
    widths: Sequence[int] = (),
) -> NBest:
    """Return the `n_best` translations of highest score; a beam of one is greedy search.

    A step extends the K live hypotheses by every word and sorts all by Σ log p. Those of the best K
    that end in EOS are finished; the best K of the others stay live. Ties go to the earlier
    hypothesis of the beam, then to the lower word id. A sentence stops after `limits[b]` steps, or
    when no live hypothesis can still beat the worst of N finished ones. A beam of one stops at its
    first EOS, whatever the ranking.

    Call it inside `jax.jit`; `step` may close over parameters and memory. Raises ValueError where
    `n_best` is below 1 or above the beam size, for a `max_length` below 1, and for a coverage
    penalty without `words`.

    Args:
        step: (tokens [B, K], state) -> (log-probabilities [B, K, V], state, aux). The first tokens
            are START, [B, 1]. A `Distribution` in place of log-probabilities is faster.
        state: arrays [B, 1, ...], before the first word.
        rules: the constraints of each sentence. max_length also limits it; limit 0 gives fillers.
        max_length: T, a Python int, the size of the buffers.
        beam_size: K.
        n_best: N, at most K; by default K.
        ranking: the score of finished hypotheses.
        words: True at the source's words. A coverage penalty needs it, and α [B, K, S] as aux.
        shrink: each finished hypothesis makes the beam smaller by one, as in GroundHog.
        narrow: rows of the batch -> the step of these sentences alone; `widths` needs it.
        widths: falling numbers of sentences. Once no more than this many are unfinished, the search
            continues with these alone; each width compiles another loop.

    >>> n_best = beam(step, state, Rules(3 * source_mask.sum(1)), max_length=150, beam_size=12)
    >>> best = n_best.tokens[:, 0]
    """
    rules = rules.within(max_length)
    if ranking.coverage != 0 and words is None:
        raise ValueError("a coverage penalty needs `words`, the mask of the source's words")

    n_best = beam_size if n_best is None else n_best
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best is {n_best}, but should be between 1 and {beam_size}")

    settings = _Settings(beam_size, ranking, shrink)
    start = _start(step, state, rules.limits, max_length, settings, n_best)
    if beam_size > 1:  # the first step has one hypothesis to extend, not K
        start = _advance(settings, step, rules, words, start)
    unfinished = (*widths, 0)
    end = _until(unfinished[0], settings, step, rules, words, start)
    result, rows = _read(end, ranking), jnp.arange(len(rules.limits))
    for width, fewer in itertools.pairwise(unfinished):
        chosen = jnp.argsort(end.done, stable=True)[:width]  # unfinished sentences come first
        rows = rows[chosen]
        of_rows = jax.tree.map(lambda leaf, rows=rows: leaf[rows], (rules, words))
        end = _until(fewer, settings, narrow(rows), *of_rows, _select(end, chosen))  # pyright: ignore
        result = jax.tree.map(
            lambda all, part, rows=rows: all.at[rows].set(part), result, _read(end, ranking)
        )
    return result


def _until(
    unfinished: int, settings: _Settings, step: Step, rules: Rules, words: Any, search: _Search
) -> _Search:
    """Repeat steps until at most this many sentences are unfinished."""
    return lax.while_loop(
        lambda search: (~search.done).sum() > unfinished,
        lambda search: _advance(settings, step, rules, words, search),
        search,
    )


def _advance(settings: _Settings, step: Step, rules: Rules, words: Any, search: _Search) -> _Search:
    """Extend the hypotheses by one word."""
    ranking = settings.ranking
    next_word, state, aux = step(search.live.token, search.state)
    next_word = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), as_distribution(next_word))
    allowed = constrain(rules, search.time, next_word.logits)
    if allowed is not next_word.logits:
        next_word = next_word.changed(allowed, reserved=rules.prefix is None)
    attended, covered = search.attended, jnp.zeros_like(search.live.total)
    if ranking.coverage != 0:
        attended = attended + aux.astype(jnp.float32)
        covered = ranking.covered(attended, words[:, None])
    live, finished, width = _extend(search, next_word, covered, settings)
    new = Record(live.token, live.log_probability, live.parent, aux)
    record = backpointers.write(search.record, search.time, new)
    state, attended = pick((state, attended), live.parent)
    search = _Search(search.time + 1, state, attended, width, live, finished, record, search.done)
    return search._replace(done=search.done | _is_over(search, rules, ranking))


def _select(search: _Search, rows: Int[Array, " b"]) -> _Search:
    """Return the search of these sentences alone."""
    selected = jax.tree.map(lambda leaf: leaf[rows], search._replace(time=(), record=()))  # pyright: ignore
    record = jax.tree.map(lambda leaf: leaf[:, rows], search.record)
    return selected._replace(time=search.time, record=record)


def _read(end: _Search, ranking: Ranking) -> NBest:
    """Return the finished hypotheses of each sentence, or the live ones where none is finished."""
    finished = (end.finished.total > -jnp.inf).any(1, keepdims=True)
    # The beam is sorted by totals, not by scores.
    best = lax.top_k(_score(end.live, ranking), end.finished.total.shape[1])[1]
    tips = jax.tree.map(
        lambda live, ended: jnp.where(finished, ended, live), pick(end.live, best), end.finished
    )
    return backpointers.read_back(tips, _score(tips, ranking), finished, end.record)


def _start(
    step: Step,
    state: State,
    limits: Int[Array, " B"],
    max_length: int,
    settings: _Settings,
    n_best: int,
) -> _Search:
    """Return the carry before the first step: one empty live hypothesis for each sentence."""
    rows, K = limits.shape[0], settings.beam_size

    def fillers(size: int) -> Tips:
        zero = jnp.zeros((rows, size), jnp.int32)
        return Tips(
            total=jnp.full((rows, size), -jnp.inf, jnp.float32),
            length=zero,
            token=jnp.full((rows, size), START, jnp.int32),
            log_probability=jnp.zeros((rows, size), jnp.float32),
            parent=zero,
            covered=jnp.zeros((rows, size), jnp.float32),
        )

    live, tips = fillers(1), fillers(K)
    aux = jax.eval_shape(step, live.token, state)[2]
    aux_of_beam = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((rows, K, *leaf.shape[2:]), leaf.dtype), aux
    )
    entry = Record(tips.token, tips.log_probability, tips.parent, aux_of_beam)
    return _Search(
        time=jnp.int32(0),
        state=state,
        attended=jnp.zeros(aux.shape, jnp.float32) if settings.ranking.coverage != 0 else (),
        width=jnp.full(rows, K, jnp.int32),
        live=live._replace(total=jnp.zeros_like(live.total)),
        finished=fillers(n_best),
        record=backpointers.empty(entry, max_length),
        done=limits <= 0,
    )


def _extend(
    search: _Search,
    next_word: Distribution,  # [B, J, V]
    covered: Float[Array, "B J"],
    settings: _Settings,
) -> tuple[Tips, Tips, Int[Array, " B"]]:
    """Return (live, finished, width) after one more word; a finished sentence does not change.

    J hypotheses are live: one before the first word, K after it.
    """
    K, N, ranking = settings.beam_size, search.finished.total.shape[1], settings.ranking
    # Each hypothesis has one continuation by EOS, so at least K of the best 2K have another word.
    candidates = best(search.live.total, next_word, 2 * K)
    length = jnp.broadcast_to(search.live.length[:, :1] + 1, candidates.total.shape)
    covered = jnp.take_along_axis(covered, candidates.parent, 1)
    tips = Tips(candidates.total, length, *candidates[1:], covered)
    ends, place = tips.token == EOS, jnp.arange(2 * K)[None]
    # Only the best K continuations belong to the beam, EOS or not.
    inside = place < search.width[:, None]
    ended = tips._replace(total=jnp.where(ends & inside, tips.total, -jnp.inf))
    going = tips._replace(total=jnp.where(ends, -jnp.inf, tips.total))
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, 1), search.finished, ended)
    live = pick(going, lax.top_k(going.total, K)[1])
    finished = pick(both, lax.top_k(_score(both, ranking), N)[1])
    width = search.width
    if settings.shrink or K == 1:  # greedy search ends where EOS is the likeliest word
        width = width - (ended.total > -jnp.inf).sum(1, dtype=jnp.int32)
        total = jnp.where(place[:, :K] < width[:, None], live.total, -jnp.inf)
        live = live._replace(total=total)
    new = jax.tree.map(
        lambda old, new: jnp.where(search.done[:, None], old, new),
        (search.live, search.finished),
        (live, finished),
    )
    return *new, width


def _score(tips: Tips, ranking: Ranking) -> Float[Array, "B K"]:
    return ranking.normalization(tips.total, tips.length) + tips.covered


def _is_over(search: _Search, rules: Rules, ranking: Ranking) -> Bool[Array, " B"]:
    """True at the limit, and where no live hypothesis can still beat the worst finished one."""
    total = search.live.total.max(1)
    attainable = ranking.attainable(total, rules.shortest(search.time), rules.limits)
    worst = _score(search.finished, ranking)[:, -1]
    return (search.time >= rules.limits) | (attainable <= worst)
