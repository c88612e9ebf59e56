"""The user's own code by its name; a received file's code runs only with permission."""

import dataclasses
import json
import math
import shutil
import sys

import pytest
import safetensors
from safetensors import numpy as tensors

import bahdanau_jax as bj
from bahdanau_jax import exchange
from bahdanau_jax.run import train
from bahdanau_jax.user_code import CODE, imported, is_code, module_file, refuse_code

CODE_OF_OTHERS = """
from pathlib import Path
from bahdanau_jax.model.attention import SCORES
Path(__file__).with_name("ran").touch()
score = SCORES["additive"]
"""


@pytest.fixture
def received(trained, tmp_path, monkeypatch):
    """A run folder that names a module of the current folder, which writes the file `ran`."""
    folder = shutil.copytree(trained[0], tmp_path / "received")
    record = json.loads((folder / "config.json").read_text())
    record["model"]["attention"] = "of_others:score"
    (folder / "config.json").write_text(json.dumps(record))
    (tmp_path / "of_others.py").write_text(CODE_OF_OTHERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "of_others", None)  # forgotten at the end
    del sys.modules["of_others"]
    return folder


@pytest.mark.parametrize(
    "options",
    [
        ("translate", "--input", "text"),
        ("evaluate", "--source", "text", "--reference", "text"),
        ("align", "--source", "text", "--target", "text"),
        ("checkpoints", "--export", "model.safetensors"),
        ("decode",),
    ],
    ids=lambda options: options[0],
)
def test_a_received_run_asks_before_it_runs_code(
    received, command_line, benchmark, tmp_path, options
):
    (tmp_path / "text").write_text("We sleep.\n")
    run = benchmark if options == ("decode",) else command_line
    code, _, err = run(*options, "--run", "received")
    assert code == 2 and not (tmp_path / "ran").exists()
    assert err == (
        "bahdanau: received/config.json names code: model.attention is 'of_others:score', which "
        f"would run {tmp_path}/of_others.py; if you trust that code, add --trust-code True, or in "
        "Python trust_code=True\n"
    )


def test_trusted_code_runs_and_its_weights_travel(received, command_line, tmp_path):
    with pytest.raises(ValueError, match="trust_code=True"):
        bj.load("received")
    options = ("--run", "received", "--export", "model.safetensors", "--trust-code", "True")
    assert command_line("checkpoints", *options)[0] == 0
    (tmp_path / "ran").unlink()
    del sys.modules["of_others"]
    with pytest.raises(ValueError, match="model.safetensors names code: model.attention is 'of_"):
        exchange.import_weights(tmp_path / "model.safetensors", tmp_path / "new")
    assert not (tmp_path / "ran").exists()
    exchange.import_weights(tmp_path / "model.safetensors", tmp_path / "new", trust_code=True)
    assert (tmp_path / "ran").exists()
    assert bj.load("new", trust_code=True).config.model.attention == "of_others:score"


def test_who_trains_named_the_code_himself(received, tmp_path, capfd):
    """No update is left to make, but the model is loaded."""
    sys.path.append(str(tmp_path))
    before = (received / "config.json").read_bytes()
    config = bj.Config.load(received / "config.json")
    fewer = dataclasses.replace(config, training=dataclasses.replace(config.training, steps=3))
    assert train(fewer, received).config == config
    assert (received / "config.json").read_bytes() == before
    told = f"{received} has 30 updates, and training.steps is 3: no update is left to make; "
    assert capfd.readouterr().err == f"{told}its config.json stays as it is\n"
    other = dataclasses.replace(fewer, model=dataclasses.replace(config.model, hidden_size=18))
    with pytest.raises(ValueError, match="holds another run: its model.hidden_size is 48, not 18"):
        train(other, received)


def test_metadata_nested_too_deeply(received, tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    sys.path.append(str(tmp_path))
    exchange.export_weights(received, path, trust_code=True)
    with safetensors.safe_open(path, "numpy") as file:
        metadata = dict(file.metadata())
    for name in ("config", "vocabulary"):
        tensors.save_file(tensors.load_file(path), path, metadata | {name: "[" * 100_000})
        with pytest.raises(ValueError, match="metadata are damaged: its brackets are nested"):
            exchange.import_weights(path, tmp_path / "new")


def test_every_field_of_code_is_asked_about():
    for field in CODE:
        section, name = field.split(".")
        part = dataclasses.replace(getattr(bj.Config(), section), **{name: "no_such.module:x"})
        config = dataclasses.replace(bj.Config(), **{section: part})
        with pytest.raises(ValueError, match=f"{field} is 'no_such.module:x', which is not found"):
            refuse_code(config, "config.json", False)
        refuse_code(config, "config.json", True)
    refuse_code(bj.Config(), "config.json", False)


@pytest.mark.parametrize("name", ["", ".", ".x", "a..b", "x\0y", "json.no", "__main__.x", "\ud800"])
def test_names_that_are_no_modules(name):
    assert module_file(name) is None


def test_a_module_of_a_package_is_found_and_the_package_does_not_run(tmp_path, monkeypatch):
    folder = tmp_path / "package_of_others" / "inner"
    folder.mkdir(parents=True)
    for path in (folder.parent / "__init__.py", folder / "deep.py"):
        path.write_text("raise SystemExit('it ran')")
    monkeypatch.chdir(tmp_path)
    assert module_file("package_of_others") == str(folder.parent / "__init__.py")
    assert module_file("package_of_others.inner.deep") == str(folder / "deep.py")
    assert module_file("json.decoder").endswith("json/decoder.py")


def test_a_users_own_code():
    assert is_code("math:pi") and not is_code("additive")
    assert imported("math:pi", "model.attention") == math.pi


@pytest.mark.parametrize("name", [":score", "my_scores:"])
def test_a_name_without_a_module_or_an_attribute(name):
    with pytest.raises(ValueError, match=f"model.attention is '{name}'; expected module:attribute"):
        imported(name, "model.attention")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = a +\n", "SyntaxError: invalid syntax ({name}.py, line 2) ({file}:2)"),
        ("a = 1\n\nb = 1 / 0\n", "ZeroDivisionError: division by zero ({file}:3)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 ({file}:2)"),
        ("a = 1\n", "AttributeError: module '{name}' has no attribute 'score'"),
        ("import json\n\njson.loads('{{')\n", "JSONDecodeError: Expecting property"),
    ],
)
def test_a_users_own_code_that_fails(text, message, tmp_path, monkeypatch, request):
    """The message is one line, and names the last line that was run in the user's file."""
    name = f"own_{request.node.callspec.indices['text']}"
    file = tmp_path / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError) as raised:
        imported(f"{name}:score", "model.attention")
    start = f"model.attention is '{name}:score', but "
    assert str(raised.value).startswith(start + message.format(name=name, file=file))
    assert "\n" not in str(raised.value)
    if "json" in text:
        assert str(raised.value).endswith(f"({file}:3)")
