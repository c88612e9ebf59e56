"""Configurations by file and by name, overrides, and errors that point to a line."""

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bahdanau_jax import configurations
from bahdanau_jax.cli import experiment
from bahdanau_jax.config import Config, ModelConfig

ROOT = Path(__file__).resolve().parents[2]
SMALL = "from bahdanau_jax.config import Config, ModelConfig\n\n"


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(SMALL + "config = Config(model=ModelConfig(hidden_size=7, gate_bias=False))\n")
    return path


def test_train_checks_trains_and_reports(call, run, small, tmp_path):
    workdir = tmp_path / "run"
    code, out, err = call("train", small, "--workdir", workdir)
    config = Config(model=ModelConfig(hidden_size=7, gate_bias=False))
    assert code == 0
    quoted = shlex.quote(str(workdir))
    assert err == f"next: echo 'The man saw a white house .' | bahdanau translate --run {quoted}\n"
    assert out == f"BLEU 93.1\n{workdir}/report/alignment.png\n"
    assert run.calls == [("check", config), ("train", config, workdir)]


def test_prepare_prints_a_table_and_its_statistics_as_json(call, run, small, tmp_path):
    code, out, err = call("prepare", small, "--workdir", tmp_path)
    assert (code, err) == (0, "pairs read 12\n")
    assert json.loads(out) == {"read": 12, "workdir": str(tmp_path)}


def test_the_name_of_a_dataset_that_is_not_written_is_refused(call, run, small, tmp_path):
    code, out, err = call("prepare", small, "--workdir", tmp_path, "--name", "my_pairs")
    assert (code, out, err) == (2, "", "bahdanau: --name needs --tfds, which is missing\n")
    assert run.calls == []


OVERRIDES = {
    "--model.hidden-size": ("512", "model", "hidden_size", 512),
    "--model.hidden_size": ("512", "model", "hidden_size", 512),
    "--model.gate-bias": ("True", "model", "gate_bias", True),
    "--data.dev": ("", "data", "dev", ""),
    "--optimizer.learning-rate": ("2e-3", "optimizer", "learning_rate", 2e-3),
    "--training.seed": ("3", "training", "seed", 3),
    "--decoding.alpha": ("-1", "decoding", "alpha", -1.0),
}


@pytest.mark.parametrize("option", OVERRIDES)
@pytest.mark.parametrize("first", [True, False])
def test_any_field_is_overridden_and_the_others_kept(call, run, small, tmp_path, option, first):
    value, section, field, expected = OVERRIDES[option]
    given = [option, value, small] if first else [small, f"{option}={value}"]
    code, _, err = call("train", "--workdir", tmp_path, *given)
    assert code == 0 and err.splitlines()[-1].startswith("next: echo ")
    changed = dataclasses.asdict(run.calls[0][1])
    assert changed[section][field] == expected
    original = dataclasses.asdict(experiment.load(str(small)))
    original[section][field] = expected
    assert changed == original


MINE = "text:my.en,my.fr"
# The corpora of a configuration, the options on the command line, the resulting dev and test pairs.
CORPORA = {
    "other text": ('train="text:a,b", dev="text:c,d"', ["--data.train", MINE], ("", "")),
    "built-in": ("", ["--data.train", MINE], ("", "")),
    "= and _": ("", [f"--data.train={MINE}", "--data.batch_size", "3"], ("", "")),
    "named": (
        "",
        ["--data.train", MINE, "--data.test", "text:t,u"],
        ("", "text:t,u"),
    ),
    "named as before": (
        'test="builtin:en-fr/test"',
        ["--data.test", "builtin:en-fr/test", "--data.train", MINE],
        ("", "builtin:en-fr/test"),
    ),
    "more text": (
        'train="text:a,b", dev="text:c,d"',
        ["--data.train", f"text:a,b; {MINE}"],
        ("text:c,d", ""),
    ),
    "a task": (
        "",
        ["--data.train", "builtin:copy/train"],
        ("builtin:copy/dev?pairs=500", "builtin:copy/test?pairs=500"),
    ),
    "nothing": ('train="text:a,b"', ["--data.batch-size", "3"], ("", "")),
}


@pytest.mark.parametrize("case", CORPORA)
def test_another_training_corpus_leaves_dev_and_test_pairs_behind(call, run, tmp_path, case):
    fields, given, expected = CORPORA[case]
    path = tmp_path / "mine.py"
    path.write_text(
        "from bahdanau_jax.config import Config, DataConfig\n\n"
        f"config = Config(data=DataConfig({fields}))\n"
    )
    assert call("train", path, "--workdir", tmp_path, *given)[0] == 0
    data = run.calls[0][1].data
    assert (data.dev, data.test) == expected


