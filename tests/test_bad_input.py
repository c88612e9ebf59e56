"""Faulty files, settings and folders give exit code 2 and a line that helps."""

import hashlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from bahdanau_jax.data.sources.addresses import SOURCES
from tests import small

# Orbax's threads, still reading damaged files, when their loop is gone.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FILES = {
    "three.en": b"one\ntwo\nthree\n",
    "three.fr": b"un\ndeux\ntrois\n",
    "two.fr": b"un\ndeux\n",
    "latin.fr": "un\ndéux\ntrois\n".encode("latin1"),
    "empty": b"",
    "blank": b"\n\n\n",
}


def said(err: str) -> list[str]:
    """The lines of stderr without the names of stages, which appear on a busy machine."""
    return [line for line in err.splitlines() if not line.endswith(" ...")]


@pytest.fixture
def corpus(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.fixture
def refused(command_line):
    """Runs a command line that must fail; returns its complaint, without the name before it."""

    def run(*arguments):
        code, out, err = command_line(*arguments)
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        lines = said(err)
        assert all(line.startswith("bahdanau: ") for line in lines), err
        return "\n".join(line.removeprefix("bahdanau: ") for line in lines)

    return run


# The training corpus, further settings, and the expected message; {} is the folder of the files.
CORPORA = {
    "missing": (
        "no.en,three.fr",
        [],
        "no file {}/no.en (data.root is set, so relative",
    ),
    "unequal": (
        "three.en,two.fr",
        [],
        "{}/three.en has 3 lines, but {}/two.fr has 2: line n of one should",
    ),
    "no UTF-8": ("three.en,latin.fr", [], "{}/latin.fr, line 2: not valid UTF-8 (byte 2 of"),
    "empty": ("empty,empty", [], "the corpus text:empty,empty is empty: it has no sentence pair"),
    "blank": ("blank,blank", [], "no training pair is left of 3: "),
    "one side": ("three.en", [], "text:three.en should be text:SOURCE_FILE,TARGET_FILE"),
    "all too long": (
        "three.en,three.fr",
        ["--data.max-tokens", 1, "--data.vocabulary", "characters"],
        "no training pair is left of 3: 3 above data.max_tokens = 1; change these settings or look",
    ),
    "vocabulary too large": (
        "three.en,three.fr",
        ["--data.vocabulary", "sentencepiece"],
        "data.source_vocabulary_size is 30000, but this text gives at most 29 pieces: lower it to",
    ),
    "vocabulary too small": (
        "three.en,three.fr",
        ["--data.vocabulary", "sentencepiece", "--data.source-vocabulary-size", 5],
        "data.source_vocabulary_size is 5, but the characters of this text alone need 10: raise",
    ),
}


@pytest.mark.parametrize("case", CORPORA)
@pytest.mark.parametrize("verb", ["train", "prepare"])
def test_a_corpus_that_cannot_be_used(refused, corpus, tmp_path, case, verb):
    files, settings, message = CORPORA[case]
    told = refused(
        verb,
        small.FILE,
        "--workdir",
        tmp_path / "run",
        "--data.root",
        corpus,
        "--data.dev",
        "",
        "--data.test",
        "",
        "--data.train",
        f"text:{files}",
        *settings,
    )
    assert told.startswith(message.replace("{}", str(corpus)))
    assert "\n" not in told
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "txt:a,b",
            f"no kind of corpus 'txt'; known: {', '.join(sorted(SOURCES))} (did you mean 'text'?)",
        ),
        ("builtin:en-fr/trian", "no split of builtin:en-fr 'trian'; known: dev, test, train"),
        ("builtin:en-de/train", "no built-in corpus 'en-de'; known: "),
        (
            "builtin:en-fr/train?pears=3",
            "no option of builtin:en-fr 'pears'; known: max, min, pairs, rare, seed, words",
        ),
    ],
)
def test_a_corpus_that_does_not_exist(refused, tmp_path, spec, message):
    assert refused(*small.train(tmp_path / "run", "--data.train", spec)).startswith(message)


def test_all_wrong_settings_are_told_at_once(refused, tmp_path):
    told = refused(
        *small.train(
            tmp_path / "run",
            "--model.hidden-size",
            0,
            "--data.batch-size",
            -1,
            "--optimizer.learning-rate",
            "nan",
            "--optimizer.name",
            "adm",
            "--model.attention",
            "aditive",
        )
    ).splitlines()
    assert told[:3] == [
        "model.hidden_size is 0, but should be at least 1",
        "data.batch_size is -1, but should be at least 1",
        "optimizer.learning_rate is nan, but should be at least 2e-38 and at most 3e+38",
    ]
    assert told[3].startswith("no model.attention 'aditive'; known: additive, ")
    assert told[4].startswith("no optimizer.name 'adm'; known: ")
    assert len(told) == 5
    assert not (tmp_path / "run").exists()


