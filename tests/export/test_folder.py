"""An exported folder translates, in a process without this package, as the package does."""

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import platform
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax import exchange, export
from bahdanau_jax.cli import lines
from bahdanau_jax.export import folder as exporting
from bahdanau_jax.parsing import parse_json

LINES = [
    "The man saw a white house .",
    "",
    "Qwerty sees <unk> , n't it ?",
    "   ",
    "We sleep.",
    "the old man and the young woman see a small house in Canada " * 4,
    "\x01",
]
# The settings that bahdanau translate and translate.py share, each with an effect.
SEARCHES = [
    {"beam_size": 1, "length_normalization": "average"},
    {"beam_size": 5},
    {"beam_size": 5, "min_ratio": 0.5, "coverage": 0.3, "length_normalization": "wu"},
    {"beam_size": 6, "length_normalization": "wu", "alpha": 1.9},
    {"beam_size": 4, "min_ratio": 0.7, "shrink": True, "length_normalization": "average"},
    {"beam_size": 3, "min_ratio": 0.5, "max_ratio": 0.8, "ban_unk": True, "max_source": 7},
]
# The beginning of a process in which these imports fail, wherever the packages are.
BLOCKED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("bahdanau_jax", "flax", "safetensors", "sacremoses"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Refuse())
"""
ISOLATED = """
import json, runpy
libraries, folder, searches = sys.argv[1:]
sys.path.append(libraries)
program = runpy.run_path(f"{folder}/translate.py")
lines = json.load(sys.stdin)
texts = [program["Translator"](folder, **s).translate(lines) for s in json.loads(searches)]
names = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps({"texts": texts, "modules": names}))
"""


@pytest.fixture(scope="module")
def run(trained):
    return bj.load(trained[0])


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    output = tmp_path_factory.mktemp("exported") / "model"
    return output, export.write(run, output)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """A folder that holds only jax, numpy and what they need."""
    folder = tmp_path_factory.mktemp("libraries")
    site = Path(np.__file__).parents[1]
    for name in ("jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum", "scipy"):
        version = importlib.metadata.version(name)
        for file in (name, f"{name}.libs", f"{name}-{version}.dist-info"):
            if (site / file).exists():
                (folder / file).symlink_to(site / file)
    return folder


def isolated(*arguments, **options):
    command = [sys.executable, "-I", "-S", "-B", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=600, **options)


@pytest.mark.slow
def test_the_folder_translates_alone_with_all_settings(run, exported, libraries):
    arguments = libraries, exported[0], json.dumps(SEARCHES)
    done = isolated("-c", BLOCKED + ISOLATED, *arguments, input=json.dumps(LINES), text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert not {"bahdanau_jax", "flax", "optax", "sentencepiece"} & set(answer["modules"])
    for settings, texts in zip(SEARCHES, answer["texts"], strict=True):
        expected = [best.text for best in run.translate(LINES, **settings)]
        assert texts == expected, settings
    assert len({tuple(texts) for texts in answer["texts"]}) >= 4  # the settings have effects


def run_program(libraries, program, *options, text=b""):
    code = f"import sys, runpy; sys.path.append({str(libraries)!r}); del sys.argv[0];"
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    return isolated("-c", BLOCKED + code, program, *options, input=text)


@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_the_folder_translates_alone(run, exported, libraries, beam_size):
    options = "--beam-size", beam_size, "--min-ratio", "0.5"
    text = "\n".join([*LINES, "no \x85 end of a line"]).encode() + b" \xff"
    done = run_program(libraries, exported[0] / "translate.py", *options, text=text)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = text.decode("utf-8", "replace").split("\n")
    best = run.translate(lines, beam_size=beam_size, min_ratio=0.5)
    assert done.stdout.decode() == "".join(f"{' '.join(h.text.split())}\n" for h in best)
    assert len({h.text for h in best}) > 3


def test_lines_of_a_pipe_are_translated_as_they_arrive(run, exported):
    """The first line has only a byte-order mark, which is removed."""
    lines, settings = ["\ufeff", "We sleep ."], {"beam_size": 1, "min_ratio": 0.9}
    mark, second = (best.text for best in run.translate(lines, **settings))
    assert mark and second
    command = [sys.executable, exported[0] / "translate.py", "--beam-size=1", "--min-ratio=0.9"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        timer = threading.Timer(300, process.kill)
        timer.daemon = True
        timer.start()
        for line, expected in zip(lines, ["", second], strict=True):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{expected}\n"
        timer.cancel()
        process.stdin.close()


def test_errors_of_the_program_take_one_line(exported, libraries):
    program = exported[0] / "translate.py"
    wrong = run_program(libraries, program, "--beam-size", "0")
    assert wrong.returncode == 2 and b"should be above 0" in wrong.stderr.splitlines()[-1]
    missing = isolated("-c", "import runpy, sys; runpy.run_path(sys.argv[1])", program)
    assert missing.returncode == 1
    assert missing.stderr.startswith(b"no module jax: python -m pip install -r ")


@pytest.mark.slow
def test_streams_that_are_full_or_closed_are_one_line(exported):
    command = shlex.join([sys.executable, str(exported[0] / "translate.py")])
    for redirected in ("> /dev/full", "<&-", ">&-"):
        line = f"echo We sleep. | {command} {redirected}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.startswith("translate.py: "), done.stderr
        assert done.stderr.count("\n") == 1
    full = f"echo We sleep. | {command} > /dev/full 2> /dev/full"
    assert subprocess.run(["sh", "-c", full]).returncode == 1
    longest = parse_json((exported[0] / "config.json").read_text(encoding="utf-8"))["export"]
    line = f"printf '%0{longest['longest_line']['bytes'] + 1}d' 0 | {command} 2>&-"
    assert subprocess.check_output(["sh", "-c", line]) == b"\n"  # and no warning


@pytest.mark.parametrize(
    ("option", "value"),
    [
        pytest.param("max-ratio", "nan", marks=pytest.mark.slow),
        pytest.param("max-ratio", "inf", marks=pytest.mark.exhaustive),
        pytest.param("alpha", "nan", marks=pytest.mark.exhaustive),
        pytest.param("shrink", "maybe", marks=pytest.mark.exhaustive),
    ],
)
def test_settings_that_no_search_has_are_refused(exported, libraries, option, value):
    program = exported[0] / "translate.py"
    done = run_program(libraries, program, f"--{option}", value, text=b"We sleep .")
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"argument --{option}: invalid" in done.stderr.decode().splitlines()[-1]


SETTINGS = """
import json, runpy, sys
libraries, folder = sys.argv[1:]
sys.path.append(libraries)
Translator = runpy.run_path(f"{folder}/translate.py")["Translator"]
for settings in json.load(sys.stdin):
    try:
        Translator(folder, **settings)
    except ValueError as error:
        print(error)
