"""The predicted cost of a training: its parts add up, and nothing is trained."""

import dataclasses
import re
from contextlib import nullcontext

import pytest

from bahdanau_jax import cost, data, model, run, training
from bahdanau_jax.cli import train_command
from bahdanau_jax.config import Config
from bahdanau_jax.report import cost_report
from tests import small


@pytest.fixture(scope="module")
def estimated(tmp_path_factory):
    return cost.estimate(several_shapes(), tmp_path_factory.mktemp("cost"))


def several_shapes() -> Config:
    """Small batches of four shapes, of which some are measured."""
    settings = dataclasses.replace(small.config.data, shapes=4, batch_size=20)
    return dataclasses.replace(small.config, data=settings)


def test_the_parts_add_up(estimated, tmp_path):
    found = estimated
    assert sum(found.parameters.values()) == model.count(model.shapes(found.config.model))
    config = several_shapes()
    run.prepare(config, tmp_path)
    store = data.prepare(config.data, tmp_path).train
    plan = data.Plan.of(store, config.data, config.training.seed)
    assert found.epoch_updates == plan.steps()
    planned = plan.epoch(0)
    positions = sum(sum(each.shape) * each.height for each in planned)
    assert sum(each.updates * each.positions for each in found.shapes) == positions
    assert {each.shape for each in found.shapes} == {tuple(each.shape) for each in planned}
    assert found.padding == plan.padding()
    assert found.tokens == plan.tokens()


def test_some_shapes_are_measured_and_the_smallest_and_the_largest_are_among_them(estimated):
    shapes = estimated.shapes
    assert len(shapes) > cost.MEASURED
    assert [each.positions for each in shapes] == sorted(each.positions for each in shapes)
    assert shapes[0].measured and shapes[-1].measured
    assert sum(each.measured for each in shapes) == min(cost.MEASURED, len(shapes))
    assert all(each.seconds > 0 and each.memory > 0 for each in shapes)
    assert shapes[-1].memory == estimated.memory
    weights = 4 * sum(estimated.parameters.values())
    assert estimated.memory > 3 * weights  # the weights and two accumulators
    assert estimated.memory < estimated.peak < 2**36  # bytes, neither KiB nor pages


@pytest.mark.slow
def test_every_shape_is_compiled_as_in_a_training(tmp_path, monkeypatch):
    """The training then finds all its programs in the cache, and has the same peak of memory."""
    made = []

    class Recorded(training.Ahead):
        def __init__(self, step, state, batches, **options):
            made.append((len(batches), options.keys() - {"finished"}))
            super().__init__(step, state, batches, **options)

    monkeypatch.setattr(training, "Ahead", Recorded)
    found = cost.estimate(several_shapes(), tmp_path)
    assert len(found.shapes) > cost.MEASURED
    assert made == [(len(found.shapes), set())]
    assert found.shapes[0].memory < found.shapes[-1].memory == found.memory


def test_the_vocabulary_of_a_trained_model_stays(tmp_path, monkeypatch):
    """Its text was extended after the training."""
    texts = {side: tmp_path / f"t.{side}" for side in ("en", "fr")}
    for path in texts.values():
        path.write_text("a b c\n" * 40)
    addresses = {"train": f"text:{texts['en']},{texts['fr']}", "dev": "", "test": ""}
    config = dataclasses.replace(
        small.config, data=dataclasses.replace(small.config.data, **addresses)
    )
    run.prepare(config, tmp_path / "run")

    def vocabulary():
        files = sorted((tmp_path / "run/vocabulary").iterdir())
        return {path.name: path.read_bytes() for path in files}

    config.with_vocabularies(5, 5).save(tmp_path / "run/config.json")
    before = vocabulary()
    for path in texts.values():
        path.write_text("a b c\n" * 40 + "d e f\n" * 40)

    def enough(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cost, "_measure", enough)
    with pytest.raises(KeyboardInterrupt):
        cost.estimate(config, tmp_path / "run")
    assert vocabulary() == before


