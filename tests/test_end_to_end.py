"""The command line as users run it: a new run, and its resumption after every kind of stop."""

import json
import random
import re
import signal
import subprocess
import time

import jax
import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax import training
from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.training import monitor, run_record
from tests import small

NO_TEST = ("--data.test", "")  # a run without a report, whose figures take most of its time


def lines(workdir) -> list[dict]:
    """metrics.jsonl without times and rates."""
    text = (workdir / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in monitor.TIMES} for line in text]


def state(workdir) -> dict[str, np.ndarray]:
    """All arrays of the newest checkpoint: parameters, optimiser, step, key."""
    config = bj.Config.load(workdir / "config.json")
    template = jax.eval_shape(training.Trainer(config).begin)
    checkpoints = Checkpointer(workdir / "checkpoints")
    restored = checkpoints.restore(template)
    checkpoints.close()
    restored = restored.replace(key=jax.random.key_data(restored.key))
    leaves = jax.tree_util.tree_leaves_with_path(restored)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def assert_equal_runs(ours, theirs):
    assert lines(ours) == lines(theirs)
    a, b = state(ours), state(theirs)
    assert a.keys() == b.keys() and len(a) > 60
    for name in a:
        assert a[name].tobytes() == b[name].tobytes(), name


def test_training_fills_the_folder(trained):
    workdir, done = trained
    assert {path.name for path in workdir.iterdir()} == {
        "record.json",
        "compilations.jsonl",
        "config.json",
        "vocabulary",
        "store",
        "checkpoints",
        "metrics.jsonl",
        "tensorboard",
        "report",
        ".lock",
    }
    config = bj.Config.load(workdir / "config.json")
    assert bj.Config.from_json(config.to_json()) == config
    assert config.model.source_vocabulary > 50
    assert (config.data, config.optimizer, config.training, config.decoding) == (
        small.config.data,
        small.config.optimizer,
        small.config.training,
        small.config.decoding,
    )
    assert re.search(r"^BLEU \d", done.stdout, re.M) and "Traceback" not in done.stderr
    assert "step 30/30: loss " in done.stderr


def test_metrics_follow_the_schedule(trained):
    found = lines(trained[0])
    made = [line["step"] for line in found if "loss" in line]
    assert made == [4, 8, 12, 16, 20, 24, 28, 30]
    assert [line["step"] for line in found if "dev_loss" in line] == [10, 20, 30]
    assert found[-1]["dev_loss"] < found[2]["dev_loss"]
    kept = {int(path.name) for path in (trained[0] / "checkpoints").iterdir()}
    assert {28, 30} <= kept


def test_translate_and_evaluate(trained, command_line, tmp_path):
    source, reference = tmp_path / "a.en", tmp_path / "a.fr"
    source.write_text("We sleep.\n\nI am tired.\n")
    reference.write_text("Nous dormons.\n\nJe suis fatigué.\n")
    done = small.bahdanau("translate", "--run", trained[0], input=source.read_text())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 3 and done.stdout.split("\n")[1] == ""
    sides = ("--source", source, "--reference", reference)
    code, out, err = command_line(
        "evaluate", "--run", trained[0], *sides, "--output", tmp_path / "out"
    )
    assert code == 0
    scores = json.loads(out)
    assert f"BLEU {scores['BLEU']:.1f}" in err.splitlines()
    assert scores["sentences"] == 3
    assert (tmp_path / "out" / "translations.txt").read_text().count("\n") == 3


def checkpoints_of(workdir) -> dict[str, int]:
    files = (workdir / "checkpoints").rglob("*")
    return {str(path): path.stat().st_mtime_ns for path in files if path.is_file()}


@pytest.mark.slow
def test_training_a_finished_run_again_changes_nothing(trained, command_line, monkeypatch):
    workdir, first = trained
    begin = training.Trainer.begin

    def traced(self):  # for its shapes alone: there may be no room for a second state
        assert isinstance(jax.numpy.zeros(()), jax.core.Tracer)
        return begin(self)

    monkeypatch.setattr(training.Trainer, "begin", traced)
    before, kept = (workdir / "metrics.jsonl").read_bytes(), checkpoints_of(workdir)
    code, out, err = command_line(*small.train(workdir))
    told = [line for line in err.splitlines() if not line.endswith(" ...")]  # of slow stages
    assert code == 0 and told[0] == "resuming from step 30 of 30"
    assert len(told) == 2 and told[1].startswith("next: echo 'The man saw a white house .' | ")
    assert out == first.stdout
    assert (workdir / "metrics.jsonl").read_bytes() == before
    assert checkpoints_of(workdir) == kept


@pytest.mark.slow
def test_patience_stops_early(command_line, tmp_path):
    settings = ("--training.patience", 2, "--training.evaluate-every", 3, "--training.steps", 60)
    settings += ("--training.dev-metric", "exact", *NO_TEST)
    code, _, err = command_line(*small.train(tmp_path / "run", *settings))
    assert code == 0
    evaluated = [line["step"] for line in lines(tmp_path / "run") if "dev_loss" in line]
    assert evaluated == [3, 6, 9]  # not one sentence is right, so the first is never beaten
    code, _, err = command_line(*small.train(tmp_path / "run", *settings))
    assert code == 0 and "compiling" not in err
    assert max(line["step"] for line in lines(tmp_path / "run")) == 9
    assert [start["step"] for start in run_record.read_record(tmp_path / "run")] == [0]


PAIRS = """\
我爱吃苹果\tI love to eat apples
我爱吃米饭\tI love to eat rice
我爱喝茶\tI love to drink tea
我不爱喝茶\tI do not love to drink tea
他爱吃苹果\tHe loves to eat apples
她爱喝水\tShe loves to drink water
我们吃米饭\tWe eat rice
他们喝茶\tThey drink tea
苹果很好吃\tThe apples taste good
茶很热\tThe tea is hot
你吃什么？\tWhat do you eat?
"""

