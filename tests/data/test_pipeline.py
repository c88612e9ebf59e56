import dataclasses
import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.batch import EOS, pad
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.pipeline import (
    cut,
    dev_batches,
    lay_out,
    plan,
    shapes,
    steps_per_epoch,
    train_batches,
)
from bahdanau_jax.data.store import Pairs

any_lengths = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=80
).map(np.array)
configs = st.builds(
    DataConfig,
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
    """The pairs of a batch, by what the masks show."""
    for s, s_mask, t, t_mask, weight in zip(*batch, strict=True):
        if weight:
            yield tuple(s[s_mask].tolist()), tuple(t[t_mask].tolist())
        else:
            assert not s_mask.any() and not t_mask.any() and not s.any() and not t.any()


@given(lengths=any_lengths, config=configs, seed=numbers, epoch=numbers)
@quick
def test_an_epoch_has_every_pair_once_in_cells_that_hold_it(lengths, config, seed, epoch):
    cells = shapes(lengths, config)
    assert 1 <= len(cells) <= config.shapes
    assert len(set(cells)) == len(cells)
    assert cells[-1] == tuple(lengths.max(0))
    planned = plan(lengths, config, seed, epoch)
    assert len(planned) == steps_per_epoch(len(lengths), config)
    rows = np.concatenate([rows for rows, _ in planned])
    assert sorted(rows) == list(range(len(lengths)))
    assert sum(len(rows) < config.batch_size for rows, _ in planned) <= 1
    for rows, cell in planned:
        assert cell in cells
        assert (lengths[rows] <= cell).all()
        smaller = [c for c in cells if (lengths[rows] <= c).all()]
        assert sum(cell) == min(map(sum, smaller))


@given(lengths=any_lengths, config=configs, seed=numbers, epoch=numbers)
@quick
def test_a_plan_is_a_function_of_its_arguments(lengths, config, seed, epoch):
    one, other = (plan(lengths, config, seed, epoch) for _ in range(2))
    for (rows, cell), (rows_again, cell_again) in zip(one, other, strict=True):
        assert cell == cell_again and (rows == rows_again).all()


def test_epochs_and_seeds_differ():
    lengths, config = random_lengths(300), DataConfig(batch_size=10)
    orders = [
        tuple(np.concatenate([rows for rows, _ in plan(lengths, config, *where)]))
        for where in ((1, 0), (1, 1), (2, 0), (0, 1))
    ]
    assert len(set(orders)) == 4


def test_pools_are_sorted_and_batches_shuffled():
    """Within a pool, no batch overlaps another in its longer sides; the order is not by length."""
    lengths = random_lengths(400)
    config = DataConfig(batch_size=10, pool_batches=40)
    longer = [lengths[rows].max(1) for rows in cut(lengths, config, 0, 0)]
    in_order = sorted(longer, key=lambda batch: (batch.min(), batch.max()))
    assert (np.diff(np.concatenate([np.sort(batch) for batch in in_order])) >= 0).all()
    firsts = [batch.min() for batch in longer]
    assert firsts != sorted(firsts)


def test_one_pool_mixes_less_than_the_corpus():
    """Batches of a small pool spread wider than batches cut from everything sorted."""
    lengths = random_lengths(1_000)

    def spread(pool_batches):
        config = DataConfig(batch_size=10, pool_batches=pool_batches)
        return np.mean([np.ptp(lengths[rows].max(1)) for rows in cut(lengths, config, 0, 0)])

    assert spread(100) < spread(10) < spread(1)


@given(lengths=any_lengths, config=configs)
@quick
def test_shapes_are_the_best_runs(lengths, config):
    """Against all ways to cut the trial epoch's batches, by rising longer side, into runs."""
    batches = cut(lengths, config, 0, 0)
    groups = {}
    for rows in batches:
        extent = lengths[rows].max(0)
        groups.setdefault(extent.max(), []).append(extent)
    groups = [np.array(groups[side]) for side in sorted(groups)]
    if len(groups) > 9:  # keep the ways few
        config = dataclasses.replace(config, shapes=min(config.shapes, 3))

    def cost(borders):
        total = 0
        for start, end in itertools.pairwise((0, *borders, len(groups))):
            run = np.concatenate(groups[start:end])
            cell = lengths.max(0) if end == len(groups) else run.max(0)
            total += len(run) * cell.sum()
        return total

    runs = min(config.shapes, len(groups))
    best = min(map(cost, itertools.combinations(range(1, len(groups)), runs - 1)))
    extents = [lengths[rows].max(0) for rows in batches]
    cells = shapes(lengths, config)
    got = sum(min(sum(c) for c in cells if (extent <= c).all()) for extent in extents)
    assert got <= best


def test_more_shapes_pad_less():
    lengths = random_lengths(5_000)

    def positions(count):
        config = DataConfig(shapes=count)
        return sum(sum(cell) for _, cell in plan(lengths, config, 1, 0))

    assert positions(12) < positions(6) < positions(2) < positions(1)


def test_one_very_long_pair_costs_one_cell():
    lengths = np.vstack([random_lengths(2_000, 30), [[9_000, 4]]])
    planned = plan(lengths, DataConfig(), 1, 0)
    assert sum(cell[0] == 9_000 for _, cell in planned) == 1
    assert sum(cell[0] <= 30 for _, cell in planned) == len(planned) - 1


def test_no_pairs():
    none = np.zeros((0, 2), int)
    assert shapes(none, DataConfig()) == ()
    assert plan(none, DataConfig(), 0, 0) == []
    assert dev_batches(Pairs.of([]), DataConfig()) == []
    with pytest.raises(ValueError, match="no pair to train on"):
        train_batches(Pairs.of([]), DataConfig(), 0)


def test_a_batch_is_what_pad_makes():
    pairs = corpus(random_lengths(20, 9))
    rows = np.array([3, 17, 5])
    batch = lay_out(pairs, (rows, (11, 12)), batch_size=5)
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


@given(lengths=any_lengths, config=configs, seed=numbers, start=st.integers(0, 40))
@settings(max_examples=25, deadline=None)
def test_a_resumed_run_sees_what_it_would_have_seen(lengths, config, seed, start):
    pairs = corpus(lengths)
    whole = list(itertools.islice(train_batches(pairs, config, seed), start + 6))
    tail = list(itertools.islice(train_batches(pairs, config, seed, start), 6))
    assert all(same(one, other) for one, other in zip(whole[start:], tail, strict=True))
    assert {batch.weight.shape for batch in whole} == {(config.batch_size,)}
    cells = shapes(lengths, config)
    assert {(b.source.shape[1], b.target.shape[1]) for b in whole} <= set(cells)


@given(lengths=any_lengths, config=configs, seed=numbers)
@settings(max_examples=25, deadline=None)
def test_two_epochs_have_every_pair_twice(lengths, config, seed):
    pairs = corpus(lengths)
    everything = sorted(
        (tuple(pairs.source(i).tolist()), tuple(pairs.target(i).tolist()))
        for i in range(len(pairs))
    )
    steps = steps_per_epoch(len(pairs), config)
    batches = list(itertools.islice(train_batches(pairs, config, seed), 2 * steps))
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
    """Far faster than any model learns from them: 500,000 target words/s on one quiet core."""
    pairs, config = corpus(random_lengths(20_000)), DataConfig()
    batches = train_batches(pairs, config, 1)
    next(batches)
    start, words = time.process_time(), 0
    for batch in itertools.islice(batches, 500):
        words += int(batch.target_mask.sum())
    assert words / (time.process_time() - start) > 250_000
