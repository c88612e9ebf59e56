import itertools

import pytest

from bahdanau_jax.data.sources.integer_tasks import SPLITS, TASKS, generate, is_prime

PRIMES_TO_100 = (
    {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43}
    | {47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97}
)  # fmt: skip

ANSWERS = {
    "reverse": lambda source: source[::-1],
    "copy": lambda source: source,
    "primes": lambda source: tuple(word for word in source if int(word) in PRIMES_TO_100),
}


def some(name, split="train", count=500, seed=0, **bounds):
    return list(itertools.islice(generate(TASKS[name]._replace(**bounds), split, seed), count))


def test_is_prime():
    assert {n for n in range(101) if is_prime(n)} == PRIMES_TO_100


@pytest.mark.parametrize("name", TASKS)
def test_targets_and_links(name):
    for pair in some(name):
        assert pair.target == ANSWERS[name](pair.source)
        assert pair.sure == pair.possible
        assert sorted(i for _, i in pair.sure) == list(range(len(pair.target)))
        assert all(pair.source[j] == pair.target[i] for j, i in pair.sure)
        assert len({j for j, _ in pair.sure}) == len(pair.sure)


def test_reverse_links_cross_and_copy_links_do_not():
    assert (0, 2) in some("reverse", min=3, max=3)[0].sure
    assert (0, 0) in some("copy", min=3, max=3)[0].sure


@pytest.mark.parametrize("name", TASKS)
def test_lengths_and_integers_fill_their_bounds(name):
    task = TASKS[name]
    pairs = some(name, count=4_000)
    assert {len(pair.source) for pair in pairs} == set(range(task.min, task.max + 1))
    words = {int(word) for pair in pairs for word in pair.source}
    assert words == set(range(1, task.limit + 1))


def test_primes_are_as_in_the_seed():
    """Uniform length 1 to 30 and integers 1 to 100: one list in ten has no prime."""
    task = TASKS["primes"]
    assert (task.min, task.max, task.limit) == (1, 30, 100)
    empty = sum(not pair.target for pair in some("primes", count=5_000)) / 5_000
    expected = sum(0.75**n for n in range(1, 31)) / 30
    assert abs(empty - expected) < 0.02


def test_splits_share_no_source():
    seen = {split: {pair.source for pair in some("copy", split, 3_000, max=3)} for split in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        assert not seen[one] & seen[other]


def test_same_seed_same_stream_other_seed_other_stream():
    assert some("primes", seed=3) == some("primes", seed=3)
    assert some("primes", seed=3) != some("primes", seed=4)


def test_the_stream_is_the_same_on_every_machine():
    first = some("reverse", "test", 1, min=3, max=5)[0]
    assert first.source == ("16", "18", "8", "16")


def test_options_bound_the_draws():
    for pair in some("reverse", min=2, max=4, limit=5):
        assert 2 <= len(pair.source) <= 4
        assert {int(word) for word in pair.source} <= set(range(1, 6))


@pytest.mark.parametrize(
    "bounds", [{"min": 0}, {"min": 5, "max": 4}, {"limit": 0}, {"limit": 10**22}, {"max": 10**12}]
)
def test_impossible_bounds(bounds):
    with pytest.raises(ValueError, match="min=.*max=.*limit="):
        generate(TASKS["copy"]._replace(**bounds), "train")


def test_a_split_without_any_source_is_an_error():
    def first(split):
        return some("copy", split, 1, min=1, max=1, limit=1)

    outcomes = []
    for split in SPLITS:
        try:
            outcomes.append(first(split))
        except ValueError as error:
            assert "widen the bounds" in str(error)
            outcomes.append(None)
    assert sum(outcome is not None for outcome in outcomes) == 1


def test_unknown_split():
    with pytest.raises(ValueError, match="'tset'; known: dev, test, train .*'test'"):
        generate(TASKS["copy"], "tset")
