"""Runs that train in one program equal runs that train alone."""

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax import data, run, training
from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.config import Config, TrainingConfig
from bahdanau_jax.decoding import search_program
from bahdanau_jax.reporting import PLAIN, SILENT
from bahdanau_jax.run_folder import COMPILATIONS, updates_made
from bahdanau_jax.trained import load
from bahdanau_jax.training import many_runs, monitor, vmapped_update
from tests import small
from tests.model import worlds
from tests.training import toy

SEEDS = (1, 2, 3, 4)  # two groups of two on two cores, so that one program serves both
FIELDS = {"loss", "nll", "gradient_norm", "dev_loss", "update_to_weight"}


class Killed(BaseException):
    pass


def config(seed: int, **changes):
    settings = dataclasses.replace(
        small.config.training,
        **{"steps": 12, "log_every": 4, "evaluate_every": 6, "checkpoint_every": 5, **changes},
        seed=seed,
    )
    data = dataclasses.replace(small.config.data, shapes=2)
    return dataclasses.replace(small.config, training=settings, data=data)


def together(folder, seeds=SEEDS, **options):
    configs = [config(seed) for seed in seeds]
    return run.train_vmapped(configs, [folder / f"{seed}" for seed in seeds], **options)


def lines(folder) -> list[dict]:
    return [
        {key: value for key, value in line.items() if key not in monitor.TIMES}
        for line in training.read_metrics(folder)
    ]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    assert together(folder) == {}
    return folder


@pytest.mark.slow
def test_each_run_equals_the_run_alone(unbroken, tmp_path):
    alone = tmp_path / "alone"
    run.train(config(2), alone)
    ours, theirs = lines(unbroken / "2"), lines(alone)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for field in one.keys() & FIELDS:
            assert one[field] == pytest.approx(other[field], rel=2e-4), (field, one, other)
    own, other = (load(folder).params for folder in (unbroken / "2", alone))
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-4)


@pytest.mark.slow
def test_runs_on_two_devices_equal_those_on_one(unbroken, tmp_path):
    program = Path(__file__).with_name("two_devices.py")
    assert small.measured(program, tmp_path) == {}
    for seed in ("1", "2"):
        ours, theirs = lines(tmp_path / seed), lines(unbroken / seed)
        assert [line["step"] for line in ours] == [line["step"] for line in theirs]
        for one, other in zip(ours, theirs, strict=True):
            for field in one.keys() & FIELDS:
                assert one[field] == pytest.approx(other[field], rel=2e-4), (field, one, other)


@pytest.mark.slow
def test_every_run_has_the_log_of_compilations_and_the_time_to_the_first_step(unbroken):
    for seed in SEEDS:
        folder = unbroken / f"{seed}"
        log = [json.loads(line) for line in (folder / COMPILATIONS).read_text().splitlines()]
        assert "update" in {line.get("for") for line in log}
        first = next(each for each in training.read_metrics(folder) if "loss" in each)
        assert 0 < first["first_program_seconds"] <= first["first_step_seconds"]


@pytest.mark.exhaustive
def test_seeds_differ_and_each_folder_is_an_ordinary_run(unbroken, tmp_path):
    losses = {seed: lines(unbroken / f"{seed}")[-1]["dev_loss"] for seed in SEEDS}
    assert len(set(losses.values())) == len(SEEDS)
    trained = load(unbroken / "3")
    assert trained.config.training.seed == 3 and len(trained.translate(["The man saw ."])) == 1
    assert run.train(config(3), unbroken / "3").folder == unbroken / "3"  # nothing is left to do


@pytest.mark.exhaustive
def test_the_configurations_of_longer_runs_stay_as_they_are(unbroken, tmp_path):
    folders = [shutil.copytree(unbroken / f"{seed}", tmp_path / f"{seed}") for seed in SEEDS]
    before = [(folder / "config.json").read_bytes() for folder in folders]
    assert run.train_vmapped([config(seed, steps=6) for seed in SEEDS], folders) == {}
    assert [(folder / "config.json").read_bytes() for folder in folders] == before


