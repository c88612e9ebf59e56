"""The settings and the text with which a run can be resumed."""

import dataclasses
import errno
import json

import pytest

from bahdanau_jax import resuming, run_folder
from bahdanau_jax.config import Config, DataConfig, ModelConfig, TrainingConfig
from bahdanau_jax.data import Pair, Prepared
from bahdanau_jax.run_folder import CONFIG


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "store").mkdir()
    Config(data=DataConfig(train="text:a,b")).save(tmp_path / CONFIG)
    return tmp_path


def with_data(**changes) -> Config:
    return Config(data=DataConfig(train="text:a,b", **changes))


def test_test_pairs_may_change_and_dev_pairs_may_come(folder):
    resuming.check_experiment(with_data(dev="text:c,d", test="text:e,f"), folder)
    with_data(dev="text:c,d").save(folder / CONFIG)
    with pytest.raises(ValueError, match="data.dev is 'text:c,d', not ''"):
        resuming.check_experiment(with_data(), folder)
    with pytest.raises(ValueError, match="data.train is 'text:a,b', not 'text:c,d'"):
        resuming.check_experiment(Config(data=DataConfig(train="text:c,d")), folder)


def test_the_files_may_have_moved_and_more_processes_may_encode_them(folder):
    resuming.check_experiment(with_data(root="elsewhere", processes=3), folder)
    with pytest.raises(ValueError, match="data.lowercase is False, not True"):
        resuming.check_experiment(with_data(lowercase=True), folder)


def test_the_metric_of_the_dev_scores_stays(folder):
    loss = TrainingConfig(dev_metric="loss")
    # Without dev pairs, there is no score yet.
    for now in (with_data(), with_data(dev="text:c,d")):
        resuming.check_experiment(dataclasses.replace(now, training=loss), folder)
    before = with_data(dev="text:c,d")
    before.save(folder / CONFIG)
    resuming.check_experiment(
        dataclasses.replace(before, training=TrainingConfig(steps=9, patience=3)), folder
    )
    with pytest.raises(ValueError, match="its training.dev_metric is 'bleu', not 'loss'; choose"):
        resuming.check_experiment(dataclasses.replace(before, training=loss), folder)


def test_a_run_of_a_version_with_fewer_settings_goes_on(folder):
    record = json.loads((folder / CONFIG).read_text())
    for name in ("readout_inputs", "feed_previous"):
        del record["model"][name]
    (folder / CONFIG).write_text(json.dumps(record))
    assert Config.load(folder / CONFIG) == with_data()
    resuming.check_experiment(with_data(), folder)
    for name, value in {"readout_inputs": "s", "feed_previous": False}.items():
        other = dataclasses.replace(with_data(), model=ModelConfig(**{name: value}))
        with pytest.raises(ValueError, match=f"its model.{name} is .*, not {value!r}"):
            resuming.check_experiment(other, folder)


def prepared(digest: str, dev: list[Pair]) -> Prepared:
    store = dataclasses.make_dataclass("Store", ["statistics"])({"digest": digest})
    return Prepared((), store, dev, [], {})  # type: ignore


def test_the_same_names_with_other_text_are_refused(folder):
    one, other = [Pair("a", "b")], [Pair("a", "c")]
    resuming.check_or_record_data(prepared("x", []), folder)
    resuming.check_or_record_data(prepared("x", one), folder)  # dev pairs came
    resuming.check_or_record_data(prepared("x", one), folder)
    with pytest.raises(ValueError, match="the text of data.dev is no longer what"):
        resuming.check_or_record_data(prepared("x", other), folder)
    with pytest.raises(ValueError, match="the text of data.train is no longer what"):
        resuming.check_or_record_data(prepared("y", one), folder)
    (folder / CONFIG).unlink()  # never trained: the folder begins anew
    resuming.check_or_record_data(prepared("y", other), folder)


def test_the_runs_of_a_sweep_have_the_same_text(tmp_path):
    """The record is that of the shared data, or of a run that was trained elsewhere."""
    dev = [Pair("a", "b")]
    for folder in ("shared", "run"):
        (tmp_path / folder / "store").mkdir(parents=True)
    shared, seed = tmp_path / "shared", tmp_path / "run"
    resuming.check_or_record_text("1", dev, shared, [seed])
    resuming.check_or_record_text("1", dev, shared, [seed])
    for digest, pairs, field in (("2", dev, "train"), ("1", [Pair("a", "c")], "dev")):
        with pytest.raises(ValueError, match=f"data.{field} is no longer what the sweep began"):
            resuming.check_or_record_text(digest, pairs, shared, [])
    for record in (shared / "store").iterdir():
        record.rename(seed / "store" / record.name)
    with pytest.raises(ValueError, match="the text of data.train is no longer"):
        resuming.check_or_record_text("2", dev, shared, [seed])
    assert not [*(shared / "store").iterdir()]


def test_checkpoints_without_a_configuration_are_not_gone_on_with(folder):
    """Their weights would win over those of a run that begins, or that is imported."""
    (folder / CONFIG).unlink()
    for step in (0, 200):
        (folder / "checkpoints" / str(step)).mkdir(parents=True)
        if not step:
            resuming.check_experiment(with_data(), folder)  # of an import that was killed
    with pytest.raises(ValueError, match=r"checkpoints of a run, but no config\.json: put it back"):
        resuming.check_experiment(with_data(), folder)


def test_the_folder_of_a_sweep_takes_no_run(tmp_path):
    (tmp_path / run_folder.SWEEP).write_text("{}")
    with pytest.raises(ValueError, match="holds a sweep: choose another folder for a run"):
        resuming.check_experiment(with_data(), tmp_path)


def test_an_import_that_was_killed_gives_a_new_run_no_weights(tmp_path):
    left = tmp_path / "checkpoints" / "0"
    left.mkdir(parents=True)
    (tmp_path / CONFIG).write_text("{}")
    run_folder.forget_import(tmp_path)
    assert left.exists()  # an import that is complete
    (tmp_path / CONFIG).unlink()
    run_folder.forget_import(tmp_path)
    assert not left.exists()


def test_steps_are_names_of_ascii_digits(tmp_path):
    assert run_folder.steps_in(tmp_path / "checkpoints") == []
    for name in ("10", "9", "damaged-8", "\u0667", "7.tmp"):  # U+0667 is a digit of Arabic
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert run_folder.steps_in(tmp_path / "checkpoints") == [9, 10]
    assert run_folder.updates_made(tmp_path) == -1  # without a configuration there is no run
    (tmp_path / CONFIG).write_text("{}")
    assert run_folder.updates_made(tmp_path) == 10


def test_a_folder_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(run_folder.fcntl, "flock", refuse)
    told = f"{tmp_path} cannot be locked .No locks available.: choose a folder on a file system"
    with pytest.raises(OSError, match=told), run_folder.lock(tmp_path):
        pass