def test_a_training_that_dev_scores_end_needs_dev_pairs(refused, tmp_path):
    told = refused(*small.train(tmp_path / "run", "--data.dev", "", "--training.patience", 3))
    assert told.startswith("training.patience stops a training by its dev scores, but data.dev is ")
    assert "set training.patience to 0" in told and "\n" not in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:score", "but ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "math:tau",
            "which is a float; expected a Score, "
            "bahdanau_jax.model.attention.Score(init, keys, query, score)",
        ),
        ("math:taau", "but AttributeError: module 'math' has no attribute 'taau'"),
    ],
)
def test_an_attention_of_ones_own_that_is_none(refused, tmp_path, name, message):
    told = refused(*small.train(tmp_path / "run", "--model.attention", name))
    assert told == f"model.attention is '{name}', {message}"


def test_a_misspelt_flag_and_a_misspelt_field(refused, tmp_path):
    told = refused(*small.train(tmp_path / "run", "--model.hiden-size", 3))
    assert told == "no option --model.hiden-size; did you mean --model.hidden-size?"
    path = tmp_path / "mine.py"
    path.write_text(
        "from bahdanau_jax.config import *\n\nconfig = Config(model=ModelConfig(hiden_size=3))\n"
    )
    told = refused("train", path, "--workdir", tmp_path / "run")
    assert told == f"{path}:3: ModelConfig has no field hiden_size; did you mean hidden_size?"


@pytest.mark.parametrize("verb", ["train", "prepare"])
def test_a_folder_that_cannot_be_one(refused, tmp_path, verb):
    file = tmp_path / "file"
    file.write_text("")
    for workdir in (file, file / "below", "/proc/below"):
        told = refused(verb, small.FILE, "--workdir", workdir)
        assert told.startswith(f"{workdir} cannot be a run folder (")
        assert told.endswith("): choose another folder")
    pattern = tmp_path / "a [x]"
    told = refused(verb, small.FILE, "--workdir", pattern)
    assert told == f"{pattern} has a [ in its path: choose another folder"


@pytest.fixture
def copy(trained, tmp_path):
    """A trained run that may be broken."""
    return shutil.copytree(trained[0], tmp_path / "copy")


@pytest.fixture
def translate(monkeypatch, command_line):
    """Runs `translate` on these bytes."""

    def run(folder, text: bytes = b"We sleep.\n", *options):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return command_line("translate", "--run", folder, *options)

    return run


@pytest.mark.parametrize(
    ("option", "value", "was"),
    [("--model.hidden-size", 18, 48), ("--data.lowercase", True, False), ("--training.seed", 2, 1)],
)
def test_a_folder_that_holds_another_model(refused, copy, option, value, was):
    before = (copy / "config.json").read_bytes()
    told = refused(*small.train(copy, option, value))
    field = option.strip("-").replace("-", "_")
    assert told.startswith(f"{copy} holds another run: its {field} is {was}, not {value}; ")
    assert (copy / "config.json").read_bytes() == before


def test_folders_without_a_model(translate, copy, tmp_path):
    def told(folder):
        code, out, err = translate(folder)
        assert (code, out, err.count("\n")) == (2, "", 1)
        return err.removeprefix("bahdanau: ")

    missing = tmp_path / "missing"
    assert told(missing) == f"{missing} holds no run: there is no config.json in it\n"
    shutil.rmtree(copy / "checkpoints")
    assert told(copy).startswith(f"{copy}/checkpoints holds no checkpoints: train")
    (copy / "model.safetensors").touch()
    assert told(copy).startswith(f"{copy} is an exported model, not a run: make a run of it by ")
    (copy / "model.safetensors").unlink()
    (copy / "checkpoints").mkdir()
    assert told(copy) == f"{copy}/checkpoints is empty: train the run first\n"
    (copy / "checkpoints/replaced-5").mkdir()
    assert told(copy).startswith(f"{copy}/checkpoints holds only replaced-5, since the last save")
    shutil.rmtree(copy / "vocabulary")
    assert told(copy).startswith(f"no file {copy}/vocabulary/settings.json: the vocabulary folder")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value: line 1 column 1"),
        ('{"model": {', "Expecting property name enclosed in double quotes: line 1"),
        ("\udcff", "'utf-8' codec can't decode byte 0xff"),
        ('{"model": 3}', "model should be an object, not 3"),
        ('{"model": {"hiden_size": 3}}', "no field model.hiden_size; known: alignment_size, "),
        ('{"model": {"hidden_size": "x"}}', "model.hidden_size should be int, not 'x'"),
        ("[" * 100_000, "its brackets are nested too deeply"),
        ("[" * 900 + "]" * 900, "the configuration should be an object, not [[[["),
    ],
)
@pytest.mark.parametrize("verb", ["translate", "train"])
def test_a_damaged_config_json(translate, refused, copy, text, message, verb):
    (copy / "config.json").write_text(text, errors="surrogateescape")
    if verb == "train":
        told = refused(*small.train(copy))
    else:
        code, _, err = translate(copy)
        told = err.removeprefix("bahdanau: ")
        assert (code, err.count("\n")) == (2, 1)
    assert told.startswith(f"{copy}/config.json is damaged or of another version: {message}")


