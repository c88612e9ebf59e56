"""Coverage, minimum lengths, prefixes and early stopping, against exhaustive search."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.batch import EOS, UNK
from bahdanau_jax.decoding import NORMALIZATIONS, Rules, search
from bahdanau_jax.decoding.constraints import FREE, constrain
from bahdanau_jax.decoding.ranking import UNSEEN, Normalization, Ranking, coverage
from bahdanau_jax.model import before_eos
from tests.decoding import lattice as oracle

B, V, S, LIMIT, EVERY = 3, 4, 3, 4, 4 * 27  # a beam of EVERY holds all sequences
WORDS = np.array([[True, True, False], [True, False, False], [True, True, True]])
PENALTIES = {
    "none": lambda n: 1.0,
    "average": lambda n: n,
    "wu": lambda n: ((5 + n) / 6) ** 0.6,
    "falling": lambda n: 1 / n,
}
# Not in the table of normalisations: one that favours short hypotheses, for the bound's other end.
FALLING = Normalization(lambda length, alpha: 1 / length)


def normalization(name):
    return NORMALIZATIONS.get(name, FALLING)


@functools.partial(jax.jit, static_argnums=(3, 4, 5, 6))
def _program(lattice, alpha, rules, beam_size, n_best, ranking, shrink):
    step, start = lattice.looking(alpha)
    return search.beam(
        step,
        start,
        rules,
        LIMIT,
        beam_size,
        n_best=n_best,
        ranking=ranking,
        shrink=shrink,
        words=jnp.asarray(WORDS),
    )


def _find(lattice, alpha, rules, beam_size, n_best, ranking, shrink=False):
    return jax.device_get(_program(lattice, alpha, rules, beam_size, n_best, ranking, shrink))


def world(seed):
    rng = np.random.default_rng(seed)
    alpha = rng.dirichlet([0.4] * S, (B, 23)).astype(np.float32)
    limits = np.array([4, 3, 4], np.int32)
    minimum = rng.integers(0, 3, B).astype(np.int32)
    prefix = np.full((B, 2), FREE, np.int32)
    prefix[1, 0] = rng.integers(1, V)
    prefix[2, :2] = UNK, rng.integers(1, V)
    return oracle.random(seed, B=B, V=V), alpha, Rules(limits, minimum, prefix)


def lawful(answer, rules, b):
    begun = [word for word in rules.prefix[b] if word != FREE]
    ends_early = answer.finished and len(answer.words) <= max(rules.minimum[b], 0)
    return not ends_early and list(answer.words[: len(begun)]) == begun


def score(lattice, alpha, b, answer, name, beta):
    """Wu et al.'s equation 14, word by word."""
    seen = np.zeros(S)
    for t in range(len(answer.words)):
        seen += alpha[b, lattice.after(b, answer.words[:t])[0]]
    penalty = sum(math.log(min(seen[j], 1)) for j in range(S) if WORDS[b, j])
    return answer.total / PENALTIES[name](len(answer.words)) + beta * penalty


CASES = [
    ("none", 0.0, 1),
    ("average", 0.0, 2),
    ("wu", 0.7, 1),
    ("falling", 0.3, 2),
    ("average", 2.0, 5),
    ("none", 0.7, EVERY),
]


@pytest.mark.parametrize(("name", "beta", "n_best"), CASES)
def test_brute_force_agrees_under_every_rule_and_wherever_search_stops(name, beta, n_best):
    ranking = Ranking(normalization(name), beta)
    for seed in range(12):
        lattice, alpha, rules = world(seed)
        found = _find(lattice, jnp.asarray(alpha), rules, EVERY, n_best, ranking)
        for b in range(B):
            possible = oracle.sequences(lattice, b, rules.limits[b])
            possible = [a for a in possible if lawful(a, rules, b)]
            possible = [a for a in possible if a.finished] or possible
            scored = sorted(
                ((score(lattice, alpha, b, a, name, beta), a.words) for a in possible), reverse=True
            )[:n_best]
            assert int((found.length[b] > 0).sum()) == len(scored)
            for k, (value, words) in enumerate(scored):
                assert tuple(found.tokens[b, k, : found.length[b, k]].tolist()) == words
                assert math.isclose(found.score[b, k], value, abs_tol=1e-5)