CHINESE = bj.Config(
    model=bj.ModelConfig(
        embedding_size=24, hidden_size=32, alignment_size=24, readout_size=24, attention="general"
    ),
    data=bj.DataConfig(
        train="text:a.zh,a.en",
        dev="",
        test="",
        source_language="zh",
        target_language="en",
        tokenizer="none",
        vocabulary="characters",
        batch_size=11,
        shapes=1,
    ),
    optimizer=bj.OptimizerConfig(name="adam", learning_rate=1e-2, loss_normalization="token"),
    training=bj.TrainingConfig(steps=250, log_every=50, checkpoint_every=0),
    decoding=bj.DecodingConfig(beam_size=2, max_ratio=10.0),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bahdanau_jax.figures.drawing.MissingFont")
def test_chinese_trains_translates_and_draws(tmp_path, monkeypatch):
    monkeypatch.setenv("BAHDANAU_DATA", str(tmp_path))
    source, target = zip(*(line.split("\t") for line in PAIRS.splitlines()), strict=True)
    (tmp_path / "a.zh").write_text("\n".join(source), encoding="utf-8")
    (tmp_path / "a.en").write_text("\n".join(target), encoding="utf-8")
    run = bj.train(CHINESE, tmp_path / "run")
    found = run.translate(source)
    assert [best.text for best in found] == list(target)
    assert found[0].text == "I love to eat apples"
    assert found[0].source_tokens == (*"我爱吃苹果", "</s>")
    bj.figures.alignment(found[0]).savefig(tmp_path / "alignment.png")
    bj.figures.alignment(found[0]).savefig(tmp_path / "alignment.svg")
    drawn = (tmp_path / "alignment.svg").read_text(encoding="utf-8")
    assert all(f">{character}<" in drawn for character in "我爱吃苹果")
    assert (tmp_path / "alignment.png").read_bytes().startswith(b"\x89PNG")
    assert bj.load(tmp_path / "run").translate(["茶很热"])[0].text == "The tea is hot"


def start(workdir, *overrides) -> subprocess.Popen:
    return subprocess.Popen(
        small.command(*small.train(workdir, *overrides)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=small.ROOT,
    )


def wait_for(process, event, seconds: float = 120):
    """Wait until `event()` is true."""
    deadline = time.monotonic() + seconds
    while not event():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def reached(workdir, step: int):
    """Whether metrics.jsonl has a line of this step or a later one."""

    def event():
        path = workdir / "metrics.jsonl"
        return path.exists() and bool(found := lines_of(path)) and found[-1] >= step

    return event


def lines_of(path) -> list[int]:
    return [int(step) for step in re.findall(r'"step": (\d+)', path.read_text())]


def saving(workdir):
    """Whether a checkpoint is being written."""
    return lambda: any(not p.name.isdigit() for p in (workdir / "checkpoints").glob("*"))


def killed(workdir, when, delay: float = 0) -> None:
    """Train in another process, which is killed some seconds after an event."""
    process = start(workdir, *NO_TEST)
    try:
        wait_for(process, when)
        time.sleep(delay)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.exhaustive
def test_a_prepared_run_killed_as_it_saves_equals_one_that_never_was(
    trained, command_line, tmp_path
):
    workdir = tmp_path / "run"
    code, out, _ = command_line("prepare", small.FILE, "--workdir", workdir, *NO_TEST)
    assert code == 0 and json.loads(out)["kept"] == 300
    assert not (workdir / "checkpoints").exists()
    first_saved = workdir / "checkpoints" / "7"
    killed(workdir, lambda: first_saved.exists() and saving(workdir)())
    code, _, err = command_line(*small.train(workdir, *NO_TEST))
    assert code == 0 and "resuming from step " in err
    assert_equal_runs(workdir, trained[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_run_killed_again_and_again_equals_one_that_never_was(trained, tmp_path, seed):
    rng, workdir = random.Random(seed), tmp_path / "run"
    for when in (
        reached(workdir, 4),
        saving(workdir),
        reached(workdir, 10),
        saving(workdir),
        reached(workdir, rng.randint(12, 24)),
    ):
        killed(workdir, when, rng.uniform(0, 0.05))
    done = small.bahdanau(*small.train(workdir, *NO_TEST))
    assert done.returncode == 0, done.stderr
    assert_equal_runs(workdir, trained[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)]
)
def test_a_signal_saves_and_leaves(trained, tmp_path, number):
    workdir = tmp_path / "run"
    process = start(workdir)
    wait_for(process, reached(workdir, 4))
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    assert err.endswith(f"bahdanau: {workdir} is saved: run it again to go on\n")
    assert "Traceback" not in err
    assert not (workdir / "report").exists()
    step = max(int(path.name) for path in (workdir / "checkpoints").iterdir())
    assert 4 <= step < 30
    assert small.bahdanau(*small.train(workdir)).returncode == 0
    assert_equal_runs(workdir, trained[0])


@pytest.mark.exhaustive
def test_a_second_trainer_is_refused(tmp_path, command_line):
    workdir = tmp_path / "run"
    process = start(workdir, *NO_TEST)
    try:
        wait_for(process, (workdir / "metrics.jsonl").exists)
        code, out, err = command_line(*small.train(workdir, *NO_TEST))
        assert (code, out) == (2, "")
        assert err.startswith(f"bahdanau: {workdir} is in use by another training run (process ")
        assert str(process.pid) in err and err.count("\n") == 1
    finally:
        process.kill()
        process.communicate()
