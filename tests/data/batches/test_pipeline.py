import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.batch import EOS, Batch, pad
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.batches.pipeline import dev_batches, lay_out, train_batches
from bahdanau_jax.data.batches.plan import Plan, Planned
from bahdanau_jax.data.store.store import Pairs

any_lengths = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=80
).map(np.array)
configs = st.builds(
    DataConfig,
    plan=st.sampled_from(["pools", "buckets"]),
    batch_size=st.integers(1, 13),
    pool_batches=st.integers(1, 5),
    shapes=st.integers(1, 9),
)
numbers = st.integers(0, 1_000)
quick = settings(max_examples=100, deadline=None)


def corpus(lengths):
    """Pairs of these lengths whose ids are all different."""
    count = itertools.count(2)
    return Pairs.of(
        tuple([*itertools.islice(count, int(length) - 1), EOS] for length in pair)
        for pair in lengths
    )


def random_lengths(pairs, longest=50, seed=0):
    return np.random.default_rng(seed).integers(1, longest, (pairs, 2))


def real_rows(batch):
    """The pairs of a batch, without padding."""
    for s, s_mask, t, t_mask, weight in zip(*batch, strict=True):
        if weight:
            yield tuple(s[s_mask].tolist()), tuple(t[t_mask].tolist())
        else:
            assert not s_mask.any() and not t_mask.any() and not s.any() and not t.any()


def test_no_pairs():
    none = Pairs.of([])
    assert dev_batches(none, DataConfig()) == []
    with pytest.raises(ValueError, match="no pair to train on"):
        train_batches(none, Plan(none.lengths, DataConfig(), 0))


def test_a_batch_is_what_pad_makes():
    pairs = corpus(random_lengths(20, 9))
    rows = np.array([3, 17, 5])
    batch = lay_out(pairs, Planned(rows, (11, 12), height=5))
    source, source_mask = pad([pairs.source(i) for i in rows] + [[], []], 11)
    target, target_mask = pad([pairs.target(i) for i in rows] + [[], []], 12)
    for got, expected in zip(
        batch, (source, source_mask, target, target_mask, [1, 1, 1, 0, 0]), strict=True
    ):
        np.testing.assert_array_equal(got, expected)
    assert [array.dtype for array in batch] == [np.int32, bool, np.int32, bool, np.float32]


def same(one, other):
    return all(
        a.shape == b.shape and (a == b).all() and a.dtype == b.dtype
        for a, b in zip(one, other, strict=True)
    )


def batches_of(pairs, config, seed, count, start=0, **share):
    plan = Plan(pairs.lengths, config, seed)
    return list(itertools.islice(train_batches(pairs, plan, start, **share), count))


@given(lengths=any_lengths, config=configs, seed=numbers, start=st.integers(0, 40))
@settings(max_examples=25, deadline=None)
def test_a_resumed_run_sees_what_it_would_have_seen(lengths, config, seed, start):
    pairs = corpus(lengths)
    whole = batches_of(pairs, config, seed, start + 6)
    tail = batches_of(pairs, config, seed, 6, start)
    assert all(same(one, other) for one, other in zip(whole[start:], tail, strict=True))


@given(
    lengths=any_lengths, config=configs, seed=numbers, start=st.integers(0, 40), count=st.just(4)
)
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_processes_together_deliver_the_batch(lengths, config, seed, start, count, processes):
    """This holds for resumed runs too, and for rows that do not divide evenly."""
    pairs = corpus(lengths)
    whole = batches_of(pairs, config, seed, count, start)
    shares = [
        batches_of(pairs, config, seed, count, start, process=i, processes=processes)
        for i in range(processes)
    ]
    for batch, *parts in zip(whole, *shares, strict=True):
        together = Batch(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        assert same(together, batch)
        heights = [len(part.weight) for part in parts]
        assert max(heights) - min(heights) <= 1


def test_several_plans_give_batches_of_the_largest_shape():
    pairs, config = corpus(random_lengths(60)), DataConfig(batch_size=7, shapes=6)
    plans = [Plan(pairs.lengths, config, seed) for seed in (1, 2, 3)]
    together = itertools.islice(train_batches(pairs, plans, multiple=4), 9)
    alone = zip(*(batches_of(pairs, config, seed, 9) for seed in (1, 2, 3)), strict=True)
    for batch, parts in zip(together, alone, strict=True):
        for side in ("source", "target"):
            widest = max(getattr(part, side).shape[1] for part in parts)
            assert getattr(batch, side).shape == (3, 8, widest)
        for i, part in enumerate(parts):
            member = Batch(*(array[i] for array in batch))
            assert [*real_rows(member)] == [*real_rows(part)]


@given(lengths=any_lengths, config=configs, seed=numbers)
@settings(max_examples=25, deadline=None)
def test_two_epochs_have_every_pair_twice(lengths, config, seed):
    pairs = corpus(lengths)
    everything = sorted(
        (tuple(pairs.source(i).tolist()), tuple(pairs.target(i).tolist()))
        for i in range(len(pairs))
    )
    steps = Plan(pairs.lengths, config, seed).steps()
    batches = batches_of(pairs, config, seed, 2 * steps)
    for epoch in (batches[:steps], batches[steps:]):
        assert sorted(row for batch in epoch for row in real_rows(batch)) == everything


@given(lengths=any_lengths, config=configs)
@quick
def test_dev_batches_have_every_pair_once_in_few_shapes(lengths, config):
    pairs = corpus(lengths)
    batches = dev_batches(pairs, config)
    rows = sorted(row for batch in batches for row in real_rows(batch))
    assert rows == sorted(
        (tuple(pairs.source(i).tolist()), tuple(pairs.target(i).tolist()))
        for i in range(len(pairs))
    )
    assert len({(b.source.shape, b.target.shape) for b in batches}) <= min(3, config.shapes)


def test_batches_come_fast():
    """Far faster than any model learns from them; `python -m benchmarks data` measures how fast."""
    pairs, config = corpus(random_lengths(20_000)), DataConfig()
    batches = train_batches(pairs, Plan(pairs.lengths, config, 1))
    next(batches)
    start, words = time.process_time(), 0
    for batch in itertools.islice(batches, 500):
        words += int(batch.target_mask.sum())
    assert words / (time.process_time() - start) > 250_000