@pytest.mark.parametrize(
    ("name", "beta"),
    [
        ("wu", 0.5),
        pytest.param("average", 0.0, marks=pytest.mark.slow),
        pytest.param("falling", 0.2, marks=pytest.mark.slow),
    ],
)
def test_a_shorter_list_is_the_head_of_a_longer_one(name, beta):
    """The search for a shorter list stops earlier, and finds the same, also in narrow beams."""
    ranking = Ranking(normalization(name), beta)
    for seed in range(25):
        lattice, alpha, rules = world(seed)
        some, every = (_find(lattice, jnp.asarray(alpha), rules, 5, n, ranking) for n in (2, 5))
        np.testing.assert_array_equal(some.tokens, every.tokens[:, :2])
        np.testing.assert_array_equal(some.score, every.score[:, :2])
        np.testing.assert_array_equal(some.aux, every.aux[:, :2])


def test_a_shrinking_beam_is_that_of_the_papers_program():
    for seed in range(25):
        lattice, alpha, rules = world(seed)
        rules = rules._replace(prefix=None)
        found = _find(lattice, jnp.asarray(alpha), rules, 3, 3, Ranking(), True)
        for b in range(B):
            expected = oracle.groundhog(lattice, b, rules.limits[b], 3, rules.minimum[b])
            assert int((found.length[b] > 0).sum()) == len(expected)
            for k, answer in enumerate(expected):
                words = found.tokens[b, k, : found.length[b, k]].tolist()
                assert tuple(words) == answer.words
                assert math.isclose(found.score[b, k], answer.total, abs_tol=1e-5)


def test_coverage_by_hand():
    seen = jnp.array([[1.5, 0.5, 0.25], [0.0, 0.2, 1.0]])
    words = jnp.array([[True, True, False], [True, False, True]])
    expected = [math.log(0.5), math.log(UNSEEN)]
    np.testing.assert_allclose(coverage(seen, words), expected, rtol=1e-6)


def test_neither_padding_nor_the_end_of_the_source_is_to_be_covered():
    mask = jnp.array([[True, True, True], [True, True, False], [True, False, False]])
    expected = [[True, True, False], [True, False, False], [False, False, False]]
    np.testing.assert_array_equal(before_eos(mask), expected)


def test_a_coverage_penalty_needs_to_know_the_words():
    lattice, alpha, rules = world(0)
    step, start = lattice.looking(jnp.asarray(alpha))
    with pytest.raises(ValueError, match="the mask of the source's words"):
        search.beam(step, start, rules, LIMIT, 2, ranking=Ranking(coverage=0.1))


def test_what_a_prefix_asks_for_is_never_banned():
    log_p = jnp.log(jnp.array([[[0.1, 0.2, 0.3, 0.4]]] * 3))
    prefix = jnp.array([[UNK], [EOS], [FREE]])
    rules = Rules(jnp.array([9, 9, 9]), jnp.array([1, 1, 1]), prefix, jnp.full(3, True))
    found = np.exp(constrain(rules, jnp.int32(0), log_p))[:, 0]
    np.testing.assert_allclose(found, [[0, 0.2, 0, 0], [0.1, 0, 0, 0], [0, 0, 0.3, 0.4]], rtol=1e-5)
    later = np.exp(constrain(rules, jnp.int32(1), log_p))[:, 0]
    np.testing.assert_allclose(later, [[0.1, 0, 0.3, 0.4]] * 3, rtol=1e-5)


def test_the_first_of_one_stops_before_the_worst_of_many():
    steps = {}
    lattice = oracle.random(2, B=1)

    def step(tokens, state):
        jax.debug.callback(lambda: calls.append(1))
        return lattice.step(tokens, state)

    for n_best in (1, 6):
        calls = []
        jax.block_until_ready(
            jax.jit(
                lambda n=n_best: search.beam(
                    step, lattice.start(), Rules(jnp.array([40])), 40, 6, n_best=n
                )
            )()
        )
        jax.effects_barrier()
        steps[n_best] = len(calls)
    assert steps[1] < steps[6] < 40
