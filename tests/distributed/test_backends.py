"""An update on 8 devices equals that on one: gradients, steps, all-reduces and memory."""

import dataclasses
import functools
import os
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
from tests.model.worlds import each
from tests.training import toy

FEW = ["jit"]  # the back ends that `make test` asks
EVERY = [*FEW, "pmap", "vocabulary", "optimizer", "jit, 2 parts", "one device, 4 parts"]


@functools.cache
def measured(*ways: str) -> dict:
    return small.measured(Path(__file__).with_name("eight.py"), *ways)


def found(way: str) -> dict:
    """The measurements of eight.py."""
    return measured(*FEW) if way in FEW else measured()


def ways(*names: str):
    """Parametrise by back end, by default by every one."""
    return pytest.mark.parametrize("way", each(*FEW, of=names or EVERY))


def test_an_update_has_no_trees_of_windows():
    """XLA's own sums of long rows are such trees on a CPU, where YNNPACK does not compute them."""
    if jax.default_backend() != "cpu":
        pytest.skip("the option is one for a CPU")

    def step(state, batch):
        return state + batch.sum(1), batch.sum()

    state, batch = np.zeros(640, np.float32), np.ones((640, 8000), np.float32)
    if "=-reduce" in os.environ["XLA_FLAGS"]:  # it turns the sums of YNNPACK off
        assert "reduce-window(" in jax.jit(step).lower(state, batch).compile().as_text()
    backend = distributed.Jit(distributed.mesh(jax.local_devices()[:1]))
    assert "reduce-window(" not in backend.compile(step).lower(state, batch).compile().as_text()


@ways()
def test_raw_gradients_equal_those_of_one_device(way):
    """‖Δ‖ / ‖g‖ of the worst leaf; with dropout and filler rows."""
    eight = found(way)
    assert eight["devices"] == 8
    assert eight["float32"]["smallest gradient"] > 0
    assert eight["float32"][way]["gradient"] <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("way", ["jit, 2 parts", "pmap"])
def test_raw_gradients_equal_those_of_one_device_in_float64(way):
    """The loss is divided by the number of words."""
    eight = measured()["float64"]
    assert eight["smallest gradient"] > 0
    assert eight[way]["gradient"] <= 1e-12


@ways()
def test_twenty_steps_of_the_papers_recipe_agree(way):
    assert found(way)["float32"][way]["params"] <= 1e-5


@ways()
def test_counts_agree(way):
    """A mean of means would differ, because only the last devices have filler rows."""
    eight = found(way)["float32"]
    ours, theirs = eight[way]["counts"], eight["one"]
    assert theirs["words"] > 50 and theirs["positions"] == 16 * 18
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=1e-5), name


@ways("jit", "pmap", "jit, 2 parts")
def test_an_update_sends_one_message(way):
    """The all-reduce has all gradients, the model's five sums and two counts, and no parameter."""
    eight = found(way)
    (name, (size,)), *others = eight["float32"][way]["messages"].items()
    gradients, sums = sum(eight["leaves"]), 5 + 2
    assert (name, others) == ("all-reduce", [])
    assert gradients < size <= gradients + sums


@pytest.mark.slow
def test_only_what_is_split_travels_besides():
    """Gathered are the sharded parameters, and those whose accumulators are sharded."""
    eight = found("vocabulary")
    split = eight["float32"]["vocabulary"]
    assert set(split["messages"]) <= {"all-reduce", "all-gather", "reduce-scatter"}
    assert sum(split["messages"]["all-gather"]) <= 2 * sum(eight["leaves"])
    assert re.fullmatch(
        r"8 devices, each with [\d.]+ MB of parameters and optimiser state; "
        r"[\d.]+ MB saved by training.shard",
        split["memory"],
    )


@pytest.mark.slow
def test_what_is_split_are_the_accumulators_and_the_matrices_of_the_vocabulary():
    split = {way: found(way)["float32"][way]["split"] for way in ("jit", "optimizer", "vocabulary")}
    assert split["jit"] == {"params": 0, "accumulators": 0}
    assert split["optimizer"]["params"] == 0 and split["vocabulary"]["params"] == 3
    assert split["optimizer"]["accumulators"] == split["vocabulary"]["accumulators"] > 20


@ways()
def test_a_state_is_donated_and_compiled_for_once(way):
    eight = found(way)["float32"][way]
    assert eight["donated"]
    assert eight["compiled later"] == 0


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("jit", marks=pytest.mark.exhaustive),
        pytest.param("pmap", marks=pytest.mark.exhaustive),
        pytest.param("vocabulary", marks=pytest.mark.slow),
    ],
)
def test_tied_embeddings_train_alike_on_eight_devices(way):
    """The gradient of the output matrix is a part of the embedding's, and travels once."""
    eight = measured("tied", way)
    found = eight["float32"][way]
    assert eight["float32"]["smallest gradient"] > 0
    assert found["gradient"] <= 1e-5 and found["params"] <= 1e-5
    assert found["donated"] and found["compiled later"] == 0
    assert eight["leaves"].count(103 * 12) == 1
    if way != "vocabulary":
        (size,) = found["messages"]["all-reduce"]
        assert sum(eight["leaves"]) < size <= sum(eight["leaves"]) + 5 + 2


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
