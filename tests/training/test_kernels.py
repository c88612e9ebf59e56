"""Which attention kernel a run has: configured, kept, measured, or XLA's where others fail."""

import dataclasses
import re
import shutil

import jax
import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax import run
from bahdanau_jax.config import Config, ModelConfig
from bahdanau_jax.training import kernels
from bahdanau_jax.variants import check
from tests import small

TINY = ModelConfig(hidden_size=5, alignment_size=7)


@pytest.fixture
def elsewhere(monkeypatch):
    """An accelerator, as far as the choice asks; and what it would say of each kernel."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def says(seconds):
        def measure(config, *sizes):
            if isinstance(seconds, Exception):
                raise seconds
            return seconds

        monkeypatch.setattr(kernels, "measure", measure)

    return says


def choose(config, before=""):
    notes = []
    return kernels.attention_kernel(config, before, lambda: (2, 3, 4), notes.append), notes


def refuse(*_):
    raise AssertionError("measured, though nothing was to be found out")


@pytest.mark.parametrize("name", ["xla", "pallas"])
def test_what_is_configured_is_not_measured(name, elsewhere, monkeypatch):
    monkeypatch.setattr(kernels, "measure", refuse)
    for before in ("", "auto", "xla", "pallas"):
        assert choose(dataclasses.replace(TINY, attention_kernel=name), before) == (name, [])


@pytest.mark.parametrize(
    ("before", "kept"), [("xla", "xla"), ("pallas", "pallas"), ("auto", "xla")]
)
def test_a_run_keeps_what_it_began_with(before, kept, elsewhere, monkeypatch):
    """`auto` is in the config.json of a run from before there was a choice."""
    monkeypatch.setattr(kernels, "measure", refuse)
    assert choose(TINY, before) == (kept, [])


def test_a_cpu_and_another_score_have_xla(monkeypatch):
    monkeypatch.setattr(kernels, "measure", refuse)
    assert choose(TINY, "pallas") == ("xla", [])
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert choose(dataclasses.replace(TINY, attention="general")) == ("xla", [])


@pytest.mark.parametrize(
    ("xla", "pallas", "expected"), [(2e-3, 1e-3, "pallas"), (1e-3, 2e-3, "xla")]
)
def test_the_faster_one_is_taken_and_named_with_its_times(xla, pallas, expected, elsewhere):
    elsewhere({"xla": xla, "pallas": pallas})
    found, (note,) = choose(TINY)
    assert found == expected
    times = f"xla {1e3 * xla:.1f} ms, pallas {1e3 * pallas:.1f} ms"
    assert note == f"model.attention_kernel is {expected}: {times}"


@pytest.mark.parametrize(
    "error", [ValueError("no such\nthing"), NotImplementedError(), ImportError("no triton")]
)
def test_what_does_not_compile_is_not_taken(error, elsewhere):
    elsewhere(error)
    found, (note,) = choose(TINY)
    assert found == "xla"
    reason = (str(error) or type(error).__name__).splitlines()[0]
    assert note == f"model.attention_kernel is xla: no comparison with pallas here: {reason}"


def test_both_kernels_are_measured_and_compared(monkeypatch):
    compared = []
    alike = kernels._alike
    monkeypatch.setattr(kernels, "_alike", lambda *two: compared.append(two) or alike(*two))
    seconds = kernels.measure(TINY, 2, 3, 4)
    assert seconds.keys() == {"xla", "pallas"} and min(seconds.values()) > 0
    ((ours, theirs),) = compared
    params, *memory = theirs
    assert all(np.linalg.norm(leaf) > 0 for leaf in (*memory, *params["decoder"].values()))
    assert np.linalg.norm(params["attention"]["v_a"]) > 0
    for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(b).max())


@pytest.mark.parametrize(
    ("ours", "alike"), [(1.0, True), (1.05, True), (1.2, False), (np.nan, False), (np.inf, False)]
)
def test_gradients_that_differ_or_are_not_finite_are_not_taken(ours, alike, monkeypatch):
    tree = {"a": np.ones((2, 3)), "b": np.ones(5)}
    assert kernels._alike({**tree, "b": ours * tree["b"]}, tree) == alike
    assert not kernels._alike(tree, {**tree, "b": np.full(5, np.nan)})


def test_a_kernel_for_another_score_is_refused():
    config = Config(model=ModelConfig(attention="dot", attention_kernel="pallas"))
    line = "attention_kernel pallas is for model.attention additive and additive_relu, not dot"
    with pytest.raises(ValueError, match=re.escape(line)):
        check(config)
    with pytest.raises(
        ValueError, match="no model.attention_kernel 'triton'; known: auto, pallas, xla"
    ):
        check(Config(model=ModelConfig(attention_kernel="triton")))


def test_a_run_writes_its_kernel_down_and_may_change_it(trained, tmp_path):
    def written():
        return bj.Config.load(tmp_path / "run" / "config.json").model.attention_kernel

    shutil.copytree(trained[0], tmp_path / "run")
    assert written() == "xla"
    for name in ("pallas", "auto"):
        model = dataclasses.replace(small.config.model, attention_kernel=name)
        run._begun(dataclasses.replace(small.config, model=model), tmp_path / "run")
        assert written() == {"pallas": "pallas", "auto": "xla"}[name]


def test_a_new_run_measures_at_its_largest_shape_and_says_so(tmp_path, monkeypatch, capsys):
    asked = []

    def measure(config, *sizes):
        asked.append((config.hidden_size, *sizes))
        return {"xla": 2.0, "pallas": 1.0}

    monkeypatch.setattr(kernels, "measure", measure)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    halves = dataclasses.replace(small.config.training, accumulate=2)
    config = dataclasses.replace(small.config, training=halves)
    for _ in range(2):  # the second time it is known
        begun, prepared = run._begun(config, tmp_path)
        assert begun.model.attention_kernel == "pallas"
        assert bj.Config.load(tmp_path / "config.json") == begun
    ((size, rows, source, target),) = asked
    assert (size, rows) == (config.model.hidden_size, config.data.batch_size // 2)
    assert (source, target) == tuple(prepared.train.lengths.max(0))
    assert capsys.readouterr().err.count("_kernel is pallas: xla 2000.0 ms, pallas 1000.0 ms") == 1