try:
    Translator(folder).translate("We sleep .")
except TypeError as error:
    print(error)
"""


def test_settings_that_contradict_each_other_are_refused_in_python_too(exported, libraries):
    settings = [{"beamsize": 1}, {"min_ratio": 3.0}]
    settings += [{"coverage": float("nan")}, {"shrink": "false"}, {"max_source": 1.5}]
    arguments = "-c", BLOCKED + SETTINGS, libraries, exported[0]
    done = isolated(*arguments, input=json.dumps(settings), text=True)
    unknown, contradiction, *kinds, text = done.stdout.splitlines()
    assert unknown.startswith("no settings beamsize; known: beam_size, ")
    assert contradiction.startswith("--min-ratio should be below --max-ratio")
    assert kinds == [
        "coverage is nan, but should be a finite number",
        "shrink is 'false', but should be a bool",
        "max_source is 1.5, but should be a int",
    ]
    assert text == "lines should be a list of lines, not a text"


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def empty(path):
    path.write_bytes(b"")


def change(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("config.json", cut),
        ("config.json", lambda path: path.write_text("[]")),
        ("model.safetensors", change),
        ("prepare.jaxexport", cut),
        ("encode.jaxexport", empty),
        ("step.jaxexport", Path.unlink),
        ("vocabulary/source.txt", cut),
        ("beam.py", cut),
        ("flatbuffers/table.py", empty),
    ],
)
def test_a_damaged_folder_is_one_line(exported, libraries, tmp_path, file, damage):
    folder = tmp_path / "model"
    shutil.copytree(exported[0], folder)
    damage(folder / file)
    done = run_program(libraries, folder / "translate.py", text=b"We sleep .")
    assert (done.returncode, done.stdout) == (1, b"")
    assert len(done.stderr.splitlines()) == 1 and b"export it again" in done.stderr
    assert file == "config.json" or Path(file).name.encode() in done.stderr


def written(folder):
    """The files in a folder, without the bytecode of Python, which may have run there."""
    paths = folder.rglob("*")
    return [path for path in paths if path.is_file() and path.parent.name != "__pycache__"]


def test_what_is_in_the_folder(run, exported):
    output, sizes = exported
    paths = written(output)
    files = {path.relative_to(output).parts[0] for path in paths}
    assert files == {name.rstrip("/") for name in sizes}
    assert sum(sizes.values()) == sum(path.stat().st_size for path in paths)
    for name in exporting.PROGRAMS:
        assert len((output / name).read_text(encoding="utf-8").splitlines()) <= 200
    assert len((output / "translate.py").read_text(encoding="utf-8").splitlines()) <= 150
    config = parse_json((output / "config.json").read_text(encoding="utf-8"))
    digests = config["export"]["sha256"]
    digest = hashlib.sha256((output / "model.safetensors").read_bytes()).hexdigest()
    assert digests["model.safetensors"] == digest
    assert files - {name.partition("/")[0] for name in digests} == {
        *("README.md", "config.json", "requirements.txt")
    }
    assert config["export"]["checkpoint"] == run.chosen.to_json()
    assert config["export"]["versions"]["jax"] == importlib.metadata.version("jax")


@pytest.mark.slow
def test_the_weights_are_imported_again(run, exported, tmp_path):
    exchange.import_weights(exported[0] / "model.safetensors", tmp_path / "new")
    assert bj.load(tmp_path / "new").translate(LINES) == run.translate(LINES)


def test_the_same_run_gives_the_same_bytes_and_stays_as_it_is(run, exported, tmp_path):
    def contents(folder):
        files = written(folder)
        return {p.relative_to(folder): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}

    before = contents(run.folder)
    export.write(bj.load(run.folder), tmp_path / "model")
    assert contents(run.folder) == before
    ours, theirs = contents(tmp_path / "model"), contents(exported[0])
    assert {n: data for n, (data, _) in ours.items()} == {n: d for n, (d, _) in theirs.items()}


def test_an_export_appears_whole_or_not_at_all(run, exported, tmp_path, monkeypatch):
    output = tmp_path / "model"
    output.mkdir()
    earlier = {"format": exporting.FORMAT, "export": {"sha256": {}}}
    (output / "config.json").write_text(json.dumps(earlier))
    monkeypatch.setattr(exporting, "card", lambda facts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export.write(run, output, overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "config.json"]
    monkeypatch.undo()
    export.write(run, output, overwrite=True)
    assert (output / "translate.py").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_files_of_others_in_an_export_are_not_lost(run, exported, tmp_path):
    """An export that became a repository, for example."""
    output = shutil.copytree(exported[0], tmp_path / "model")
    for name in ("__pycache__", "flatbuffers/__pycache__"):
        (output / name).mkdir(exist_ok=True)
        (output / name / "module.cpython-311.pyc").write_bytes(b"of Python")
    export.check(run.config, output, run.folder, overwrite=True)
    for name in (".git", "vocabulary/of_mine", "flatbuffers/notes.txt", "__pycache__/notes.txt"):
        (output / name).mkdir()
        with pytest.raises(ValueError, match=rf"besides those of the export \({name}\), which"):
            export.check(run.config, output, run.folder, overwrite=True)
        (output / name).rmdir()
    (output / "link").symlink_to(exported[0])
    (output / "vocabulary" / "__pycache__").mkdir()
    assert exporting._others(output) == ["link", "vocabulary/__pycache__"]


def test_what_cannot_be_exported_is_refused(run, exported, tmp_path):
    def refused(message, output, config=run.config, overwrite=False):
        with pytest.raises(ValueError, match=message) as error:
            export.check(config, output, run.folder, overwrite)
        assert "\n" not in str(error.value)

    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_text('{"format": "bahdanau_jax export"}')
    refused("half has other files in it", tmp_path / "half", overwrite=True)
    refused("is no UTF-8: rename it", tmp_path / "mod\udce9l")
    (tmp_path / "file").write_text("")
    refused("file is a file: name a folder", tmp_path / "file")
    refused("has other files in it: choose a new folder", tmp_path, overwrite=True)
    with pytest.raises(FileExistsError, match="holds an export"):
        export.check(run.config, exported[0], run.folder, overwrite=False)
    refused("lie in each other: choose another folder", run.folder / "exported")
    refused("lie in each other: choose another folder", run.folder.parent, overwrite=True)
    own = dataclasses.replace(run.config.model, attention="my_scores:cosine")
    refused(
        "model.attention is 'my_scores:cosine', code of your own",
        tmp_path / "new",
        dataclasses.replace(run.config, model=own),
    )
    export.check(run.config, exported[0], run.folder, True)


def test_a_line_is_too_long_here_where_it_is_for_the_command():
    assert exporting.LONGEST_BYTES == lines.LONGEST


def test_the_card_leaves_out_what_belongs_to_the_machine(exported):
    card = (exported[0] / "README.md").read_text(encoding="utf-8")
    assert "| hardware | " in card
    assert platform.platform() not in card and "| command |" not in card


def test_a_run_that_samples_is_exported_with_beam_search(run, tmp_path, caplog):
    decoding = dataclasses.replace(run.config.decoding, method="sample", temperature=0.5)
    sampling = dataclasses.replace(run, config=dataclasses.replace(run.config, decoding=decoding))
    with caplog.at_level(logging.WARNING):
        export.write(sampling, tmp_path / "model")
    assert "the exported folder searches by beam, not by sample" in caplog.text
    written = parse_json((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    assert written["decoding"]["method"] == "beam"


@pytest.mark.skipif(not importlib.util.find_spec("yaml"), reason="PyYAML is not installed")
def test_the_card_is_read_by_hubs(run, exported):
    import yaml

    _, matter, text = (exported[0] / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    card = yaml.safe_load(matter)
    assert card["license"] == "apache-2.0" and card["language"] == ["en", "fr"]
    assert card["pipeline_tag"] == "translation" and "jax" in card["tags"]
    (model,) = card["model-index"]
    (result,) = model["results"]
    scores = parse_json((run.folder / "report" / "scores.json").read_text(encoding="utf-8"))
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert model["name"] == "model" and result["task"]["type"] == "translation"
    assert result["dataset"]["name"] == run.config.data.test
    assert values["bleu"] == pytest.approx(scores["BLEU"], abs=1e-4)
    assert values["aer"] == pytest.approx(scores["AER"], abs=1e-4)
    assert str(run.folder) not in text  # no path of this machine
