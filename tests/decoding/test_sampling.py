"""Samples have the right distribution, and do not depend on other sentences."""

import collections
import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.decoding import NORMALIZATIONS, Ranking, Rules, search
from bahdanau_jax.decoding.sampling import likeliest, sample
from tests.decoding import lattice as oracle

LIMITS = np.array([5, 0, 7, 2], np.int32)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _sample(lattice, keys, limits, samples, options=()):
    step, start = lattice.step, lattice.start()
    return sample(step, start, Rules(limits), 7, samples, keys, **dict(options))


@jax.jit
def _greedy(lattice, limits):
    return search.beam(lattice.step, lattice.start(), Rules(limits), 7, 1)


def draw(lattice, keys, limits, samples, **options):
    found = _sample(lattice, keys, limits, samples, tuple(options.items()))
    return jax.tree.map(np.asarray, found)


def test_samples_are_what_the_lattice_says():
    lattice = oracle.random(5)
    found = draw(lattice, jax.random.split(jax.random.key(1), 4), LIMITS, 6)
    for b, limit in enumerate(LIMITS):
        for k in range(6):
            n = found.length[b, k]
            words = found.tokens[b, k, :n].tolist()
            values = [lattice.after(b, words[:t])[1][w] for t, w in enumerate(words)]
            np.testing.assert_allclose(found.log_probabilities[b, k, :n], values, rtol=1e-6)
            nodes = [lattice.after(b, words[:t])[0] for t in range(n)]
            assert found.aux["node"][b, k, :n].tolist() == nodes
            assert found.finished[b, k] == (oracle.EOS in words)
            assert oracle.EOS not in words[:-1] and (found.finished[b, k] or n == limit)
            expected = sum(values) if n else -np.inf
            assert found.score[b, k] == pytest.approx(expected, rel=1e-5)
            for leaf in (found.tokens, found.log_probabilities, found.aux["node"]):
                assert not leaf[b, k, n:].any()
    assert len({tuple(row) for row in found.tokens[2].tolist()}) > 1


def test_scores_of_samples_are_normalised_and_covered():
    lattice, rng = oracle.random(5), np.random.default_rng(2)
    nodes = lattice.log_p.shape[1]
    alpha = rng.dirichlet(np.ones(4), (4, nodes)).astype(np.float32)
    words = np.array([[True] * 3 + [False]] * 4)
    normalization = dataclasses.replace(NORMALIZATIONS["wu"], alpha=1.3)
    step, start = lattice.looking(jnp.asarray(alpha))
    draw = jax.jit(
        lambda keys: sample(
            step, start, Rules(LIMITS), 7, 6, keys, ranking=Ranking(normalization, 0.4), words=words
        )
    )
    found = jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(1), 4)))
    for b, k in itertools.product(range(4), range(6)):
        n = found.length[b, k]
        if not n:
            continue
        attended = found.aux[b, k, :n, :3].sum(0)
        expected = found.log_probabilities[b, k].sum() / ((5 + n) / 6) ** 1.3
        expected += 0.4 * np.log(np.clip(attended, 1e-6, 1)).sum()
        assert found.score[b, k] == pytest.approx(expected, rel=1e-5)
    assert found.length.max() > 2


def test_a_sample_depends_on_its_key_and_number_alone():
    lattice, keys = oracle.random(6), jax.random.split(jax.random.key(2), 4)
    together = draw(lattice, keys, LIMITS, 6)
    alone = draw(lattice.row(2), keys[2:3], LIMITS[2:3], 6)
    np.testing.assert_array_equal(together.tokens[2:3], alone.tokens)
    fewer = draw(lattice.row(2), keys[2:3], LIMITS[2:3], 2)
    np.testing.assert_array_equal(together.tokens[2:3, :2], fewer.tokens)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}, {"top_p": 0.7}])
def test_frequencies_are_the_probabilities(options):
    """The shares of all sequences of at most two words are right within five standard errors."""
    lattice, count = oracle.random(7, B=1, V=4, sharp=1.0), 20_000
    found = draw(lattice, jax.random.split(jax.random.key(3), 1), np.array([2]), count, **options)
    seen = collections.Counter(
        tuple(found.tokens[0, k, : found.length[0, k]].tolist()) for k in range(count)
    )
    assert len(seen) > 3

    def changed(p):
        p = p ** (1 / options.get("temperature", 1.0))
        p /= p.sum()
        order = np.argsort(-p)
        kept = np.cumsum(p[order]) - p[order] < options.get("top_p", 1.0)
        q = np.zeros_like(p)
        q[order[kept]] = p[order[kept]]
        return q / q.sum()

    total = 0
    for answer in oracle.sequences(lattice, 0, 2):
        p = math.prod(
            changed(np.exp(lattice.after(0, answer.words[:t])[1].astype(float)))[word]
            for t, word in enumerate(answer.words)
        )
        total += p
        assert abs(seen[answer.words] / count - p) <= 5 * math.sqrt(p * (1 - p) / count) + 1e-12
    assert math.isclose(total, 1, abs_tol=1e-6)


@pytest.mark.parametrize("options", [{"top_k": 1}, {"temperature": 1e-4}, {"top_p": 1e-6}])
def test_samples_of_the_likeliest_word_alone_are_greedy(options):
    lattice = oracle.random(8)
    found = draw(lattice, jax.random.split(jax.random.key(4), 4), LIMITS, 2, **options)
    greedy = _greedy(lattice, LIMITS)
    for k in range(2):
        np.testing.assert_array_equal(found.tokens[:, k], greedy.tokens[:, 0])
        np.testing.assert_allclose(found.score[:, k], greedy.score[:, 0], rtol=1e-5)


def test_the_likeliest_words():
    p = jnp.array([[[0.1, 0.4, 0.2, 0.3]]])
    kept = lambda *by: (np.asarray(likeliest(jnp.log(p), *by)) > -np.inf).tolist()[0][0]  # noqa: E731
    assert kept(0, 1.0) == [True, True, True, True]
    assert kept(2, 1.0) == [False, True, False, True]
    assert kept(9, 1.0) == [True, True, True, True]
    assert kept(0, 0.65) == [False, True, False, True]
    assert kept(0, 0.75) == [False, True, True, True]
    assert kept(2, 0.5) == [False, True, False, False]  # of what is left, .4 is 4/7


def test_bans_and_prefixes_hold_for_samples_too():
    lattice = oracle.random(9)
    keys, count = jax.random.split(jax.random.key(5), 4), 5
    prefix = np.array([[3, 2]] * 4, np.int32)
    limits = np.array([7] * 4, np.int32)
    step, start = lattice.step, lattice.start()
    rules = Rules(limits, np.array([4] * 4), prefix, np.full(4, True))
    draw = jax.jit(lambda: sample(step, start, rules, 7, count, keys))
    found = jax.tree.map(np.asarray, draw())
    assert (found.tokens[:, :, :2] == np.array([3, 2])).all()
    assert (found.tokens[:, :, :4] != oracle.EOS).all()
    assert not (found.tokens == oracle.UNK).any()