def test_a_folder_mixed_from_two_runs(translate, copy):
    entries = (copy / "vocabulary/source.txt").read_text() + "another\n"
    settings = json.loads((copy / "vocabulary/settings.json").read_text())
    settings["sha256"]["source"] = hashlib.sha256(entries.encode()).hexdigest()
    (copy / "vocabulary/source.txt").write_text(entries)
    count = entries.count("\n")
    code, _, err = translate(copy)  # the file is not the one that was saved
    assert code == 2
    assert err.startswith(f"bahdanau: {copy}/vocabulary/source.txt is damaged: ")
    (copy / "vocabulary/settings.json").write_text(json.dumps(settings))
    assert translate(copy) == (
        2,
        "",
        f"bahdanau: {copy}/vocabulary/source has {count} entries, but the model's source embedding "
        f"has {count - 1} rows: this run folder was mixed from two runs\n",
    )


def truncate(checkpoint):
    for path in checkpoint.rglob("d/*"):
        path.write_bytes(path.read_bytes()[:100])


@pytest.mark.slow
def test_truncated_checkpoints(translate, refused, copy):
    steps = sorted((copy / "checkpoints").iterdir())
    assert len(steps) > 1
    for checkpoint in steps[:-1]:
        truncate(checkpoint)
    code, out, err = translate(copy)
    assert (code, out.count("\n")) == (0, 1)
    truncate(steps[-1])
    code, out, err = translate(copy)
    assert (code, out) == (2, "")
    assert err.startswith(f"bahdanau: every checkpoint in {copy}/checkpoints is damaged: ")
    assert err.count("\n") == 1
    assert "is damaged: " in refused(*small.train(copy))


ODD = {
    "empty": b"",
    "spaces": b" \t ",
    "ideographic space": "\u3000".encode(),
    "zero-width space": "\u200b".encode(),
    "NUL": b"\x00",
    "NUL inside": b"We\x00sleep.",
    "carriage return": b"We sleep.\r",
    "carriage return inside": b"We\rsleep.",
    "next line": "We\x85sleep.".encode(),
    "line separator": "We\u2028sleep.".encode(),
    "form feed": b"\x0c\x0b\x1c\x1d\x1e",
    "bell and escape": b"\x07\x1b[31mred\x1b[0m",
    "invalid UTF-8": b"We \xff\xfe sleep.",
    "torn UTF-8": b"\xe6\x88",
    "surrogate": b"\xed\xa0\x80",
    "10,000 words": b"We sleep. " * 5_000,
    "one long word": b"x" * 20_000,
    "symbols": b"</s> <unk> ||| \\n %s {}",
    "no line's end": b"We sleep.",
}


def test_one_line_out_for_one_line_in_whatever_it_holds(translate, trained):
    code, out, err = translate(trained[0], b"\n".join(ODD.values()))
    assert code == 0
    assert out.count("\n") == len(ODD)
    assert len(out.splitlines()) == len(ODD)
    number = list(ODD).index("invalid UTF-8") + 1
    assert err == (
        f"bahdanau: warning: stdin:{number}: invalid UTF-8, read as U+FFFD (later ones not shown)\n"
    )
    alone = translate(trained[0], b"We sleep.\n")[1]
    lines = out.split("\n")
    assert lines[-2] == lines[list(ODD).index("carriage return")] == alone.rstrip("\n")
    assert lines[0] == lines[1] == lines[2] == ""