@pytest.mark.parametrize(
    "at", [pytest.param(3, marks=pytest.mark.exhaustive), pytest.param(8, marks=pytest.mark.slow)]
)
def test_a_stopped_program_goes_on_bit_for_bit(at, unbroken, tmp_path, monkeypatch):
    """A signal at step 3 saves the runs; a kill at step 8 does not."""
    original = many_runs.ManyRuns.measure

    def stopping(self, step, state):
        if step == at == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        elif step == at:
            raise Killed
        return original(self, step, state)

    monkeypatch.setattr(many_runs.ManyRuns, "measure", stopping)
    with pytest.raises((training.Interrupted, Killed)):
        together(tmp_path)
    monkeypatch.undo()
    assert together(tmp_path) == {}
    for seed in SEEDS:
        assert lines(tmp_path / f"{seed}") == lines(unbroken / f"{seed}")
        own, other = (load(folder / f"{seed}").params for folder in (tmp_path, unbroken))
        for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(other), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.slow
def test_a_run_that_diverges_leaves_the_others(unbroken, tmp_path, monkeypatch):
    """The gradients of one seed are not finite from step 4 on."""
    record = many_runs.OneRun.record

    def diverging(self, step, sums, telemetry, batch):
        if self.monitor.workdir.name == "2" and step == 4:
            raise training.Diverged("not finite")
        record(self, step, sums, telemetry, batch)

    monkeypatch.setattr(many_runs.OneRun, "record", diverging)
    failed = together(tmp_path)
    assert list(failed) == [1] and "not finite" in str(failed[1])
    assert lines(tmp_path / "3") == lines(unbroken / "3")
    assert all(line["step"] < 12 for line in lines(tmp_path / "2"))
    made = [updates_made(tmp_path / f"{seed}") for seed in SEEDS]
    assert set(made) == {12}  # so that an interrupted group resumes at its newest step
    monkeypatch.undo()
    again = together(tmp_path)  # its gradients are finite, but no update is left to make
    assert list(again) == [1] and str(again[1]) == str(failed[1])


def padding(folder) -> list[float]:
    return [line["padding_share"] for line in lines(folder) if "padding_share" in line]


@pytest.mark.slow
def test_a_shared_order_is_that_of_the_first_seed_also_after_a_break(
    unbroken, tmp_path, monkeypatch
):
    """The run of this seed equals the run alone, and the others have its batches."""
    shared, broken, named = (tmp_path / name for name in ("shared", "broken", "named"))
    assert together(shared, (1, 2), order="shared") == {}
    first, second = lines(shared / "1"), lines(shared / "2")
    for one, other in zip(first, lines(unbroken / "1"), strict=True):
        for field in one.keys() & FIELDS:
            assert one[field] == pytest.approx(other[field], rel=2e-4), (field, one, other)
    assert padding(shared / "1") == padding(shared / "2") and first != second
    original = many_runs.ManyRuns.measure

    def killed(self, step, state):
        if step == 8:
            raise Killed
        return original(self, step, state)

    monkeypatch.setattr(many_runs.ManyRuns, "measure", killed)
    with pytest.raises(Killed):
        together(broken, (1, 2), order="shared")
    monkeypatch.undo()
    assert together(broken, (1, 2), order="shared") == {}
    assert (lines(broken / "1"), lines(broken / "2")) == (first, second)
    assert together(named, (2, 3), order="shared", first_seed=1) == {}
    for one, other in zip(lines(named / "2"), second, strict=True):
        for field in one.keys() & FIELDS:
            assert one[field] == pytest.approx(other[field], rel=2e-4), (field, one, other)


@pytest.mark.slow
def test_a_kill_between_the_saves_of_two_runs_leaves_them_a_common_step(
    tmp_path, monkeypatch, caplog
):
    """Each run keeps one checkpoint by its configuration, and two while they train together."""
    configs = [config(seed, keep_checkpoints=1, evaluate_every=0) for seed in (1, 2)]
    folders = [tmp_path / "1", tmp_path / "2"]
    save = Checkpointer.save

    def killed(self, step, *rest):
        if step == 10 and self.folder.parent == folders[1]:
            raise Killed
        return save(self, step, *rest)

    monkeypatch.setattr(Checkpointer, "save", killed)
    with pytest.raises(Killed):
        run.train_vmapped(configs, folders)
    monkeypatch.undo()
    assert [updates_made(folder) for folder in folders] == [10, 5]
    caplog.clear()
    assert run.train_vmapped(configs, folders) == {}
    assert "begin again" not in caplog.text
    starts = [[start["step"] for start in training.read_record(folder)] for folder in folders]
    assert starts == [[0, 5], [0, 5]]


