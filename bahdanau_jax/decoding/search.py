"""Greedy and beam search over step(tokens, state), whatever model is behind it.

B sentences, K hypotheses (the beam), N asked for, V words, T steps (max_length), S source
positions. Histories are never copied: a step records its words and back-pointers, and the
histories are read back once, at the end.
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
from bahdanau_jax.decoding.backpointers import Found, Record, Tips, pick
from bahdanau_jax.decoding.candidates import best
from bahdanau_jax.decoding.constraints import Rules, constrain
from bahdanau_jax.decoding.ranking import PLAIN, Ranking
from bahdanau_jax.distribution import Distribution, given

State = Any  # a pytree of arrays [B, K, ...]
Aux = Any  # a pytree of arrays [B, K, ...] that leave search with the hypothesis; () for none
# (tokens, state) -> (log-probabilities, or faster a Distribution, state, aux)
Step = Callable[[Int[Array, "B K"], State], tuple[Float[Array, "B K V"] | Distribution, State, Aux]]


class _Search(NamedTuple):
    """The carry of the loop."""

    time: Int[Array, ""]  # int32 steps done
    state: State
    seen: Any  # [B, K, S] α of each live hypothesis, summed over its steps; () where not asked for
    width: Int[Array, " B"]  # int32 hypotheses that may live on
    live: Tips  # [B, K] best first, none ends in EOS
    finished: Tips  # [B, N] best first, all end in EOS
    record: Record
    done: Bool[Array, " B"]  # True: live and finished of this sentence change no more


class _Settings(NamedTuple):
    """Of `beam`, for all sentences."""

    beam_size: int
    ranking: Ranking
    shrink: bool


def greedy(step: Step, state: State, rules: Rules, max_length: int) -> Found:
    """The likeliest word at every step: the beam of one. Shapes and arguments as in `beam`."""
    return beam(step, state, rules, max_length, beam_size=1)


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
) -> Found:
    """The `n_best` translations of highest score that a beam of that size meets.

    A step extends the K live hypotheses by every word and ranks all by Σ log p. Of the best K those
    in EOS are finished; the best K that are not in EOS live on. Ties go to the earlier hypothesis
    of the beam, then to the lower word id. A sentence stops after `limits[b]` steps, or when no
    live hypothesis can still beat the worst of N finished ones.

    Wrap the caller in `jax.jit`: `step` closes over parameters and memory, which are not copied.

    Args:
        step: (tokens [B, K], state) -> (log-probabilities [B, K, V], state, aux); START is first,
            in one place [B, 1]. A `Distribution` in place of log-probabilities is faster.
        state: arrays [B, 1, ...], before the first word.
        rules: what each sentence may be; limits are at most max_length, and 0 gives fillers.
        max_length: T, a Python int: the size of the buffers.
        beam_size: K.
        n_best: N, at most K, which None stands for.
        ranking: what the finished ones are ranked by.
        words: the source's words; needed, and aux must be α [B, K, S], for a coverage penalty.
        shrink: each hypothesis that ends leaves its place empty, as in GroundHog: K end in all.
        narrow: rows of the batch -> the step of these sentences alone; needed for `widths`.
        widths: falling numbers of sentences. As soon as no more than that have not stopped, only
            they are searched on; each width compiles a loop of its own.

    >>> found = beam(step, state, Rules(3 * source_mask.sum(1)), max_length=150, beam_size=12)
    >>> best = found.tokens[:, 0]
    """
    rules = rules._replace(limits=jnp.minimum(rules.limits, max_length).astype(jnp.int32))
    if ranking.coverage != 0 and words is None:
        raise ValueError("a coverage penalty needs `words`, which positions of the source count")

    settings = _Settings(beam_size, ranking, shrink)
    start = _start(step, state, rules.limits, max_length, settings, n_best or beam_size)
    if beam_size > 1:  # the first step has one hypothesis to extend, not K
        start = _advance(settings, step, rules, words, start)
    enough = (*widths, 0)
    end = _until(enough[0], settings, step, rules, words, start)
    found, rows = _found(end, ranking), jnp.arange(len(rules.limits))
    for width, fewer in itertools.pairwise(enough):
        chosen = jnp.argsort(end.done, stable=True)[:width]  # who goes on comes first
        rows = rows[chosen]
        theirs = jax.tree.map(lambda leaf, rows=rows: leaf[rows], (rules, words))
        end = _until(fewer, settings, narrow(rows), *theirs, _of_rows(end, chosen))  # pyright: ignore
        found = jax.tree.map(
            lambda whole, part, rows=rows: whole.at[rows].set(part), found, _found(end, ranking)
        )
    return found


def _until(
    enough: int, settings: _Settings, step: Step, rules: Rules, words: Any, search: _Search
) -> _Search:
    """Steps until no more than so many sentences have not stopped."""
    return lax.while_loop(
        lambda search: (~search.done).sum() > enough,
        lambda search: _advance(settings, step, rules, words, search),
        search,
    )


def _advance(settings: _Settings, step: Step, rules: Rules, words: Any, search: _Search) -> _Search:
    """One word more."""
    ranking = settings.ranking
    next_word, state, aux = step(search.live.token, search.state)
    next_word = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), given(next_word))
    allowed = constrain(rules, search.time, next_word.logits)
    if allowed is not next_word.logits:
        next_word = next_word.changed(allowed, reserved=rules.prefix is None)
    seen, covered = search.seen, jnp.zeros_like(search.live.total)
    if ranking.coverage != 0:
        seen = seen + aux.astype(jnp.float32)
        covered = ranking.covered(seen, words[:, None])
    live, finished, width = _extend(search, next_word, covered, settings)
    new = Record(live.token, live.log_probability, live.parent, aux)
    record = backpointers.write(search.record, search.time, new)
    state, seen = pick((state, seen), live.parent)
    search = _Search(search.time + 1, state, seen, width, live, finished, record, search.done)
    return search._replace(done=search.done | _settled(search, rules, ranking))


def _of_rows(search: _Search, rows: Int[Array, " b"]) -> _Search:
    """The search of these sentences alone."""
    mine = jax.tree.map(lambda leaf: leaf[rows], search._replace(time=(), record=()))  # pyright: ignore
    record = jax.tree.map(lambda leaf: leaf[:, rows], search.record)
    return mine._replace(time=search.time, record=record)


def _found(end: _Search, ranking: Ranking) -> Found:
    """What has finished; of a sentence with nothing finished, what lives."""
    some = (end.finished.total > -jnp.inf).any(1, keepdims=True)
    # The beam's order is that of totals, without what was looked at.
    best = lax.top_k(_score(end.live, ranking), end.finished.total.shape[1])[1]
    tips = jax.tree.map(
        lambda live, finished: jnp.where(some, finished, live), pick(end.live, best), end.finished
    )
    return backpointers.read_back(tips, _score(tips, ranking), some, end.record)


def _start(
    step: Step,
    state: State,
    limits: Int[Array, " B"],
    max_length: int,
    settings: _Settings,
    n_best: int,
) -> _Search:
    """One live hypothesis a sentence, empty, before the first step."""
    rows, K = limits.shape[0], settings.beam_size

    def nothing(size: int) -> Tips:
        zero = jnp.zeros((rows, size), jnp.int32)
        return Tips(
            total=jnp.full((rows, size), -jnp.inf, jnp.float32),
            length=zero,
            token=jnp.full((rows, size), START, jnp.int32),
            log_probability=jnp.zeros((rows, size), jnp.float32),
            parent=zero,
            covered=jnp.zeros((rows, size), jnp.float32),
        )

    live, tips = nothing(1), nothing(K)
    aux = jax.eval_shape(step, live.token, state)[2]
    wide = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((rows, K, *leaf.shape[2:]), leaf.dtype), aux
    )
    entry = Record(tips.token, tips.log_probability, tips.parent, wide)
    return _Search(
        time=jnp.int32(0),
        state=state,
        seen=jnp.zeros(aux.shape, jnp.float32) if settings.ranking.coverage != 0 else (),
        width=jnp.full(rows, K, jnp.int32),
        live=live._replace(total=jnp.zeros_like(live.total)),
        finished=nothing(n_best),
        record=backpointers.empty(entry, max_length),
        done=limits <= 0,
    )


def _extend(
    search: _Search,
    next_word: Distribution,  # [B, J, V]
    covered: Float[Array, "B J"],
    settings: _Settings,
) -> tuple[Tips, Tips, Int[Array, " B"]]:
    """(live, finished, width) after one more word; a sentence that is done stays as it is.

    J hypotheses live: one before the first word, K from then on.
    """
    K, N, ranking = settings.beam_size, search.finished.total.shape[1], settings.ranking
    # At most one continuation of each hypothesis is EOS: among 2K, at least K are not.
    found = best(search.live.total, next_word, 2 * K)
    length = jnp.broadcast_to(search.live.length[:, :1] + 1, found.total.shape)
    covered = jnp.take_along_axis(covered, found.parent, 1)
    tips = Tips(found.total, length, *found[1:], covered)
    ends, place = tips.token == EOS, jnp.arange(2 * K)[None]
    # An EOS that is not among the best K is no hypothesis of this beam, as no other word there is.
    inside = place < search.width[:, None]
    ended = tips._replace(total=jnp.where(ends & inside, tips.total, -jnp.inf))
    going = tips._replace(total=jnp.where(ends, -jnp.inf, tips.total))
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, 1), search.finished, ended)
    live = pick(going, lax.top_k(going.total, K)[1])
    finished = pick(both, lax.top_k(_score(both, ranking), N)[1])
    width = search.width
    if settings.shrink:
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


def _settled(search: _Search, rules: Rules, ranking: Ranking) -> Bool[Array, " B"]:
    """Where the limit is reached, or no live hypothesis can still beat the worst finished one."""
    total = search.live.total.max(1)
    attainable = ranking.attainable(total, rules.shortest(search.time), rules.limits)
    worst = _score(search.finished, ranking)[:, -1]
    return (search.time >= rules.limits) | (attainable <= worst)
