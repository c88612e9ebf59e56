"""The same update on 8 devices as on one: gradients, steps, messages, and what a device holds."""

import dataclasses
import re
import types
from pathlib import Path

import jax
import numpy as np
import pytest

from bahdanau_jax import distributed
from bahdanau_jax.config import Config, TrainingConfig
from bahdanau_jax.distributed import backends
from bahdanau_jax.run import check
from bahdanau_jax.training.optimizer import make
from bahdanau_jax.training.step import train_step
from tests import small
from tests.training import toy

BACKENDS = ["jit", "pmap", "jit, 2 parts", "vocabulary"]
WAYS = [*BACKENDS, "one device, 4 parts"]


@pytest.fixture(scope="module")
def eight():
    """What eight.py measures."""
    return small.measured(Path(__file__).with_name("eight.py"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "way", "tolerance"),
    [
        *(("float32", way, 1e-5) for way in WAYS),
        ("float64", "jit, 2 parts", 1e-12),
        ("float64", "pmap", 1e-12),
    ],
)
def test_raw_gradients_equal_those_of_one_device(eight, dtype, way, tolerance):
    """‖Δ‖ / ‖g‖ of the worst leaf; with dropout, filler rows, and a mean a word in float64."""
    assert eight["devices"] == 8
    assert eight[dtype]["smallest gradient"] > 0
    assert eight[dtype][way]["gradient"] <= tolerance


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_twenty_steps_of_the_papers_recipe_agree(eight, way):
    assert eight["float32"][way]["params"] <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_counts_agree(eight, way):
    """A mean of means would not, with filler rows on the last devices alone."""
    ours, theirs = eight["float32"][way]["counts"], eight["float32"]["one"]
    assert theirs["words"] > 50 and theirs["positions"] == 16 * 18
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=1e-5), name


@pytest.mark.slow
@pytest.mark.parametrize("way", ["jit", "pmap", "jit, 2 parts"])
def test_an_update_sends_one_message(eight, way):
    """All gradients, the model's five sums and two counts, once; no parameter travels."""
    (name, (size,)), *others = eight["float32"][way]["messages"].items()
    gradients, sums = sum(eight["leaves"]), 5 + 2
    assert (name, others) == ("all-reduce", [])
    assert gradients < size <= gradients + sums


@pytest.mark.slow
def test_only_what_is_split_travels_besides(eight):
    """Parameters are collected: the split ones, and those whose accumulators are split."""
    found = eight["float32"]["vocabulary"]
    assert set(found["messages"]) <= {"all-reduce", "all-gather", "reduce-scatter"}
    assert sum(found["messages"]["all-gather"]) <= 2 * sum(eight["leaves"])
    assert re.fullmatch(
        r"8 devices, each with [\d.]+ MB of parameters and optimiser state; "
        r"[\d.]+ MB saved by training.shard",
        found["memory"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_state_is_donated_and_compiled_for_once(eight, way):
    assert eight["float32"][way]["donated"]
    assert eight["float32"][way]["compiled later"] == 0


def test_one_device_by_mesh_equals_none():
    backend = distributed.Jit(distributed.mesh())
    tx = make(toy.OPTIMIZER, 10)
    plain, step = toy.parts()
    spread = backend.place(toy.parts()[0])
    spread_step = train_step(toy.loss_fn, tx, toy.OPTIMIZER, backend)
    for i in range(2):
        plain, _ = step(plain, toy.batch(i))
        spread, _ = spread_step(spread, backend.feed(toy.batch(i)))
    assert spread_step._cache_size() == 1
    for ours, theirs in zip(*map(jax.tree.leaves, (plain.params, spread.params)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_pmap_is_for_the_devices_of_one_process():
    with pytest.raises(ValueError, match="pmap is for the devices of one process: set it to jit"):
        backends.Pmap(types.SimpleNamespace(is_multi_process=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parallel": "pmpa"}, "no training.parallel 'pmpa'; known: jit, pmap"),
        ({"shard": "all"}, "no training.shard 'all'; known: none, optimizer, vocabulary"),
        ({"accumulate": 0}, "training.accumulate is 0, but should be at least 1"),
        ({"parallel": "pmap", "shard": "optimizer"}, "pmap copies everything to every device"),
    ],
)
def test_settings_that_do_not_fit(settings, message):
    config = Config(training=dataclasses.replace(TrainingConfig(), **settings))
    with pytest.raises(ValueError, match=re.escape(message)):
        check(config)
