"""Beam search with the programs `encode` and `step` of this folder; a beam of one is greedy search.

B sentences, S source positions, K hypotheses of a sentence, V words, t words so far.
"""

import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

EOS, UNK, START = 0, 1, -1  # START is the word before the first
LENGTHS = [step * 2**i for i in range(20) for step in (8, 12)]  # padded lengths, so few programs
UNSEEN = 1e-6  # the lowest attention that a source word counts with in the coverage penalty
NORMALIZATIONS = {
    "none": lambda length, alpha: np.float32(1),
    "average": lambda length, alpha: np.float32(length),
    "wu": lambda length, alpha: ((5 + np.float32(length)) / 6) ** np.float32(alpha),
}


class Search:
    """The search of a model. `settings` are the decoding settings of config.json."""

    def __init__(self, encode, step, params, weights, settings: SimpleNamespace):
        self.encode, self.step, self.params, self.weights = encode, step, params, weights
        self.settings, self.extend = settings, jax.jit(self._extend)

    def best(self, sources):
        """The ids of the best translation of each; a banned UNK stays where nothing else ends."""
        best = self.beam(sources, self.settings.ban_unk)
        if self.settings.ban_unk and not all(EOS in ids for ids in best):
            free = self.beam(sources, False)
            best = [b if EOS in b or EOS not in f else f for b, f in zip(best, free, strict=True)]
        return best

    def beam(self, sources, ban_unk):
        """The ids of the translation of highest score: with EOS last, unless a limit comes first.

        A step extends K hypotheses by every word. Those of the best K that end in EOS are finished;
        the best K of the others go on, until none of them can beat the best finished one. With
        `shrink`, or with a K of one, each finished hypothesis leaves a place fewer for the others.
        """
        s, K, source, sizes = self.settings, self.settings.beam_size, *self._padded(sources)
        limits = np.ceil(s.max_ratio * sizes).astype(int)
        minimum = np.minimum(np.floor(s.min_ratio * sizes), limits - 1).astype(int)
        memory, words, state = self._start(source, sizes)
        B, live, width = len(sizes), sizes > 0, np.full(len(sizes), K)
        total = np.where(np.arange(K) == 0, np.zeros((B, 1), np.float32), np.float32(-np.inf))
        history, parents = np.full((B, K, 1), START, np.int32), np.zeros((B, K), int)
        best, results, row = np.full(B, -np.inf), [[]] * B, np.arange(B)[:, None]
        for t in itertools.count(1):
            banned = np.stack([t <= minimum, np.full(B, ban_unk)], 1)
            last = history[:, :, -1], parents, state, total
            *found, state = self.extend(self.params, self.weights, memory, words, banned, *last)
            totals, parent, word, covered = map(np.asarray, found)
            scores, ends = totals / self._norm(t) + covered, word == EOS
            ended = np.where(ends & (np.arange(2 * K) < width[:, None]), scores, -np.inf)
            longer = np.concatenate([history[row, parent], word[:, :, None]], 2)
            for b in np.flatnonzero(live & (ended.max(1) > best)):
                best[b], results[b] = ended[b].max(), longer[b, ended[b].argmax()]
            width -= (ended > -np.inf).sum(1) * (s.shrink or K == 1)
            going = np.argsort(ends, 1, kind="stable")[:, :K]  # the best that do not end
            total = np.where(np.arange(K) < width[:, None], totals[row, going], np.float32(-np.inf))
            history, parents = longer[row, going], parent[row, going]
            lengths = np.maximum(t, minimum) + 1, limits  # of hypotheses that end later
            bound = np.maximum(*(total.max(1) / self._norm(length) for length in lengths))
            over = live & ((t >= limits) | (bound <= best))
            for b in np.flatnonzero(over & (best == -np.inf)):  # no hypothesis has ended
                results[b] = history[b, scores[b, going[b]].argmax()]
            live &= ~over
            if not live.any():
                break
        return [list(map(int, ids[1:])) for ids in results[: len(sources)]]

    def _norm(self, length):
        penalty = NORMALIZATIONS[self.settings.length_normalization]
        return penalty(np.maximum(length, 1), self.settings.alpha)

    def _padded(self, sources):
        """The ids and sizes of a batch with filler rows and positions, in few different shapes."""
        rows = next(n for n in (1, 8, max(self.settings.batch_size, 8)) if n >= len(sources))
        sizes = np.array([len(ids) for ids in sources] + [0] * (rows - len(sources)))
        length = next(n for n in LENGTHS if n >= sizes.max())
        filled = [ids + [EOS] * (length - len(ids)) for ids in [*sources, *[[]] * rows][:rows]]
        return np.array(filled, np.int32), sizes

    def _start(self, source, sizes):
        """The memory, the mask of source words without EOS, and the state of K equal hypotheses."""
        place, K = np.arange(source.shape[1]), self.settings.beam_size
        memory, state = self.encode(self.params, source, place < sizes[:, None])
        state = jax.tree.map(lambda x: jnp.repeat(x, K, 1), state)
        attended = jnp.zeros((len(source), K, len(place)))
        return memory, place < sizes[:, None] - 1, (state, attended)

    def _extend(self, params, weights, memory, words, banned, tokens, parents, state, total):
        """The best 2K continuations: (totals, parents, words, coverage terms) [B 2K], and state."""
        state, attended = jax.tree.map(lambda x: jax.vmap(lambda a, i: a[i])(x, parents), state)
        log_p, state, alpha = self.step(params, weights, memory, tokens, state)
        attended, ids = attended + alpha, jnp.arange(log_p.shape[2])[None]
        bans = ((ids == EOS) & banned[:, :1]) | ((ids == UNK) & banned[:, 1:])
        totals = total[:, :, None] + jnp.where(bans[:, None], -jnp.inf, log_p)
        totals, index = jax.lax.top_k(totals.reshape(len(totals), -1), 2 * tokens.shape[1])
        parent, word = jnp.divmod(index, log_p.shape[2])
        covered = jnp.where(words[:, None], jnp.log(jnp.clip(attended, UNSEEN, 1)), 0).sum(2)
        covered = self.settings.coverage * jnp.take_along_axis(covered, parent, 1)
        return totals, parent, word, covered, (state, attended)
