from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.batches.plan import ROW_MULTIPLE, Corpora, Plan, draw, limited

any_lengths = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=80
).map(np.array)
configs = st.builds(
    DataConfig,
    plan=st.just("pools"),
    batch_size=st.integers(1, 13),
    pool_batches=st.integers(1, 5),
    shapes=st.integers(1, 9),
) | st.builds(
    DataConfig,
    plan=st.just("buckets"),
    batch_size=st.integers(1, 13),
    batch_words=st.just(0) | st.integers(1, 600),
    shapes=st.integers(1, 9),
)
numbers = st.integers(0, 1_000)
quick = settings(max_examples=100, deadline=None)


def random_lengths(pairs, longest=50, seed=0):
    return np.random.default_rng(seed).integers(1, longest, (pairs, 2))


def rows_of(batches):
    return np.concatenate([batch.rows for batch in batches])


@given(lengths=any_lengths, config=configs, seed=numbers, epoch=numbers)
@quick
def test_an_epoch_has_every_pair_once_in_cells_that_hold_it(lengths, config, seed, epoch):
    plan = Plan(lengths, config, seed)
    assert 1 <= len(plan.shapes) <= config.shapes
    assert plan.shapes[-1] == tuple(lengths.max(0))
    batches = plan.epoch(epoch)
    assert len(batches) == plan.steps(epoch) == plan.steps(0)
    assert sorted(rows_of(batches)) == list(range(len(lengths)))
    assert sum(len(batch.rows) < batch.height for batch in batches) <= 1
    heights = dict(zip(plan.shapes, plan.heights, strict=True))
    for batch in batches:
        assert 0 < len(batch.rows) <= batch.height == heights[batch.shape]
        assert (lengths[batch.rows] <= batch.shape).all()


@given(lengths=any_lengths, config=configs, seed=numbers, step=st.integers(0, 200))
@quick
def test_a_step_is_a_place_in_its_epoch(lengths, config, seed, step):
    plan, other = (Plan(lengths, config, seed) for _ in range(2))
    epoch, place = divmod(step, plan.steps())
    expected, found = plan.epoch(epoch)[place], other.at(step)
    assert found.shape == expected.shape and found.height == expected.height
    assert (found.rows == expected.rows).all()


def test_epochs_and_seeds_differ():
    lengths = random_lengths(300)
    for name in ("pools", "buckets"):
        orders = [
            tuple(rows_of(Plan(lengths, DataConfig(batch_size=10, plan=name), seed).epoch(epoch)))
            for seed, epoch in ((1, 0), (1, 1), (2, 0), (0, 1))
        ]
        assert len(set(orders)) == 4


@pytest.mark.parametrize(
    "name, rows",
    [
        ("pools", [[5, 2], [6, 1], [0, 3], [4], [5], [0, 1], [4, 2], [6, 3]]),
        ("buckets", [[3, 0], [6, 1], [5, 2], [4], [5], [1, 0], [6, 3], [2, 4]]),
    ],
)
def test_runs_of_before_go_on_with_the_same_batches(name, rows):
    """These batches of two epochs are recorded."""
    lengths = np.array([[2, 3], [4, 4], [9, 7], [3, 2], [5, 6], [8, 9], [2, 2]])
    plan = Plan(lengths, DataConfig(plan=name, batch_size=2, pool_batches=2, shapes=2), 3)
    assert [plan.at(step).rows.tolist() for step in range(8)] == rows


def test_pools_are_sorted_and_batches_shuffled():
    """Within a pool, no batch overlaps another in its longer sides; the order is not by length."""
    lengths = random_lengths(400)
    plan = Plan(lengths, DataConfig(batch_size=10, pool_batches=40), 0)
    longer = [lengths[batch.rows].max(1) for batch in plan.epoch(0)]
    in_order = sorted(longer, key=lambda batch: (batch.min(), batch.max()))
    assert (np.diff(np.concatenate([np.sort(batch) for batch in in_order])) >= 0).all()
    firsts = [batch.min() for batch in longer]
    assert firsts != sorted(firsts)


