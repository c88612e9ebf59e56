"""The compute dtype "auto": measured once, named in runs and sweeps, the same on resumption."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from bahdanau_jax import model, run
from bahdanau_jax.config import Config, ModelConfig
from bahdanau_jax.experiments import with_dtypes
from bahdanau_jax.model import compute_dtype
from tests import small
from tests.model.worlds import CONFIGS, batch, equations, on_device, pairs, parameters

AUTO = ModelConfig(compute_dtype="auto")


@pytest.fixture
def chosen(monkeypatch):
    """Sets the dtype that the measurement finds."""

    def choose(name):
        monkeypatch.setattr(compute_dtype, "fastest", lambda: name)

    return choose


@pytest.fixture
def unmeasured():
    """Forgets the measured dtype, also that of the test."""
    compute_dtype.fastest.cache_clear()
    yield
    compute_dtype.fastest.cache_clear()


@pytest.mark.parametrize(
    "seconds, name",
    [((1.0, 0.5), "bfloat16"), ((1.0, 2.0), "float32"), ((1.0, 0.9), "float32")],
)
def test_bfloat16_is_taken_where_it_is_clearly_faster(seconds, name, monkeypatch, unmeasured):
    times = dict(zip(compute_dtype.COMPUTE_DTYPES, seconds, strict=True))
    monkeypatch.setattr(compute_dtype, "_seconds", lambda: times)
    assert compute_dtype.named(AUTO).compute_dtype == name


@pytest.mark.parametrize("name", compute_dtype.COMPUTE_DTYPES)
def test_the_factors_of_a_measured_product_are_rounded(name):
    product = compute_dtype._product(compute_dtype.COMPUTE_DTYPES[name])
    a, b = np.ones((3, 5), np.float32), np.ones((5, 7), np.float32)
    (made,) = (
        each
        for each in equations(jax.make_jaxpr(product)(a, b).jaxpr)
        if each.primitive.name == "dot_general"
    )
    assert [str(factor.aval.dtype) for factor in made.invars] == [name, name]
    assert str(made.outvars[0].aval.dtype) == "float32"


def test_a_product_is_timed_to_its_end(monkeypatch):
    now = 7.0

    class Result:
        def block_until_ready(self):
            nonlocal now
            now += 2.0

    monkeypatch.setattr("time.perf_counter", lambda: now)
    assert compute_dtype._timed(lambda *factors: Result()) == 2.0


def test_a_product_that_another_program_slowed_down_does_not_count(monkeypatch):
    """One undisturbed round is enough, wherever it is."""
    times = iter([9.0, 0.5, 1.0, 9.0] + [9.0] * 2 * compute_dtype.REPEATS)
    monkeypatch.setattr(compute_dtype, "_timed", lambda product, *factors: next(times))
    assert compute_dtype._seconds() == {"float32": 1.0, "bfloat16": 0.5}


def test_a_busy_machine_is_measured_longer(monkeypatch):
    """Other programs slow all of the first rounds, so that both dtypes seem to be equal."""
    times = iter([3.0, 3.0] * 2 * compute_dtype.REPEATS + [1.0, 0.5] * compute_dtype.MOST_REPEATS)
    monkeypatch.setattr(compute_dtype, "_timed", lambda product, *factors: next(times))
    assert compute_dtype._seconds() == {"float32": 1.0, "bfloat16": 0.5}


@pytest.mark.parametrize(
    "backend, rows", [("cpu", 1024), ("gpu", 16384)]
)  # a GPU starts a small product in more time than it takes
def test_an_accelerator_is_measured_by_a_large_product(backend, rows, monkeypatch):
    sizes = []

    def timed(product, a, b):
        sizes.append(a.shape[0])
        return 1.0 + len(sizes) % 2

    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(compute_dtype, "_product", lambda dtype: lambda a, b: a)
    monkeypatch.setattr(compute_dtype, "_timed", timed)
    compute_dtype._seconds()
    assert {*sizes} == {rows}


def test_the_measurement_names_a_dtype_also_while_a_program_is_traced(unmeasured):
    found = []
    jax.jit(lambda x: found.append(compute_dtype.fastest()) or x)(1.0)
    assert found[0] in model.COMPUTE_DTYPES
    assert compute_dtype.named(ModelConfig()) == ModelConfig()


@pytest.mark.parametrize("name", model.COMPUTE_DTYPES)
def test_functions_of_auto_are_those_of_the_chosen_dtype(name, chosen):
    chosen(name)
    config, params = CONFIGS["default"], on_device(parameters(CONFIGS["default"]))
    b = on_device(batch(pairs(seed=5, count=3)))
    ours, theirs = (
        model.teacher_forced(dataclasses.replace(config, compute_dtype=each), params, b)
        for each in ("auto", name)
    )
    np.testing.assert_array_equal(ours.log_p, theirs.log_p)
    other = dataclasses.replace(config, compute_dtype=({*model.COMPUTE_DTYPES} - {name}).pop())
    assert np.any(model.teacher_forced(other, params, b).log_p != theirs.log_p)


def with_auto(config: Config, **training) -> Config:
    return dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, compute_dtype="auto"),
        training=dataclasses.replace(config.training, **training),
    )


@pytest.mark.slow
def test_a_run_keeps_the_dtype_that_it_began_with(chosen, tmp_path):
    chosen("bfloat16")
    run.train(with_auto(small.config, steps=1), tmp_path)
    assert Config.load(tmp_path / "config.json").model.compute_dtype == "bfloat16"
    chosen("float32")
    resumed = run.train(with_auto(small.config, steps=2), tmp_path)
    assert resumed.config.model.compute_dtype == "bfloat16"
    run.prepare(with_auto(small.config, steps=3), tmp_path)
    named = {
        name: dataclasses.replace(
            small.config, model=dataclasses.replace(small.config.model, compute_dtype=name)
        )
        for name in model.COMPUTE_DTYPES
    }
    run.prepare(named["bfloat16"], tmp_path)
    with pytest.raises(ValueError, match="compute_dtype is 'bfloat16', not 'float32'"):
        run.prepare(named["float32"], tmp_path)


def test_a_sweep_keeps_the_dtypes_of_its_cells(chosen, tmp_path):
    cells = {"a": with_auto(small.config), "b": small.config}
    chosen("bfloat16")
    found = with_dtypes(cells, tmp_path)
    assert [each.model.compute_dtype for each in found.values()] == ["bfloat16", "float32"]
    text = json.dumps({"cells": {"a": json.loads(found["a"].to_json())}})
    (tmp_path / "sweep.json").write_text(text)
    chosen("float32")
    assert with_dtypes(cells, tmp_path) == found
    (tmp_path / "sweep.json").write_text("{")
    assert with_dtypes(cells, tmp_path)["a"].model.compute_dtype == "float32"
