"""Lines fitted to the times of updates, and the timing of real epochs."""

import json

import numpy as np
import pytest

from bahdanau_jax.training import Trainer
from benchmarks import epoch_benchmark, scaling_benchmark, sizes
from benchmarks.__main__ import main

BASE = sizes.SIZES["tiny"][0]


def test_a_line_and_a_plane_are_found_again():
    found = scaling_benchmark.line([1, 2, 4], [5.0, 7.0, 11.0])
    assert found == pytest.approx({"at_0": 3.0, "each": 2.0, "r2": 1.0})
    points = [
        *scaling_benchmark.sweep(BASE, "S"),
        *scaling_benchmark.sweep(BASE, "T"),
        *scaling_benchmark.sweep(BASE, "ST"),
    ]
    times = {one: 1 + 2 * one.S + 3 * one.T + 0.5 * one.S * one.T for one in points}
    plane = scaling_benchmark.plane(times, BASE, points[-1])
    assert [plane[name] for name in ("a", "S", "T", "S*T")] == pytest.approx([1, 2, 3, 0.5])
    S, T = BASE.S, BASE.T
    assert plane["share_at_base"] == pytest.approx(0.5 * S * T / (1 + 2 * S + 3 * T + 0.5 * S * T))
    assert 0 < plane["counted_share_at_base"] < plane["counted_share_at_end"] < 1


def test_a_curve_is_no_line():
    x, y = [1, 2, 4, 8], [1.0, 4.0, 16.0, 64.0]
    assert scaling_benchmark.line(x, y)["r2"] < 0.97
    parabola = {"at_0": 0.0, "each": 0.0, "squared": 1.0, "r2": 1.0}
    assert scaling_benchmark.line(x, y, 2) == pytest.approx(parabola, abs=1e-9)


def test_sweeps_are_measured_fitted_and_drawn(tmp_path, monkeypatch):
    def measured(points, rounds):
        assert len(points) == len(set(points)) == 19 and rounds == 2
        made = {one: 1e-3 * (one.B + one.V / 100 + one.S + one.T + one.n**2) for one in points}
        return made, {one: {"temporaries": float(one.B)} for one in points}

    monkeypatch.setattr(scaling_benchmark, "_measure", measured)
    assert main(["scaling", "--size", "smal"]) == 2
    found = scaling_benchmark.run("tiny", 2, tmp_path)
    assert all(line["r2"] == 1 for line in found["lines"].values())
    assert found["memory_lines"]["B"]["each"] == pytest.approx(1)
    assert found["plane"]["S*T"] == pytest.approx(0, abs=1e-9)
    assert "ms an update" in (tmp_path / "scaling.svg").read_text()
    json.dumps(found)


@pytest.mark.slow
def test_a_size_is_timed_and_its_memory_planned():
    seconds, memory = scaling_benchmark._measure([BASE], 2)
    assert seconds[BASE] > 0 and memory[BASE]["all"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        pytest.param({}, id="jit"),
        pytest.param(
            {"--training.parallel": "pmap", "--training.accumulate": 2},
            id="pmap",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_an_epoch_is_timed_with_the_share_of_the_host(way, tmp_path, capfd, monkeypatch):
    settings = {
        "--data.train": "builtin:copy/train?pairs=60&min=3&max=9",
        "--data.batch-size": 20,
        "--data.shapes": 1,
        "--model.hidden-size": 17,
        "--model.embedding-size": 11,
        "--model.alignment-size": 13,
        "--model.readout-size": 7,
    }
    made = []

    class Recorded(Trainer):
        def __init__(self, config):
            super().__init__(config)
            made.append((type(self.backend).__name__, self.row_multiple))

    monkeypatch.setattr(epoch_benchmark, "Trainer", Recorded)
    given = [str(part) for pair in (settings | way).items() for part in pair]
    command = ["epoch", "reverse", "--workdir", str(tmp_path), "--epochs", "2", *given]
    assert main(command) == 0
    assert made == [("Pmap" if way else "Jit", 2 if way else 1)]
    found = json.loads(capfd.readouterr().out)
    assert found["steps"] == 3 and len(found["shapes"]) == 1 and len(found["epochs"]) == 2
    for one in found["epochs"]:
        words = 60 * np.array([4, 10])  # EOS counted
        assert words[0] <= one["target_words"] <= words[1]
        rate = one["target_words"] / one["seconds"]
        assert one["target_words_per_second"] == pytest.approx(rate, rel=1e-2)
        host = one["next_seconds"] + one["placing_seconds"]
        assert one["host_share"] == pytest.approx(host / one["seconds"], abs=1e-2) and host > 0
        assert one["device_seconds"] > 0
    assert found["predicted"]["seconds"]["measured"] == found["seconds"]
    for one in found["predicted"].values():
        assert one["predicted"] > 0  # memory may shrink here, in a process that other tests used
        assert one["quotient"] == pytest.approx(one["measured"] / one["predicted"], rel=0.05)


@pytest.mark.parametrize(("measured", "predicted"), [(None, 2.0), (3.0, None), (None, None)])
def test_an_unknown_peak_of_memory_has_no_quotient(measured, predicted):
    found = epoch_benchmark.beside(measured, predicted)
    assert found == {"predicted": predicted, "measured": measured, "quotient": None}


def test_a_folder_that_takes_no_picture_is_said_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling_benchmark, "_measure", lambda *_: pytest.fail("it was measured"))
    (tmp_path / "scaling.svg").mkdir()
    with pytest.raises(IsADirectoryError):
        scaling_benchmark.run("tiny", 1, tmp_path)


def test_a_benchmark_that_is_interrupted_leaves_no_empty_picture(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(scaling_benchmark, "_measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        scaling_benchmark.run("tiny", 1, tmp_path)
    assert not [*tmp_path.iterdir()]
