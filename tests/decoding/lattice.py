"""Language models small enough to search by hand, and simple reference searches.

A Lattice answers search's `step`; `beam` and `everything` are NumPy loops over single sentences.
"""

import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

EOS, UNK, START = 0, 1, -1
TRAIL = 5  # the last words of a hypothesis, which the state and aux carry along


class Lattice(NamedTuple):
    """An automaton for each of B sentences: N nodes, V words; search starts at node 0."""

    log_p: np.ndarray  # [B, N, V] float32 log-probability of a word at a node
    successor: np.ndarray  # [N, V] the node after a word

    def start(self):
        shape = (len(self.log_p), 1)
        return jnp.zeros(shape, jnp.int32), jnp.full((*shape, TRAIL), -7, jnp.int32)

    def step(self, tokens, state):
        node, trail = state
        node = jnp.where(tokens == START, node, jnp.asarray(self.successor)[node, tokens])
        trail = jnp.concatenate([trail[..., 1:], tokens[..., None]], -1)
        log_p = jnp.asarray(self.log_p)[jnp.arange(len(self.log_p))[:, None], node]
        return log_p, (node, trail), {"trail": trail, "node": node}

    def looking(self, alpha):
        """(step, start) of a model whose attention at node n of sentence b is alpha[b, n] [S]."""

        def step(tokens, state):
            log_p, state, aux = self.step(tokens, state)
            return log_p, state, alpha[jnp.arange(len(alpha))[:, None], aux["node"]]

        return step, self.start()

    def of(self, rows):
        """The step of these sentences alone."""
        return Lattice(jnp.asarray(self.log_p)[rows], self.successor).step

    def row(self, b):
        return Lattice(self.log_p[b : b + 1], self.successor)

    def after(self, b, words):
        """(node, log-probabilities [V]) of sentence b after these words."""
        node = 0
        for word in words:
            node = self.successor[node, word]
        return node, self.log_p[b, node]


def random(seed, B=4, V=5, N=23, sharp=2.0, forbidden=0.0, grid=0.0):
    """Random distributions with some forbidden words; values on a grid give ties."""
    rng = np.random.default_rng(seed)
    logits = sharp * rng.standard_normal((B, N, V))
    logits[rng.random((B, N, V)) < forbidden] = -np.inf
    logits[..., 2] = np.where(np.isinf(logits).all(-1), 0.0, logits[..., 2])
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    if grid:
        log_p = np.minimum(np.round(log_p / grid) * grid, 0)
    return Lattice(log_p.astype(np.float32), rng.integers(0, N, (N, V)).astype(np.int32))


class Answer(NamedTuple):
    """A hypothesis of the oracles."""

    words: tuple
    log_p: tuple
    total: np.float32
    finished: bool


def ranked(answers, score, size):
    """The order of hypotheses: the best first, and the earlier one of two equals."""
    return sorted(answers, key=lambda a: -score(a.total, len(a.words)))[:size]


def beam(lattice, b, limit, size, score):
    """Beam search over one sentence up to the limit, without early stopping."""
    live, finished = [Answer((), (), np.float32(0), False)], []
    for _ in range(limit):
        extended = []
        for answer in live:
            for word, log_p in enumerate(lattice.after(b, answer.words)[1]):
                if log_p > -np.inf:
                    words, values = (*answer.words, word), (*answer.log_p, log_p)
                    extended.append(Answer(words, values, answer.total + log_p, word == EOS))
        extended.sort(key=lambda a: -a.total)
        finished = ranked(finished + [a for a in extended[:size] if a.finished], score, size)
        live = [a for a in extended if not a.finished][:size]
    return finished or (live if limit else [])


def groundhog(lattice, b, limit, size, minimum):
    """Beam search of the paper's own program: the beam shrinks by each finished hypothesis."""
    live, finished, places = [Answer((), (), np.float32(0), False)], [], size
    for k in range(limit):
        if places == 0:
            break
        extended = []
        for answer in live:
            for word, log_p in enumerate(lattice.after(b, answer.words)[1]):
                if log_p > -np.inf and not (k < minimum and word == EOS):
                    words, values = (*answer.words, word), (*answer.log_p, log_p)
                    extended.append(Answer(words, values, answer.total + log_p, word == EOS))
        extended.sort(key=lambda a: -a.total)
        live = []
        for answer in extended[:places]:
            (finished if answer.finished else live).append(answer)
            places -= answer.finished
    return ranked(finished or live, lambda total, length: total, size)


def everything(lattice, b, limit, size, score):
    """The best finished sequences up to the limit or, without any, the best unfinished ones."""
    answers = sequences(lattice, b, limit)
    some = [a for a in answers if a.finished] or answers
    return ranked(some, score, size)


def sequences(lattice, b, limit):
    """All sequences up to the limit; unfinished ones have exactly this length."""
    V = lattice.log_p.shape[2]
    answers = []
    for length in range(1, limit + 1):
        for words in itertools.product(range(1, V), repeat=length - 1):
            for last in range(V):
                if last != EOS and length < limit:
                    continue
                every = (*words, last)
                values = [lattice.after(b, every[:t])[1][w] for t, w in enumerate(every)]
                total = np.float32(0)
                for value in values:
                    total = np.float32(total + value)
                if total > -np.inf:
                    answers.append(Answer(every, tuple(values), total, last == EOS))
    return answers