@pytest.mark.slow
def test_the_batch_of_the_run_that_diverged_is_saved(tmp_path, monkeypatch):
    seen, batches = [], data.train_batches

    def poisoned(*arguments, **options):
        for batch in batches(*arguments, **options):
            weight = np.array(batch.weight)
            weight[1] = np.nan
            seen.append(batch._replace(weight=weight))
            yield seen[-1]

    monkeypatch.setattr(data, "train_batches", poisoned)
    configs = [
        dataclasses.replace(
            config(seed, evaluate_every=0),
            optimizer=dataclasses.replace(small.config.optimizer, max_nonfinite=2),
        )
        for seed in (1, 2)
    ]
    failed = run.train_vmapped(configs, [tmp_path / "1", tmp_path / "2"])
    assert list(failed) == [1]
    (path,) = tmp_path.glob("*/nonfinite-*.npz")
    assert path == tmp_path / "2" / "nonfinite-2.npz"
    saved = training.load_batch(path)
    for ours, theirs in zip(saved, seen[1], strict=True):
        np.testing.assert_array_equal(ours, theirs[1])
    assert not np.array_equal(saved.source, seen[1].source[0])


def test_what_cannot_train_vmapped_is_refused(tmp_path):
    folders = [tmp_path / "1", tmp_path / "2"]
    with pytest.raises(ValueError, match="training.seed alone"):
        run.train_vmapped([config(1), config(2, steps=5)], folders)
    with pytest.raises(ValueError, match="set training.patience to 0"):
        run.train_vmapped([config(1, patience=1), config(2, patience=1)], folders)
    for field, value in (("parallel", "pmap"), ("shard", "optimizer")):
        with pytest.raises(ValueError, match=f"set training.{field} to"):
            run.train_vmapped([config(n, **{field: value}) for n in (1, 2)], folders)
    assert not any(folder.exists() for folder in folders)


class Folder:
    """The checkpoints of a run, which has lines of its own."""

    workdir = Path("2")
    note = hand_over = lambda *_: None

    def __init__(self, progress: dict):
        self.loop, self.saved, self.unfinished = progress, [], False

    def progress(self, step):
        return {"loop": self.loop} if self.loop else {}

    def save(self, step, state, score, progress):
        self.saved.append((step, progress["loop"]["diverged"]))
        self.unfinished = True

    def wait(self):
        self.unfinished = False

    def start(self, step, state):
        pass

    def state(self):
        return {}

    def compiling(self, step):
        pass

    def evaluation(self, step, scores):
        pass

    def paused(self):
        return contextlib.nullcontext()


def phases(progress: dict, **settings) -> training.OneRun:
    folder = Folder(progress)
    return training.OneRun(lambda state: {}, folder, folder, TrainingConfig(**settings), 12)


def weights(value: float):
    """What a run reads of its state before it saves it."""
    return SimpleNamespace(params={"W": np.full(2, value, np.float32)}, ema=())


def test_a_run_whose_weights_are_not_finite_is_left_out():
    runs = [phases({}, checkpoint_every=4), phases({}, checkpoint_every=4)]
    many = many_runs.ManyRuns(runs, [[0, 1]])
    many._member = lambda states, index: weights((1.0, np.inf)[index])
    for step in (4, 8):
        many.save_when_due(step, None, None)
    told = {i: str(error) for i, error in many.failed.items()}
    assert told == {1: runs[1].progress.diverged}
    assert told[1].startswith("weights are not finite after step 4: lower ")
    assert runs[0].checkpointer.saved == [(4, None), (8, None)]
    assert runs[1].checkpointer.saved == [(4, told[1]), (8, told[1])]


class Listening:
    def unless_received(self, work):
        return work()


def test_a_run_that_diverged_saves_with_the_others_and_stays_left_out():
    settings = {"evaluate_every": 4, "checkpoint_every": 0}
    diverged = {"diverged": "not finite", "evaluated": 4}
    runs = [phases({}, **settings), phases(diverged, **settings)]
    many = many_runs.ManyRuns(runs, [[0, 1]])
    many._member = lambda states, index: weights(1.0)
    many.start(6)
    assert {i: str(error) for i, error in many.failed.items()} == {1: "not finite"}
    for step in (7, 8, 9, 12):
        assert many.evaluate_when_due(step, None, Listening())
        many.save_when_due(step, None, many.outcome(step, False))
    assert runs[0].checkpointer.saved == [(8, None), (12, None)]
    assert runs[1].checkpointer.saved == [(8, "not finite"), (12, "not finite")]


def test_the_training_goes_on_until_the_last_run_has_diverged():
    many = many_runs.ManyRuns([phases({}), phases({})], [[0, 1]])
    many._fail(0, training.Diverged("not finite"))
    assert many.outcome(5, False) is None
    many._fail(1, training.Diverged("not finite"))
    assert many.outcome(5, False) is training.Outcome.FINISHED


