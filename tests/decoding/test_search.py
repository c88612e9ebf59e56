"""Search against brute force, a plain beam over single sentences, and lattices solved by hand."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.decoding import NORMALIZATIONS, Rules, search
from bahdanau_jax.decoding.ranking import Ranking
from bahdanau_jax.distribution import WINDOW
from tests.decoding import lattice as oracle
from tests.decoding.lattice import Lattice

A, B_ = 2, 3  # two ordinary words
SCORES = {
    "none": lambda total, length: total,
    "average": lambda total, length: total / np.float32(length),
    "wu": lambda total, length: total / ((5 + length) / 6) ** 0.6,
}


@pytest.fixture(autouse=True)
def _no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _beam(lattice, rules, max_length, beam_size, options):
    start = lattice.start()
    return search.beam(
        lattice.step, start, rules, max_length, beam_size, narrow=lattice.of, **dict(options)
    )


@functools.partial(jax.jit, static_argnums=2)
def _greedy(lattice, limits, max_length):
    return search.beam(lattice.step, lattice.start(), Rules(limits), max_length, 1)


def run(lattice, limits, max_length, beam_size, name="none", prefix=None, **options):
    limits, prefix = (None if a is None else np.asarray(a, np.int32) for a in (limits, prefix))
    rules = Rules(limits, prefix=prefix, ban_unk=options.pop("ban_unk", None))
    options = {"ranking": Ranking(NORMALIZATIONS[name]), **options}
    found = _beam(lattice, rules, max_length, beam_size, tuple(options.items()))
    return jax.tree.map(np.asarray, found)


def agrees(found, lattice, b, expected, score):
    """Row b of `found` is this n-best list: words, scores, order, flags, aux, and all padding."""
    size, T = found.tokens.shape[1:]
    for k, answer in enumerate(expected):
        n = len(answer.words)
        assert tuple(found.tokens[b, k, :n]) == answer.words
        assert found.length[b, k] == n
        assert found.finished[b, k] == answer.finished
        np.testing.assert_array_equal(found.log_probabilities[b, k, :n], answer.log_p)
        np.testing.assert_allclose(found.score[b, k], score(answer.total, n), rtol=1e-6)
        history = [-7] * oracle.TRAIL + [oracle.START, *answer.words]
        for t in range(n):
            trail = history[t + 1 : t + 1 + oracle.TRAIL]
            assert list(found.aux["trail"][b, k, t]) == trail
            assert found.aux["node"][b, k, t] == lattice.after(b, answer.words[:t])[0]
    outside = np.arange(T) >= found.length[b][:, None]
    for leaf in (found.tokens, found.log_probabilities, *found.aux.values()):
        assert not leaf[b][outside].any()
    fillers = slice(len(expected), size)
    assert (found.score[b, fillers] == -np.inf).all()
    assert not found.length[b, fillers].any() and not found.finished[b, fillers].any()


@pytest.mark.parametrize(
    ("V", "limit", "beam_size", "name"),
    [(3, 5, 48, "wu"), (4, 4, 108, "none"), (4, 4, 108, "average"), (5, 3, 80, "none")],
)
def test_a_beam_that_holds_everything_finds_what_brute_force_finds(V, limit, beam_size, name):
    lattice = oracle.random(V, B=2, V=V)
    found = run(lattice, [limit, limit - 1], limit, beam_size, name)
    for b, steps in enumerate([limit, limit - 1]):
        expected = oracle.everything(lattice, b, steps, beam_size, SCORES[name])
        assert len(expected) == sum((V - 1) ** n for n in range(steps))
        agrees(found, lattice, b, expected, SCORES[name])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    case=st.sampled_from(
        [
            (5, 1, "none"),
            (5, 4, "none"),
            (131, 5, "average"),
            (5, 4, "wu"),
        ]
    ),
    sharp=st.sampled_from([0.5, 2.0, 5.0]),
    forbidden=st.sampled_from([0.0, 0.3, 0.9]),
    limits=st.lists(st.integers(0, 7), min_size=4, max_size=4),
    widths=st.sampled_from([(), (2, 1)]),
)
def test_equals_a_plain_beam_that_never_stops_early(seed, case, sharp, forbidden, limits, widths):
    """The plain beam has no separate loops for some of the sentences either."""
    V, beam_size, name = case
    lattice = oracle.random(seed, V=V, sharp=sharp, forbidden=forbidden)
    found = run(lattice, limits, 7, beam_size, name, widths=widths)
    for b, limit in enumerate(limits):
        expected = oracle.beam(lattice, b, limit, beam_size, SCORES[name])
        agrees(found, lattice, b, expected, SCORES[name])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([(5, 1), (5, 2), (5, 4), (131, 5)]))
def test_ties_go_to_the_earlier_hypothesis_then_to_the_lower_word(seed, size):
    V, beam_size = size
    lattice = oracle.random(seed, V=V, grid=1.0)
    found = run(lattice, [7] * 4, 7, beam_size)
    for b in range(4):
        expected = oracle.beam(lattice, b, 7, beam_size, SCORES["none"])
        agrees(found, lattice, b, expected, SCORES["none"])


def by_hand(nodes, successor):
    """A lattice of one sentence and four nodes, from the probabilities of the named ones."""
    nodes = nodes + [[1, 0, 0, 0]] * (4 - len(nodes))
    successor = successor + [[3] * 4] * (4 - len(successor))
    with np.errstate(divide="ignore"):
        log_p = np.log(np.asarray(nodes, np.float32))[None]
    return Lattice(log_p, np.asarray(successor, np.int32))


# Words EOS, UNK, a, b. The likeliest first word is a, but what follows it is unsure:
#   a a EOS = .6 · .4 = .24     a EOS = .6 · .3 = .18     a b EOS = .6 · .3 = .18
#   b EOS = .4 · .9 = .36       b a EOS = .4 · .1 = .04
GARDEN_PATH = by_hand([[0, 0, 0.6, 0.4], [0.3, 0, 0.4, 0.3], [0.9, 0, 0.1, 0]], [[3, 3, 1, 2]])


def test_greedy_takes_the_garden_path():
    found = _greedy(GARDEN_PATH, jnp.array([6]), 6)
    assert found.tokens[0, 0].tolist() == [A, A, 0, 0, 0, 0]
    assert (found.length[0, 0], bool(found.finished[0, 0])) == (3, True)
    assert found.score[0, 0] == pytest.approx(math.log(0.24))
    np.testing.assert_allclose(
        np.exp(found.log_probabilities[0, 0]), [0.6, 0.4, 1, 1, 1, 1], rtol=1e-6
    )


def test_a_beam_of_two_does_not():
    found = run(GARDEN_PATH, [6], 6, 2)
    assert found.tokens[0].tolist() == [[B_, 0, 0, 0, 0, 0], [A, A, 0, 0, 0, 0]]
    np.testing.assert_allclose(np.exp(found.score[0]), [0.36, 0.24], rtol=1e-6)


def test_an_end_outside_the_beam_is_no_hypothesis():
    # EOS .4 is the second word of the first step; a beam of one goes the way of a (.6 · .5 = .3).
    lattice = by_hand([[0.4, 0, 0.6, 0], [0.5, 0, 0.5, 0]], [[1] * 4, [1] * 4])
    assert run(lattice, [1], 6, 1).tokens[0, 0, :2].tolist() == [A, 0]
    assert np.exp(run(lattice, [6], 6, 1).score[0, 0]) == pytest.approx(0.3)
    assert np.exp(run(lattice, [6], 6, 2).score[0, 0]) == pytest.approx(0.4)


def greedily(lattice, b, limit):
    words, values = [], []
    while len(words) < limit and words[-1:] != [oracle.EOS]:
        log_p = lattice.after(b, words)[1]
        words.append(int(log_p.argmax()))
        values.append(log_p[words[-1]])
    return words, values


@pytest.mark.parametrize("seed", range(20))
def test_greedy_is_the_argmax_of_every_step(seed):
    lattice, limits = oracle.random(seed), np.array([3, 9, 6, 11], np.int32)
    found = _greedy(lattice, limits, 11)
    for b, limit in enumerate(limits):
        words, values = greedily(lattice, b, limit)
        assert found.tokens[b, 0, : len(words)].tolist() == words
        assert found.length[b, 0] == len(words)
        assert found.score[b, 0] == pytest.approx(sum(values), rel=1e-5)
        assert found.finished[b, 0] == (words[-1] == oracle.EOS)


def test_each_sentence_alone_is_as_in_the_batch():
    lattice, limits = oracle.random(3, B=5, sharp=1.0), [2, 11, 7, 0, 5]
    together = run(lattice, limits, 11, 3, "average")
    for b in range(5):
        alone = run(lattice.row(b), limits[b : b + 1], 11, 3, "average")
        jax.tree.map(
            lambda x, y, b=b: np.testing.assert_array_equal(x[b : b + 1], y), together, alone
        )


def test_buffers_longer_than_the_limits_change_nothing():
    lattice, limits = oracle.random(4, sharp=0.5), [2, 7, 7, 5]
    short, long = (run(lattice, limits, T, 2) for T in (7, 13))
    np.testing.assert_array_equal(short.score, long.score)
    np.testing.assert_array_equal(short.tokens, long.tokens[:, :, :7])
    np.testing.assert_array_equal(short.aux["trail"], long.aux["trail"][:, :, :7])
    assert not long.tokens[:, :, 7:].any() and not long.aux["trail"][:, :, 7:].any()


def test_what_does_not_end_comes_back_unfinished():
    lattice = by_hand([[0, 0, 0.7, 0.3]], [[0] * 4])
    found = run(lattice, [3], 6, 2)
    assert found.tokens[0].tolist() == [[A, A, A, 0, 0, 0], [A, A, B_, 0, 0, 0]]
    assert found.length[0].tolist() == [3, 3] and not found.finished.any()
    np.testing.assert_allclose(np.exp(found.score[0]), [0.343, 0.147], rtol=1e-6)


def test_where_something_finished_nothing_unfinished_comes_back():
    lattice = by_hand([[0.1, 0, 0.9, 0]], [[0] * 4])
    found = run(lattice, [2], 2, 3)
    assert found.tokens[0].tolist() == [[0, 0], [A, 0], [0, 0]]
    assert found.finished[0].tolist() == [True, True, False]
    np.testing.assert_allclose(np.exp(found.score[0]), [0.1, 0.09, 0], rtol=1e-6)


def test_a_sentence_without_a_way_gets_fillers():
    with np.errstate(divide="ignore"):
        lattice = Lattice(np.log(np.zeros((1, 4, 4), np.float32)), np.zeros((4, 4), np.int32))
    found = run(lattice, [5], 6, 2)
    assert (found.score == -np.inf).all() and not found.length.any() and not found.finished.any()


def counted(lattice, limits, max_length, beam_size, name="none", n_best=None):
    """The result of a search, and its number of steps."""
    calls = []

    def step(tokens, state):
        jax.debug.callback(lambda: calls.append(1))
        return lattice.step(tokens, state)

    @jax.jit
    def find(limits):
        return search.beam(
            step,
            lattice.start(),
            Rules(limits),
            max_length,
            beam_size,
            n_best=n_best,
            ranking=Ranking(NORMALIZATIONS[name]),
        )

    found = jax.block_until_ready(find(jnp.array(limits)))
    jax.effects_barrier()
    return found, len(calls)


def test_search_stops_when_no_live_hypothesis_can_win():
    lattice = by_hand([[0.6, 0, 0.4, 0]], [[0] * 4])
    # Finished totals are .6, .24, .096; what lives after n steps has .4^n.
    assert counted(lattice, [50], 50, 1)[1] == 1  # .4 <= .6
    assert counted(lattice, [50], 50, 2)[1] == 2  # .16 <= .24
    # By average: the worst of two is log(.24) / 2; what lives could end after 50 words, with
    # n log(.4) / 50 or less: no better from n > 25 log(.24) / log(.4) = 38.9 on. But by then longer
    # ones, (log .6 + (n - 1) log .4) / n, are worse than the first two and change nothing.
    assert counted(lattice, [50], 50, 2, "average")[1] == 39


@pytest.mark.parametrize("n_best", [0, 3])
def test_a_list_has_from_one_hypothesis_to_the_beam_size(n_best):
    lattice = by_hand([[0.6, 0, 0.4, 0]], [[0] * 4])
    with pytest.raises(ValueError, match=f"n_best is {n_best}, but should be between 1 and 2"):
        counted(lattice, [50], 50, 2, n_best=n_best)


def test_buffers_have_room_for_a_word():
    lattice = by_hand([[0.6, 0, 0.4, 0]], [[0] * 4])
    with pytest.raises(ValueError, match="max_length is 0, but should be at least 1"):
        counted(lattice, [0], 0, 2)


# A word a with probability .1 is followed by 23 sure words and EOS; EOS at once has .9.
A_LONG_WAY = by_hand(
    [[0.9, 0, 0.1, 0]] + [[0, 0, 1, 0]] * 23 + [[1, 0, 0, 0]],
    [[n + 1] * 4 for n in range(24)] + [[0] * 4],
)


def test_a_long_way_up_is_waited_for():
    # EOS = .9: average -.105. a, 23 sure words and EOS = .1: average log(.1) / 25 = -.092, though
    # log(.1) / 2 after the first step is far below.
    found = run(A_LONG_WAY, [30], 30, 2, "average")
    assert found.length[0, 0] == 25
    assert found.score[0, 0] == pytest.approx(math.log(0.1) / 25)


@pytest.mark.parametrize("name", ["none", "average", "wu"])
def test_a_beam_of_one_ends_with_its_first_eos_whatever_the_ranking(name):
    found, steps = counted(A_LONG_WAY, [30], 30, 1, name)
    assert (steps, found.length[0, 0]) == (1, 1) and found.finished[0, 0]
    assert found.score[0, 0] == pytest.approx(math.log(0.9))


def test_the_batch_stops_when_all_its_sentences_have():
    log_p = np.log(np.array([[[0.6, 0.1, 0.3]], [[0.01, 0.01, 0.98]]], np.float32))
    lattice = Lattice(log_p, np.zeros((1, 3), np.int32))
    found, steps = counted(lattice, [90, 4], 90, 1)
    assert steps == 4
    assert found.length[:, 0].tolist() == [1, 4]


def test_normalisations_divide_by_their_penalty():
    total, length = jnp.float32([-6, -6, -6]), jnp.array([1, 7, 13])
    none, average, wu = (NORMALIZATIONS[n](total, length) for n in ("none", "average", "wu"))
    np.testing.assert_array_equal(none, [-6, -6, -6])
    np.testing.assert_allclose(average, [-6, -6 / 7, -6 / 13], rtol=1e-6)
    np.testing.assert_allclose(wu, [-6, -6 / 2**0.6, -6 / 3**0.6], rtol=1e-6)
    linear = dataclasses.replace(NORMALIZATIONS["wu"], alpha=1.0)
    np.testing.assert_allclose(linear(total, length), [-6, -3, -2], rtol=1e-6)


def test_normalisation_changes_the_winner():
    # EOS = .3: average log .3; a b EOS = .5 · .5 · 1: average log(.25) / 3.
    lattice = by_hand(
        [[0.3, 0, 0.5, 0.2], [0, 0, 0, 0.5], [1, 0, 0, 0]], [[0, 0, 1, 2], [2] * 4, [2] * 4]
    )
    plain, average = (run(lattice, [6], 6, 2, name) for name in ("none", "average"))
    assert (plain.length[0, 0], average.length[0, 0]) == (1, 3)
    assert average.score[0, 0] == pytest.approx(math.log(0.25) / 3)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_ban_on_unk_is_a_model_without_unk(beam_size):
    lattice, limits = oracle.random(8), [7, 7, 7, 7]
    log_p = lattice.log_p.copy()
    log_p[..., oracle.UNK] = -np.inf
    banned = run(lattice, limits, 7, beam_size, ban_unk=np.full(4, True))
    without = Lattice(log_p, lattice.successor)
    assert (run(lattice, limits, 7, beam_size).tokens == oracle.UNK).any()
    for b in range(4):
        expected = oracle.beam(without, b, 7, beam_size, SCORES["none"])
        agrees(banned, without, b, expected, SCORES["none"])


@pytest.mark.parametrize("beam_size", [1, 2])
def test_the_words_of_a_prefix_are_found_in_every_window(beam_size):
    """They are unlikely, and only a few windows of the vocabulary are looked into."""
    lattice = oracle.random(10, V=11 * WINDOW + 5)
    prefix = np.random.default_rng(1).integers(WINDOW, 11 * WINDOW, (4, 2))
    found = run(lattice, [7] * 4, 7, beam_size, prefix=prefix)
    np.testing.assert_array_equal(found.tokens[:, 0, :2], prefix)
    assert np.isfinite(found.score[:, 0]).all()


def test_the_loop_carries_no_histories():
    B, K, T, V, S = 2, 7, 97, 211, 5
    state = jnp.zeros((B, 1, 3))

    def step(tokens, state):
        return jnp.zeros((*tokens.shape, V)), state, jnp.zeros((*tokens.shape, S))

    program = jax.make_jaxpr(lambda s: search.beam(step, s, Rules(jnp.full(B, T)), T, K))(state)
    (loop,) = [e for e in program.eqns if e.primitive.name == "while"]
    shapes = [v.aval.shape for v in loop.outvars]
    assert {(T, B, K), (T, B, K, S), (B, K, 3)} <= set(shapes)
    for shape in shapes:
        assert shape.count(T) <= 1 and V not in shape
        assert math.prod(shape) <= T * B * K * S


def test_sixty_four_bit_mode_changes_nothing():
    lattice, limits = oracle.random(9), np.array([5, 6, 7, 7], np.int32)
    plain = run(lattice, limits, 7, 2)
    with jax.enable_x64(True):
        wide = run(lattice, limits, 7, 2)
    assert [x.dtype for x in jax.tree.leaves(wide)] == [x.dtype for x in jax.tree.leaves(plain)]
    jax.tree.map(np.testing.assert_array_equal, plain, wide)


def test_aux_may_be_empty():
    @jax.jit
    def find(limits):
        def step(tokens, state):
            return *GARDEN_PATH.step(tokens, state)[:2], ()

        return search.beam(step, GARDEN_PATH.start(), Rules(limits), 6, 2)

    found = find(jnp.array([6]))
    assert found.aux == ()
    np.testing.assert_array_equal(found.tokens, run(GARDEN_PATH, [6], 6, 2).tokens)
