"""Comparisons of an accelerator with a CPU pass for equal results, and for no others."""

from types import SimpleNamespace

import numpy as np
import pytest

from bahdanau_jax.model.orders import ORDERS
from benchmarks import device_comparison
from benchmarks.device_comparison import GRADIENTS, relative

PAPER = GRADIENTS["paper"]


@pytest.fixture
def differing(monkeypatch):
    """Gives the accelerator's results another factor than the CPU's."""

    def replace(factor: float):
        def by(device, function, *arguments, precision="highest"):
            return {"loss": np.ones(3), "W": (factor if device == "gpu" else 1.0) * np.ones((2, 2))}

        monkeypatch.setattr(device_comparison, "accelerator", lambda: "gpu")
        monkeypatch.setattr(device_comparison, "cpu", lambda: "cpu")
        monkeypatch.setattr(device_comparison, "parameters", lambda config, scale: None)
        monkeypatch.setattr(device_comparison, "by", by)

    return replace


@pytest.mark.parametrize(
    ("factor", "passed"), [(1.0, True), (1 + PAPER / 2, True), (1 + 2 * PAPER, False)]
)
def test_a_gradient_may_differ_by_rounding_alone(differing, factor, passed):
    differing(factor)
    found = device_comparison.compare_gradients("paper")
    assert found["passed"] == passed and found["difference"] == pytest.approx(factor - 1)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_the_gradients_of_every_order_can_be_compared(order, monkeypatch):
    monkeypatch.setattr(device_comparison, "accelerator", device_comparison.cpu)
    assert device_comparison.compare_gradients(order)["difference"] == 0


def test_what_is_not_finite_never_passes(differing):
    differing(float("nan"))
    assert not device_comparison.compare_gradients("paper")["passed"]
    assert relative([np.array([np.nan])], [np.array([np.nan])]) == float("inf")


def test_rounded_gradients_are_compared_as_one_array(differing, monkeypatch):
    def by(device, function, *arguments, precision="highest"):
        grads = {"a": np.array([3.0]), "b": np.array([4.0])}
        return 1.0, {**grads, "b": grads["b"] + (device == "gpu" and precision == "default")}

    differing(1.0)
    monkeypatch.setattr(device_comparison, "by", by)
    found = device_comparison.compare_rounded()
    assert found["differences"] == {"tf32": 0.2, "bfloat16": 0.2, "tf32, autodiff": 0.2}
    assert not found["passed"]
    monkeypatch.setattr(device_comparison, "ROUNDED", dict.fromkeys(found["differences"], 0.3))
    assert device_comparison.compare_rounded()["passed"]


def test_rounded_gradients_are_those_of_initial_weights(differing, monkeypatch):
    scales = []
    differing(1.0)
    monkeypatch.setattr(device_comparison, "_whole", lambda found: np.ones(3))
    monkeypatch.setattr(device_comparison, "parameters", lambda config, scale: scales.append(scale))
    device_comparison.compare_rounded()
    assert set(scales) == {1.0}


def test_the_losses_of_the_cpu_are_computed_once(monkeypatch):
    asked = []

    def losses(config, device):
        asked.append((config.compute_dtype, device))
        return [2.0, 1.0]

    monkeypatch.setattr(device_comparison, "losses", losses)
    monkeypatch.setattr(device_comparison, "accelerator", lambda: "gpu")
    monkeypatch.setattr(device_comparison, "cpu", lambda: "cpu")
    device_comparison.losses_of_cpu.cache_clear()
    for dtype in device_comparison.LOSSES:
        assert device_comparison.compare_losses(dtype)["difference"] == 0
    device_comparison.losses_of_cpu.cache_clear()
    assert sorted(asked) == [("bfloat16", "gpu"), ("float32", "cpu"), ("float32", "gpu")]


def test_each_sentence_counts_in_translations(monkeypatch):
    def translations(config, params, device, beam_size, rows):
        tokens = np.arange(rows * 4).reshape(rows, 1, 4)
        tokens[0, 0, 0] += device == "gpu"
        return SimpleNamespace(tokens=tokens, score=np.ones((rows, 1)))

    monkeypatch.setattr(device_comparison, "parameters", lambda config: None)
    monkeypatch.setattr(device_comparison, "cpu", lambda: "cpu")
    monkeypatch.setattr(device_comparison, "translations", translations)
    for name, equal in (("cpu", 8), ("gpu", 7)):
        monkeypatch.setattr(device_comparison, "accelerator", lambda name=name: name)
        found = device_comparison.compare_translations(1, rows=8)
        assert (found["equal"], found["passed"]) == (equal, equal == 8)