@pytest.mark.slow
def test_endless_text_is_translated_as_it_comes(trained):
    with subprocess.Popen(
        small.command("translate", "--run", trained[0]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=small.ROOT,
    ) as process:
        for text in itertools.islice(itertools.cycle(["We sleep.", "", "I am tired."]), 30):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")  # before the next one is written
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stdout.read() == ""


def test_lines_of_one_write_are_answered_one_by_one(trained):
    """A slow pipe gives many lines at once; no line waits for the translation of the others."""
    with subprocess.Popen(
        small.command("translate", "--run", trained[0], "--line-buffered", "True"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=small.ROOT,
    ) as process:
        process.stdin.write(b"We sleep.\n" * 100)
        process.stdin.flush()  # and stays open: the end does not come
        first = os.read(process.stdout.fileno(), 1 << 16)
        assert 1 <= first.count(b"\n") < 100
        answered = first
        while answered.count(b"\n") < 100:
            answered += os.read(process.stdout.fileno(), 1 << 16)
        assert len(set(answered.splitlines())) == 1
        process.stdin.close()
        assert process.wait(60) == 0 and process.stdout.read() == b""


def test_all_that_differs_is_told(refused, copy):
    told = refused(*small.train(copy, "--model.hidden-size", 18, "--training.seed", 2))
    assert "its model.hidden_size is 48, not 18; its training.seed is 1, not 2; choose" in told


@pytest.mark.slow
def test_text_that_changed_since_the_run_began(command_line, refused, corpus, tmp_path):
    for side in ("en", "fr"):
        (corpus / f"many.{side}").write_text("one two three\n" * 40)
    options = ("--data.root", corpus, "--data.train", "text:many.en,many.fr", "--data.dev", "")
    train = small.train(tmp_path / "run", *options, "--data.test", "", "--training.steps", 2)
    assert command_line(*train)[0] == 0
    os.utime(corpus / "many.en")  # the same text with another time is the same text
    assert command_line(*train)[0] == 0
    (corpus / "many.en").write_text("one two two\n" * 40)
    told = refused(*train)
    assert told.startswith("the text of data.train is no longer what the run in ")


def test_divergence(command_line, tmp_path):
    code, out, err = command_line(
        *small.train(tmp_path / "run", "--optimizer.learning-rate", 1e38),
        *("--optimizer.clip-norm", 0, "--optimizer.max-nonfinite", 3, "--data.dev", ""),
        *("--training.log-every", 1000),
    )
    first, last = said(err)[-2:]
    assert (code, out) == (2, "") and first.startswith("first step after ")
    assert last.startswith("bahdanau: the gradient was not finite 3 times in a row, up to step ")


@pytest.mark.parametrize("stream", [pytest.param("stdin", marks=pytest.mark.slow), "stdout"])
def test_a_closed_stream(trained, stream):
    number = {"stdin": 0, "stdout": 1}[stream]
    done = subprocess.run(
        small.command("translate", "--run", trained[0]),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=small.ROOT,
        preexec_fn=lambda: os.close(number),
    )
    verb = {"stdin": "read", "stdout": "write"}[stream]
    assert done.stderr == f"bahdanau: {stream} is closed: name a file to {verb}\n"
    assert done.returncode == 2


@pytest.mark.slow
def test_a_full_disk(trained, command_line, tmp_path):
    """No file may grow beyond some kilobytes. The cache of programs is read, but left alone."""
    resource = pytest.importorskip("resource")
    run = tmp_path / "run"
    assert command_line("prepare", small.FILE, "--workdir", run)[0] == 0
    programs = os.environ["JAX_COMPILATION_CACHE_DIR"]
    shutil.copytree(programs, tmp_path / "cache", copy_function=os.symlink)
    done = subprocess.run(
        small.command(*small.train(run)),
        capture_output=True,
        text=True,
        cwd=small.ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000)),
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert done.returncode == 2
    # Python may warn, as it ends, of what Orbax's threads left undone.
    told = [line for line in done.stderr.splitlines() if line.startswith("bahdanau: ")]
    assert len(told) == 1 and told[0].startswith(f"bahdanau: cannot keep checkpoints in {run}")


def test_sigterm_leaves_no_draft(trained, tmp_path):
    output = tmp_path / "out.fr"
    with subprocess.Popen(
        small.command("translate", "--run", trained[0], "--output", output),
        stdin=subprocess.PIPE,
        cwd=small.ROOT,
    ) as process:
        for _ in range(600):
            if any(tmp_path.iterdir()):
                break
            time.sleep(0.1)
        process.terminate()
        assert process.wait(60) == 143
    assert not list(tmp_path.iterdir())
