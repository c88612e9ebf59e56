"""Files for later questions about a run: record, compilations, trace, non-finite batch."""

import dataclasses
import json
import re
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

from bahdanau_jax import training
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import Config, TrainingConfig
from bahdanau_jax.decoding.interleaving import side_by_side
from bahdanau_jax.run_folder import RECORD
from bahdanau_jax.training import nonfinite_batch, run_record
from bahdanau_jax.training.compile_log import CACHE_HIT, COMPILED, CompileLog
from tests.training import toy


@pytest.fixture(scope="module")
def step():
    return toy.parts()[1]


def test_every_start_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS_OF_THIS_TEST", "1")
    monkeypatch.setenv("SECRET_TOKEN", "no")
    config = Config(training=TrainingConfig(seed=7))
    monkeypatch.setattr(sys, "argv", ["bahdanau", "train", "--workdir", "w\udcff"])
    for at in (0, 12):
        run_record.append_record(tmp_path, config, at, has_ended=False)
    run_record.append_record(tmp_path, config, 12, has_ended=True)
    first, second = json.loads((tmp_path / RECORD).read_text())  # none without an update
    assert (first["step"], second["step"], first["seed"]) == (0, 12, 7)
    assert first["command"] == sys.argv and first["versions"]["jax"] == jax.__version__
    assert first["devices"] == {"backend": "cpu", "kind": "cpu", "count": 1, "processes": 1}
    assert Config.from_json(json.dumps(first["config"])) == config
    assert first["environment"]["XLA_FLAGS_OF_THIS_TEST"] == "1"
    assert "SECRET_TOKEN" not in first["environment"]


def test_a_damaged_record_is_set_aside(tmp_path):
    (tmp_path / RECORD).write_text("[{")
    run_record.append_record(tmp_path, Config(), 3, has_ended=True)
    assert len(json.loads((tmp_path / RECORD).read_text())) == 1
    assert (tmp_path / "record.json.damaged").read_text() == "[{"


def test_the_state_of_the_checkout(tmp_path):
    """The commit is that of the checkout with the code, not of one around an installed copy."""
    run = lambda *words: subprocess.run(["git", "-C", tmp_path, *words], check=True)  # noqa: E731
    assert run_record.git(tmp_path) is None
    run("init", "-q")
    (tmp_path / "__init__.py").write_text("")
    assert run_record.git(tmp_path) is None
    run("add", ".")
    run("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
    clean = run_record.git(tmp_path)
    assert clean and re.fullmatch("[0-9a-f]{40}", clean["commit"]) and not clean["changed"]
    (tmp_path / "__init__.py").write_text("x = 1\n")
    assert run_record.git(tmp_path) == {**clean, "changed": True}


def test_compilations_are_logged_while_the_log_is_open(tmp_path):
    path = tmp_path / "compilations.jsonl"
    log = CompileLog(path)
    log.now = {"step": 3, "source": (2, 5)}

    def fresh(x):
        return x * 3 + 1

    jax.jit(fresh)(jnp.ones(3))
    jax.jit(fresh)(jnp.ones(3))  # the same program
    log.now = {}
    jax.jit(fresh)(jnp.ones(4))
    log.close()
    jax.jit(fresh)(jnp.ones(5))
    made = [json.loads(line) for line in path.read_text().splitlines()]
    ours = [line for line in made if "fresh" in line["program"]]
    assert len(ours) == 2
    assert (ours[0]["step"], ours[0]["source"]) == (3, [2, 5]) and "step" not in ours[1]
    assert ours[0]["seconds"] > 0 and not ours[0]["cached"]


def test_the_threads_of_a_search_compile_for_what_their_caller_does(tmp_path):
    log = CompileLog(tmp_path / "compilations.jsonl")
    log.now = {"step": 7, "for": "evaluation"}
    work = lambda size: float(jax.jit(lambda x: x * size + 2)(jnp.ones(size)).sum())  # noqa: E731
    assert len([*side_by_side(work, [11, 13, 17])]) == 3
    log.close()
    made = [json.loads(line) for line in (tmp_path / "compilations.jsonl").read_text().splitlines()]
    assert len(made) >= 3 and {(line["step"], line["for"]) for line in made} == {(7, "evaluation")}


def test_a_program_from_disk_is_known_by_the_thread_that_read_it(tmp_path):
    log = CompileLog(tmp_path / "compilations.jsonl")

    def compiled(name: str, from_disk: bool) -> None:
        if from_disk:
            monitoring.record_event(CACHE_HIT)
        monitoring.record_event_duration_secs(COMPILED, 1.0, fun_name=name)

    compiled("read", True)
    compiled("new", False)
    hits = log._hits.count
    other = threading.Thread(target=compiled, args=("read elsewhere", True))
    other.start()
    other.join()
    compiled("new again", False)
    assert log._hits.count == hits == 1
    log.close()
    lines = (tmp_path / "compilations.jsonl").read_text().splitlines()
    cached = {line["program"]: line["cached"] for line in map(json.loads, lines)}
    assert cached == {"read": True, "new": False, "read elsewhere": True, "new again": False}


@pytest.mark.slow
def test_a_trace_of_chosen_steps(step, tmp_path):
    profile = training.Profile.parse("2:4", tmp_path / "profile", 14)
    toy.train(tmp_path, step, profile=profile)
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))
    assert not profile.running