def test_help_shows_what_the_configuration_says(call, small, tmp_path):
    shown = call("train", small, "--help")[1]
    assert "(default: 7)" in shown
    assert "CONFIG" in shown and "(required)" in shown
    assert "(default: 7)" not in call("train", "--help")[1]
    assert "--model.hidden-size" in call("train", tmp_path / "missing.py", "--help")[1]


FAULTY = {
    "x = 1\nconfig = Config(\n": (2, "'(' was never closed"),
    "x = 1\n\nconfig = x.size\n": (3, "AttributeError: 'int' object has no attribute 'size'"),
    "import no_such_module\n": (1, "ModuleNotFoundError: No module named 'no_such_module'"),
    SMALL + "config = Config(model=ModelConfig(hidden=3))\n": (
        3,
        "ModelConfig has no field hidden; did you mean hidden_size?",
    ),
    SMALL + "config = Config(attention='dot')\n": (
        3,
        "Config has no field attention; known: model, data, optimizer, training, decoding",
    ),
    "raise SystemExit(0)\n": (1, "SystemExit: 0"),
    SMALL + "def make():\n    raise ValueError('no\\nway')\n\nconfig = make()\n": (
        4,
        "ValueError: no way",
    ),
}


@pytest.mark.parametrize("text", FAULTY)
def test_a_fault_in_a_configuration_names_file_and_line(call, tmp_path, text):
    path = tmp_path / "faulty.py"
    path.write_text(text)
    line, message = FAULTY[text]
    code, out, err = call("train", path, "--workdir", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(f"bahdanau: {path}:{line}: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("ModelConfig(hidden_size='many')", "model.hidden_size should be int, not 'many'"),
        ("ModelConfig(hidden_size=True)", "model.hidden_size should be int, not True"),
        ("Config()", "no field model.data; known: "),
        ("3", "model should be an object, not 3"),
        ("ModelConfig(hidden_size={1, 2})", "Object of type set is not JSON serializable"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(call, tmp_path, section, message):
    path = tmp_path / "faulty.py"
    path.write_text(SMALL + f"config = Config(model={section})\n")
    code, out, err = call("train", path, "--workdir", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(f"bahdanau: {path}: {message}")
    assert err.count("\n") == 1


def test_an_integer_serves_where_a_number_is_meant(tmp_path):
    path = tmp_path / "whole.py"
    path.write_text(
        "from bahdanau_jax.config import *\nconfig = Config(optimizer=OptimizerConfig(epsilon=1))"
    )
    assert type(experiment.load(str(path)).optimizer.epsilon) is float


@pytest.mark.parametrize(("text", "got"), [("x = 1\n", "nothing"), ("config = {}\n", "a dict")])
def test_a_file_without_a_config_says_what_was_expected(call, tmp_path, text, got):
    path = tmp_path / "other.py"
    path.write_text(text)
    code, _, err = call("train", path, "--workdir", tmp_path)
    assert code == 2
    assert err.startswith(f"bahdanau: {path} defines {got} of the name config; expected config =")


def test_names_find_what_is_shipped(monkeypatch, tmp_path):
    shipped = {"quickstart": tmp_path / "quickstart.py", "reverse": tmp_path / "reverse.py"}
    monkeypatch.setattr(configurations, "shipped", lambda: shipped)
    monkeypatch.chdir(tmp_path)
    for name in ("quickstart", "quickstart.py", "configs/quickstart.py"):
        assert configurations.locate(name) == shipped["quickstart"]
    for name in ("quikstart", "configs/quikstart.py"):
        with pytest.raises(ValueError, match="did you mean quickstart[?] shipped: quickstart, rev"):
            configurations.locate(name)
    for name in ("other/quickstart.py", "quickstart.json", str(tmp_path)):
        with pytest.raises(ValueError, match="no such configuration file"):
            configurations.locate(name)
    own = tmp_path / "configs"
    own.mkdir()
    (own / "quickstart.py").write_text("")
    assert configurations.locate("configs/quickstart.py") == Path("configs/quickstart.py")


def test_every_shipped_configuration_loads():
    shipped = configurations.shipped()
    assert set(shipped) == {path.stem for path in (ROOT / "configs").glob("*.py")}
    for path in shipped.values():
        assert isinstance(experiment.load(str(path)), Config)


def test_train_py_is_the_train_command(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "train.py", "missing.py", "--workdir", tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("bahdanau: missing.py: no such configuration file; ")