def test_one_pool_mixes_less_than_the_corpus():
    """Batches of a small pool spread wider than batches cut from everything sorted."""
    lengths = random_lengths(1_000)

    def spread(pool_batches):
        plan = Plan(lengths, DataConfig(batch_size=10, pool_batches=pool_batches), 0)
        return np.mean([np.ptp(lengths[batch.rows].max(1)) for batch in plan.epoch(0)])

    assert spread(100) < spread(10) < spread(1)


def test_buckets_put_each_pair_into_its_cheapest_cell():
    """The exceptions are pairs that did not fill a batch of their shape."""
    lengths = random_lengths(5_000)
    plan = Plan(lengths, DataConfig(plan="buckets", batch_size=10, shapes=6), 1)
    dearer = 0
    for batch in plan.epoch(0):
        for row in batch.rows:
            fitting = [sum(shape) for shape in plan.shapes if (lengths[row] <= shape).all()]
            dearer += sum(batch.shape) > min(fitting)
    assert 0 < dearer <= 9 * (len(plan.shapes) - 1)


@pytest.mark.slow
def test_buckets_pad_less_than_pools_and_more_shapes_less_than_few():
    lengths = random_lengths(20_000)

    def padding(plan, shapes):
        return Plan(lengths, DataConfig(plan=plan, shapes=shapes), 1).padding()

    assert padding("buckets", 12) < padding("pools", 12) < padding("pools", 2)
    assert padding("buckets", 24) < padding("buckets", 12)


def test_padding_is_what_the_batches_have():
    lengths = random_lengths(333)
    plan = Plan(lengths, DataConfig(batch_size=10), 1)
    filled = lengths.sum()
    positions = sum(10 * (shape[0] + shape[1]) for _, shape, _ in plan.epoch(0))
    assert plan.padding() == pytest.approx(1 - filled / positions, abs=1e-12)


@given(lengths=any_lengths, words=st.integers(1, 600))
@quick
def test_batches_measured_in_words(lengths, words):
    config = DataConfig(plan="buckets", batch_words=words, shapes=5)
    plan = Plan(lengths, config, 1)
    for shape, height in zip(plan.shapes, plan.heights, strict=True):
        assert height * max(shape) <= words or height == 1
        assert height < ROW_MULTIPLE or height % ROW_MULTIPLE == 0
        more = height + (1 if height < ROW_MULTIPLE - 1 else ROW_MULTIPLE - height % ROW_MULTIPLE)
        assert more * max(shape) > words


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    seed=numbers,
    weights=st.lists(st.sampled_from([0.1, 0.5, 1.0, 1.7, 2.0, 3.3]), min_size=4, max_size=4),
)
@quick
def test_weights_of_corpora(sizes, seed, weights):
    """An epoch has w passes over a corpus; over many epochs all its pairs occur equally often."""
    corpora = Corpora(tuple(sizes), tuple(weights[: len(sizes)]))
    first, total = 0, Counter()
    epochs = [draw(corpora, seed, epoch) for epoch in range(20)]
    for rows in epochs:
        total.update(rows.tolist())
    for size, weight in zip(sizes, weights, strict=False):
        mine = range(first, first + size)
        drawn = 0
        for epoch, rows in enumerate(epochs, 1):
            counts = Counter(rows.tolist())
            drawn += sum(counts[row] for row in mine)
            assert drawn == round(epoch * (weight * size))
            assert max(counts[row] for row in mine) - min(counts[row] for row in mine) <= 2
        assert max(total[row] for row in mine) - min(total[row] for row in mine) <= 1
        first += size
    assert sum(total.values()) == sum(len(rows) for rows in epochs)


def test_a_corpus_with_less_than_a_pair_in_an_epoch_has_its_turns():
    """Four pairs in ten epochs; the other corpus is drawn whole in each."""
    epochs = [draw(Corpora((3, 100), (1.0, 0.004)), 1, epoch) for epoch in range(250)]
    assert all(rows[:3].tolist() == [0, 1, 2] for rows in epochs)
    assert sorted(row for rows in epochs for row in rows[3:]) == list(range(3, 103))
    assert max(map(len, epochs)) == 4