def test_a_trace_begins_and_ends_with_the_steps_that_are_named(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: seen.append(now))
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: seen.append(now))
    profile = training.Profile.parse("2:4", tmp_path / "profile", 14)
    for now in range(7):
        profile.at(now, None)
    assert seen == [2, 4]


def test_of_several_processes_the_first_alone_traces(tmp_path, one_of_two):
    profile = training.Profile.parse("2:4", tmp_path / "profile", 14)
    one_of_two(1)
    profile.at(2, None)
    assert not profile.running
    assert not profile.folder.exists()


def test_a_trace_that_the_end_of_the_run_cuts_off_is_written(step, tmp_path):
    profile = training.Profile.parse("12:400", tmp_path / "profile", 14)
    toy.train(tmp_path, step, profile=profile)
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))


@pytest.mark.parametrize("text", ["", "5", "5:", "a:b", "5:5", "7:3", "-1:3", "1:2:3", "1.5:2"])
def test_no_range_of_steps(text, tmp_path):
    with pytest.raises(ValueError, match="should be FIRST:LAST, such as 10:15"):
        training.Profile.parse(text, tmp_path, 14)


def test_a_range_that_the_run_does_not_reach(tmp_path):
    with pytest.raises(ValueError, match="14:16 begins at update 14, but this run ends with 14"):
        training.Profile.parse("14:16", tmp_path, 14)


def test_a_run_that_goes_on_from_later_takes_no_trace(step, tmp_path, caplog):
    profile = training.Profile.parse("2:4", tmp_path / "profile", 14)
    profile.begin(5)
    assert caplog.messages == ["--profile 2:4 takes no trace: this run resumes from update 5"]
    profile.at(5, None)
    assert not profile.running and not profile.folder.exists()


def poisoned(start: int):
    for at in range(start, 100):
        batch = toy.batch(at)
        yield batch if at < 6 else Batch(*batch[:4], np.full(toy.ROWS, np.nan, np.float32))


def test_the_batch_of_a_divergence_is_kept(step, tmp_path):
    with pytest.raises(training.Diverged) as diverged:
        toy.train(tmp_path, step, next_batches=poisoned, max_nonfinite=3, evaluate=None)
    path = tmp_path / "nonfinite-9.npz"
    assert f"up to step 9, whose batch is saved in {path}: lower" in str(diverged.value)
    batch = nonfinite_batch.load_batch(path)
    assert batch.source.tolist() == toy.batch(8).source.tolist() and np.isnan(batch.weight).all()
    state, _ = toy.parts()
    assert float(step(state, batch)[1].skipped) == 1  # it can be looked into


def test_a_full_disk_hides_no_divergence(step, tmp_path, monkeypatch):
    """In a group, only the run that diverged ends."""

    def full(path, **arrays):
        path.write_bytes(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(training.Diverged) as diverged:
        toy.train(tmp_path, step, next_batches=poisoned, max_nonfinite=3, evaluate=None)
    told = "whose batch cannot be saved (No space left on device): lower"
    assert f"up to step 9, {told}" in str(diverged.value)
    assert not [*tmp_path.rglob("*nonfinite*")]


def test_each_of_several_processes_keeps_its_rows(tmp_path, one_of_two):
    for process in (0, 1):
        one_of_two(process)
        path = nonfinite_batch.save_batch(tmp_path, 9, toy.batch(process))
        assert path == tmp_path / f"nonfinite-9-{process}.npz"
        assert (
            nonfinite_batch.load_batch(path).source.tolist() == toy.batch(process).source.tolist()
        )


def test_telemetry_reaches_the_lines_and_warns_once(tmp_path, capfd):
    optimizer = dataclasses.replace(toy.OPTIMIZER, epsilon=1e6, clip_norm=1e9)
    telemetry = training.Telemetry(optimizer, toy.CONFIG.steps)
    _, step = toy.parts(optimizer)
    toy.train(tmp_path, step, telemetry=telemetry)
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if "loss" in line]
    assert [line["step"] for line in updates] == [5, 10, 14]
    assert all(line["update_to_weight"] > 0 and line["gradient_rms"] > 0 for line in updates)
    assert updates[0]["below_epsilon"] == pytest.approx(1)
    assert capfd.readouterr().err.count("step 5: warning: √E[g²] is ") == 1


@pytest.mark.parametrize("content", ["nothing", "text", "other arrays"])
def test_another_file_is_no_batch(content, tmp_path):
    path = tmp_path / "batch.npz"
    path.write_bytes(b"" if content == "nothing" else b"a b c")
    if content == "other arrays":
        np.savez(path, a=np.zeros(2))
    with pytest.raises(ValueError, match=r"batch\.npz holds no batch that a run saved"):
        nonfinite_batch.load_batch(path)