def test_the_evaluations_and_saves_of_one_run_are_no_training_of_the_others():
    settings = {"evaluate_every": 4, "checkpoint_every": 4}
    runs = [phases({}, **settings), phases({}, **settings)]
    many = many_runs.ManyRuns(runs, [[0, 1]])
    many._member = lambda states, index: weights(1.0)
    paused, seen = set(), []

    @contextlib.contextmanager
    def pause(index):
        paused.add(index)
        yield
        paused.remove(index)

    for i, each in enumerate(runs):
        each.monitor.paused = functools.partial(pause, i)
        each.evaluate = lambda state: seen.append({*paused}) or {}
        each.checkpointer.save = lambda *_: seen.append({*paused})
    assert many.evaluate_when_due(4, None, Listening())
    many.save_when_due(4, None, None)
    assert seen == [{0, 1}] * 4 and not paused


def test_the_next_run_that_is_left_shows_the_progress():
    runs = [phases({}, checkpoint_every=4) for _ in range(3)]
    many, handed = many_runs.ManyRuns(runs, [[0, 1, 2]]), []
    for each in runs:
        each.monitor.hand_over = handed.append
    for failing in (0, 1, 2):
        many._fail(failing, training.Diverged("not finite"))
    assert handed == [runs[1].monitor, runs[2].monitor]  # and none after the last


def test_another_run_shows_the_progress_after_one_that_diverges(tmp_path):
    shown = monitor.Monitor(tmp_path / "1", 12, reporter=PLAIN)
    silent = monitor.Monitor(tmp_path / "2", 12, reporter=SILENT)
    shown._stage = stage = object()
    silent.hand_over(shown)  # it shows nothing that it could hand over
    assert shown._stage is stage
    shown.hand_over(silent)
    assert silent._stage is stage and silent._reporter is PLAIN and shown._reporter is SILENT


def test_no_run_saves_before_the_last_checkpoints_of_all_are_on_disk():
    """A kill between two saves thus leaves the runs a common step."""
    runs = [phases({}, checkpoint_every=4), phases({}, checkpoint_every=4)]
    many = many_runs.ManyRuns(runs, [[0, 1]])
    many._member = lambda states, index: weights(1.0)
    folders = [each.checkpointer for each in runs]
    save, unfinished = Folder.save, []

    def recorded(self, step, *rest):
        unfinished.append([each.unfinished for each in folders])
        save(self, step, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "save", recorded)
        for step in (4, 8):
            many.save_when_due(step, None, None)
    assert unfinished == [[False, False], [True, False]] * 2


class Begun:
    config = Config()

    def __init__(self):
        self.drawn = 0

    def begin(self, seed=None):
        x = jnp.zeros(3)
        self.drawn += not isinstance(x, jax.core.Tracer)  # shapes alone are traced
        return {"x": x}


@contextlib.contextmanager
def saved(folder, *runs):
    """Checkpointers of runs that have these steps, with the number of the step as their state."""
    opened = [Checkpointer(folder / f"{i}", 9) for i in range(len(runs))]
    try:
        for each, steps in zip(opened, runs, strict=True):
            for step in steps:
                each.save(step, {"x": np.full(3, step, np.float32)})
            each.wait()
        yield opened
    finally:
        for each in opened:
            each.close()


def damage(folder, *names):
    """Change the data of a checkpoint, or its metadata where `names` name their file."""
    for name in names or [path for path in (folder / "state" / "d").iterdir()]:
        path = folder / name
        path.write_bytes(b"{" + path.read_bytes()[:-1])


def restored(checkpointers) -> list[float]:
    begun = Begun()
    states = many_runs._restored([begun] * len(checkpointers), checkpointers)
    found = [float(state["x"][0]) for state in states]
    assert begun.drawn == (0 if any(found) else len(found))  # there may be no room for two states
    return found


def test_new_runs_begin_as_they_would_alone(tmp_path):
    base = Config(model=worlds.CONFIGS["default"])
    settings = [dataclasses.replace(base.training, seed=seed) for seed in (3, 4)]
    trainers = [training.Trainer(dataclasses.replace(base, training=each)) for each in settings]
    with saved(tmp_path, [], []) as checkpointers:
        states = many_runs._restored(trainers, checkpointers)
    for trainer, state in zip(trainers, states, strict=True):
        alone = trainer.begin()
        assert jax.random.key_data(state.key).tolist() == jax.random.key_data(alone.key).tolist()
        jax.tree.map(np.testing.assert_array_equal, state.params, alone.params)