def test_the_time_of_training_follows_from_that_of_an_epoch():
    shapes = [
        cost.ShapeCost((3, 4), 2, 5, 0.1, True, 7),
        cost.ShapeCost((6, 8), 2, 15, 0.3, True, 9),
    ]
    length = dataclasses.replace(small.config.training, steps=100)
    config = dataclasses.replace(small.config, training=length)
    found = cost.Cost(config, {"all": 3}, shapes, 245, 1.0, None)
    assert (found.epoch_updates, found.memory) == (20, 9)
    assert found.padding == pytest.approx(0.5)  # of 5 * 2 * 7 + 15 * 2 * 14 positions
    assert found.epoch_seconds == pytest.approx(5.0)
    assert found.training_seconds == pytest.approx(25.0)
    resumed = found._replace(made=60)
    assert resumed.left == 40 and resumed.training_seconds == pytest.approx(10.0)
    assert "| 40 updates, 10 s, without evaluation; 60 updates are made |" in "\n".join(
        cost_report.lines(resumed)
    )
    assert found._replace(made=120).training_seconds == 0


def test_fillers_are_padding_and_no_words(tmp_path):
    """Batches whose rows are not a multiple of the parts of an update have fillers."""
    parts = dataclasses.replace(small.config.training, accumulate=3)
    assert small.config.data.batch_size % 3
    plain = cost.estimate(small.config, tmp_path)
    found = cost.estimate(dataclasses.replace(small.config, training=parts), tmp_path)
    assert found.tokens == plain.tokens
    for shape in found.shapes:
        assert shape.rows % parts.accumulate == 0
    assert found.padding > plain.padding
    speed = f"{found.tokens / found.epoch_seconds:,.0f} words of both sides a second"
    assert speed in "\n".join(cost_report.lines(found))


def test_other_shapes_lie_between_the_measured_ones():
    assert cost.spread("abcde", 3) == ["a", "c", "e"]
    assert cost.spread("ab", 3) == ["a", "b"]
    assert cost.between([(10, 1.0), (20, 3.0)], 12) == pytest.approx(1.4)


def test_a_dry_run_writes_nothing(command_line, tmp_path):
    folder = tmp_path / "run"
    dtype = ["--model.compute-dtype", "auto"]
    arguments = ["train", small.FILE, "--workdir", folder, "--dry-run", *dtype]
    code, out, err = command_line(*arguments)
    assert code == 0, err
    assert not folder.exists()
    assert re.search(r'"compute_dtype": "(float32|bfloat16)"', out)  # the one it measured with
    assert "| all |" in out and "padded shape" in out and '"hidden_size"' in out
    missing = ["--data.train", "text:no.en,no.fr", "--dry-run", "True"]
    code, _, err = command_line("train", small.FILE, "--workdir", folder, *missing)
    assert code == 2 and err.count("\n") == 1
    folder.write_text("a file")
    code, _, err = command_line("train", small.FILE, "--workdir", folder, "--dry-run")
    assert code == 2 and err.endswith("run is a file): choose another folder\n")


@pytest.mark.parametrize("option", [("--coordinator", "host:1234"), ("--processes", "2")])
def test_a_dry_run_has_one_process(command_line, tmp_path, option):
    arguments = ("train", small.FILE, "--workdir", tmp_path / "run", "--dry-run", *option)
    code, _, err = command_line(*arguments)
    assert code == 2 and "predicts the cost of one process" in err


@pytest.mark.parametrize(("processes", "is_refused"), [("2", True), ("1", False)])
def test_a_dry_run_of_launched_processes_is_refused(processes, is_refused, monkeypatch, tmp_path):
    monkeypatch.setenv("BAHDANAU_PROCESSES", processes)
    monkeypatch.setattr(train_command, "_predict", lambda chosen, reporter: None)
    arguments = [str(small.FILE), "--workdir", str(tmp_path / "run"), "--dry-run"]
    with pytest.raises(ValueError, match="bahdanau launch") if is_refused else nullcontext():
        train_command.main(arguments)


def test_settings_are_checked_first(tmp_path):
    wrong = dataclasses.replace(
        small.config, data=dataclasses.replace(small.config.data, batch_size="80")
    )
    with pytest.raises(ValueError, match="batch_size"):
        cost.estimate(wrong, tmp_path)