def test_a_share_of_whole_pairs_is_the_same_in_each_epoch():
    """These draws are recorded, since runs of before go on with the same batches."""
    corpora = Corpora((10, 4), (0.3, 1.5))
    assert [draw(corpora, 1, epoch).tolist() for epoch in range(4)] == [
        [2, 8, 9, 10, 11, 11, 12, 12, 13],
        [1, 3, 7, 10, 10, 11, 12, 13, 13],
        [0, 4, 5, 10, 11, 11, 12, 12, 13],
        [2, 4, 6, 10, 10, 11, 12, 13, 13],
    ]


def test_whole_corpora_are_drawn_in_order():
    assert draw(Corpora((3, 2), (1.0, 2.0)), 5, 7).tolist() == [0, 1, 2, 3, 3, 4, 4]


def test_the_epochs_take_turns_in_the_encodings():
    corpora = Corpora((2,), (1.0,), encodings=3)
    assert [draw(corpora, 1, epoch).tolist() for epoch in range(4)] == [
        [0, 3],
        [1, 4],
        [2, 5],
        [0, 3],
    ]


@given(config=configs, seed=numbers, step=st.integers(0, 120))
@quick
def test_steps_where_epochs_differ_in_length(config, seed, step):
    """With encodings of different lengths, each step has its batch in every epoch."""
    lengths = random_lengths(40, 30, seed)
    corpora = Corpora((12, 8), (1.0, 0.6), encodings=2)
    plan = Plan(lengths, config, seed, corpora)
    everything = [batch for epoch in range(step + 1) for batch in plan.epoch(epoch)]
    found = Plan(lengths, config, seed, corpora).at(step)
    assert (found.rows == everything[step].rows).all() and found.shape == everything[step].shape


def test_no_pairs():
    plan = Plan(np.zeros((0, 2), int), DataConfig(), 0)
    assert plan.shapes == () and plan.epoch(0) == [] and plan.steps() == 0


@given(
    words=st.lists(st.integers(1, 9), min_size=1, max_size=50).map(np.array),
    dropped=st.integers(0, 300),
    limit=st.integers(1, 600),
)
@quick
def test_a_sample_of_so_many_words(words, dropped, limit):
    """Words of pairs that are dropped count: the kept pairs have their share of the limit."""
    read = words.sum() + dropped
    sample = limited(words, limit, read)
    assert (np.diff(sample) > 0).all()
    assert words[sample].sum() * read <= limit * words.sum()
    assert (limited(words, limit, read) == sample).all()
    if limit >= read:
        assert len(sample) == len(words)
    else:
        next_pair = (words[sample].sum() + 9) * read > limit * words.sum()
        assert next_pair or len(sample) == 0


def test_a_sample_is_drawn_from_all_of_the_corpus():
    sample = limited(np.ones(10_000, int), 1_000, 10_000)
    assert len(sample) == 1_000
    assert abs(sample.mean() - 5_000) < 400


def test_corpora_of_which_a_sample_is_trained_on():
    corpora = Corpora((4, 3), (1.0, 2.0), sample=np.array([1, 3, 5]))
    assert draw(corpora, 1, 0).tolist() == [1, 3, 5, 5]
    assert draw(corpora._replace(encodings=2), 1, 3).tolist() == [3, 7, 11, 11]


@pytest.mark.parametrize(
    "corpora",
    [Corpora((100, 900), (1.0, 0.01)), Corpora((100, 900), (1.0, 1.0), sample=np.arange(100))],
)
def test_shapes_are_those_of_the_pairs_that_are_drawn(corpora):
    short, long = random_lengths(100, 11), random_lengths(900, 11) + 30
    plan = Plan(np.concatenate([short, long]), DataConfig(plan="buckets", shapes=3), 1, corpora)
    assert max(map(max, plan.shapes[:-1])) <= 10  # the last one holds every pair
    assert min(plan.shapes[-1]) >= 39


def test_an_epoch_without_pairs_is_refused():
    with pytest.raises(ValueError, match="an epoch has no pair: .* weights 0.1 leave none"):
        Plan(random_lengths(1), DataConfig(), 1, Corpora((1,), (0.1,)))
    few = Corpora((9, 9), (0.1, 0.1), sample=np.array([1, 2, 3, 9]))
    limited = "of corpora of 3, 1 pairs in the sample of data.limit_words, weights .* raise one of"
    with pytest.raises(ValueError, match=limited):
        Plan(random_lengths(18), DataConfig(), 1, few)