def test_runs_without_a_common_step_keep_what_they_save_from_then_on(tmp_path, caplog):
    """A run's newest checkpoints of before would otherwise be kept instead of its next ones."""
    with saved(tmp_path, (600, 800, 1000), ()) as runs:
        assert restored(runs) == [0, 0]
        assert "the runs begin again" in caplog.text
        assert [path.name for path in (tmp_path / "0").iterdir()] == []
        for each in runs:
            each.save(200, {"x": np.full(3, 7, np.float32)})
            each.wait()
        assert [each.steps() for each in runs] == [[200], [200]]
        assert restored(runs) == [7, 7]


def test_a_step_that_not_all_runs_have_is_removed(tmp_path, caplog):
    with saved(tmp_path, (2, 4, 6), (1, 2)) as runs:
        assert restored(runs) == [2, 2]
        assert [each.steps() for each in runs] == [[2], [1, 2]]
        assert restored(runs) == [2, 2]
    assert not caplog.text


def test_damaged_checkpoints_are_named_and_set_aside(tmp_path, caplog):
    with saved(tmp_path, (1, 2, 3), (2, 3, 4)):
        pass
    damage(tmp_path / "1" / "3")
    damage(tmp_path / "1" / "4", "_CHECKPOINT_METADATA")
    with saved(tmp_path, (), ()) as runs:
        assert restored(runs) == [2, 2]
        assert [each.steps() for each in runs] == [[1, 2], [2]]
        for step in (3, 4):
            assert f"{tmp_path}/1/{step} is damaged" in caplog.text
            assert (tmp_path / "1" / f"damaged-{step}").is_dir()


@pytest.mark.parametrize("steps", [(2,), (2, 3)])
@pytest.mark.parametrize("part", [(), ("_CHECKPOINT_METADATA",)])
def test_no_run_loses_checkpoints_because_those_of_another_are_damaged(tmp_path, steps, part):
    with saved(tmp_path, (1, 2), steps):
        pass
    damage(tmp_path / "1" / "2", *part)
    for _ in range(2):
        with saved(tmp_path, (), ()) as runs:
            with pytest.raises(OSError, match="no step has .* and some in .*/1 are damaged: res"):
                restored(runs)
            assert runs[0].steps() == [1, 2]
    assert {path.name for path in (tmp_path / "1").iterdir()} >= set(map(str, steps))


def test_what_a_kill_leaves_of_a_removed_checkpoint_is_removed(tmp_path):
    (tmp_path / "0" / "pruned-3").mkdir(parents=True)
    with saved(tmp_path, ()):
        assert not [*(tmp_path / "0").iterdir()]


@pytest.mark.parametrize(
    "runs, cores, groups",
    [(10, 1, 5), (10, 2, 5), (12, 2, 6), (3, 1, 3), (4, 1, 2), (7, 2, 7), (11, 6, 11), (2, 8, 8)],
)
def test_the_groups_of_a_cpu_are_few_and_equal_where_few_more_make_them_so(runs, cores, groups):
    assert vmapped_update.groups_of_cores(runs, cores) == groups


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the option is one for a CPU")
def test_the_program_of_a_group_has_no_trees_of_windows():
    trainer = training.Trainer(Config(model=worlds.CONFIGS["paper"]))
    update = vmapped_update.VmappedUpdate(trainer, 2, training.SHARED)
    states = update.place([trainer.begin(), trainer.begin()])
    (program,) = update.lower(states, toy.batch(0, 40))._lowered.values()
    update.close()
    assert "reduce-window(" not in program.compile().as_text()


@pytest.mark.parametrize("vmapped", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_programs_of_the_dev_scores_translate_with_the_trained_run(vmapped, tmp_path):
    greedy = dataclasses.replace(small.config.decoding, beam_size=1)
    configs = [
        dataclasses.replace(config(seed, steps=2, evaluate_every=2), decoding=greedy)
        for seed in SEEDS[:2]
    ]
    search_program._search.clear_cache()
    if vmapped:
        assert run.train_vmapped(configs, [tmp_path / "1", tmp_path / "2"]) == {}
    else:
        run.train(configs[0], tmp_path / "1")
    programs = search_program._search._cache_size()
    trained = load(tmp_path / "1")
    settings = trained.config.data
    trained.translate([pair.source for pair in data.pairs(settings.dev, settings)])
    assert programs and search_program._search._cache_size() == programs
