"""The benchmark of decoding, with a peer that is a few lines of Python: it repeats its input."""

import dataclasses
import json
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import jax
import numpy as np
import pytest

from bahdanau_jax import data
from bahdanau_jax.batch import EOS_SYMBOL
from bahdanau_jax.cli import jax_defaults
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.decoding import search_program
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.trained import load
from benchmarks import decode_benchmark, search_memory
from benchmarks.peers import process, recipe, serving
from benchmarks.peers.process import last_error

# What stands at the place of JoeyNMT's Python: it is given the program, a command and a file.
PEER = """#!{python}
import json, pathlib, sys
_, command, config, *keep = sys.argv[1:]
if command == "train":
    {train}
    sys.exit()
print(json.dumps({{"versions": {{"joeynmt": "2.3.0"}}, "parameters": 7}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    {serve}
    lines, slow = asked["lines"], (asked["batch_size"] == 4) + (asked["threads"] == 1)
    slow += (asked["precision"] == "float32") + (not keep)
    answer = {{"seconds": 1.0 + slow, "cpu_seconds": 0.5, "lines": lines}}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def peer(tmp_path):
    def make(train="pass", serve="pass"):
        path = tmp_path / "python"
        path.write_text(PEER.format(python=sys.executable, train=train, serve=serve))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture
def bench(trained, tmp_path, benchmark):
    def run(*arguments):
        folder = ("--peer-folder", tmp_path / "peer") if "--joeynmt" in arguments else ()
        return benchmark(
            *("decode", "--run", trained[0], *folder),
            *("--memory", "False", "--batch-sizes", "4,8", "--beams", "2", "--rounds", "3"),
            *("--sentences", "6", *arguments),
        )

    return run


@pytest.mark.slow
def test_both_sides_translate_in_turn_with_their_best_settings(bench, peer, trained):
    code, out, err = bench("--joeynmt", peer())
    assert (code, err) == (0, "")
    found = json.loads(out)
    beam = found["beams"]["2"]
    assert beam["joeynmt"]["settings"]["batch_size"] == 8
    assert beam["joeynmt"]["settings"]["order"] == "by length"
    assert beam["joeynmt"]["settings"]["precision"] == "bfloat16"
    assert beam["joeynmt"]["first_call_seconds"] == 1.0
    assert beam["joeynmt"]["seconds"] == [1.0, 1.0, 1.0]
    assert beam["joeynmt"]["sentences_per_second"] == 6.0
    assert beam["joeynmt as it comes"]["seconds"] == [2.0, 2.0, 2.0]
    tokens = found["text"]["source_tokens_per_sentence"]
    assert beam["joeynmt"]["tokens_per_sentence"] == tokens  # this peer repeats
    ours = beam["ours"]
    assert ours["settings"]["batch_size"] in (4, 8)
    assert len(ours["tried"]) == 2 and len(ours["seconds"]) == 3
    ratios = [1.0 / seconds for seconds in ours["seconds"]]
    assert beam["ours over joeynmt"]["ratio"] == pytest.approx(sorted(ratios)[1], rel=1e-3)
    assert found["peer"]["versions"] == {"joeynmt": "2.3.0"}
    assert found["peer"]["hidden_size"] == load(trained[0]).config.model.hidden_size
    sides = {"ours", "ours in bfloat16", "ours from text", "joeynmt", "joeynmt as it comes"}
    assert set(found["counted"]) == sides
    for name in ("tokens_per_sentence", "bleu_lowercased"):  # both are the same translations
        assert beam["ours"][name] == beam["ours from text"][name]
    assert found["text"]["sentences"] == 6
    assert set(found["below"]) == {"2 than 1"} and 0 <= found["below"]["2 than 1"] <= 6


@pytest.mark.exhaustive
def test_without_a_peer_ours_is_measured_alone(bench):
    code, out, _ = bench("--beams", "1")
    found = json.loads(out)
    sides = {"ours", "ours in bfloat16", "ours from text"}
    sides |= {"ours over ours in bfloat16", "ours over ours from text"}
    sides |= {"ours in bfloat16 over ours from text"}
    assert code == 0 and set(found["beams"]["1"]) == sides
    assert "peer" not in found and "memory" not in found


@pytest.mark.exhaustive
def test_a_trained_peer_is_used_again_and_never_for_another_run(bench, peer, tmp_path):
    assert bench("--joeynmt", peer())[0] == 0
    assert bench("--joeynmt", peer(train="sys.exit(9)"))[0] == 0
    code, _, err = bench("--joeynmt", peer(), "--peer-updates", "5")
    assert code == 2 and f"{tmp_path}/peer holds another JoeyNMT model" in err


@pytest.mark.exhaustive
def test_a_peer_that_fails_to_train_is_no_trained_peer(bench, peer):
    code, _, err = bench("--joeynmt", peer(train="raise OSError('no cake')"))
    assert code == 2 and err.count("\n") == 1
    assert "ended with code 1; last error: OSError: no cake" in err
    assert bench("--joeynmt", peer(train="sys.exit(3)"))[0] == 2  # it is trained anew


@pytest.mark.slow
def test_a_peer_that_dies_or_talks_nonsense_is_one_line(bench, peer):
    code, _, err = bench("--joeynmt", peer(serve="raise MemoryError('too wide')"))
    assert code == 2 and err.count("\n") == 1
    assert "ended; last error: MemoryError: too wide" in err
    code, _, err = bench("--joeynmt", peer(serve="print('hello', flush=True)"))
    assert code == 2 and "answered 'hello', which is no JSON object" in err


def test_what_cannot_be_is_said_before_any_work(bench, tmp_path):
    code, _, err = bench("--joeynmt", tmp_path / "nowhere")
    assert code == 2 and f"{tmp_path}/nowhere is not an executable file" in err
    for option, value in (("--beams", "1,x"), ("--beams", "0"), ("--batch-sizes", "")):
        code, _, err = bench(option, value)
        assert code == 2 and f"{option} is {value!r}, but should be like 1,2,4" in err
    code, _, err = bench("--rounds", "0")
    assert code == 2 and "--rounds is 0, but at least 1 is needed" in err
    for option, value in (("--peer-folder", tmp_path), ("--peer-updates", "5")):
        code, _, err = bench(option, value)
        assert code == 2 and f"{option} needs --joeynmt, which is missing" in err
    code, _, err = bench("--corpus", "text:no.en,no.fr")
    assert code == 2 and "no.en" in err
    code, _, err = bench("--run", tmp_path)
    assert code == 2 and "holds no run" in err


def test_a_program_begins_with_the_allocator_as_it_comes(monkeypatch):
    """Our command line sets variables of glibc for its child processes; peers set their own."""
    for variable, value in jax_defaults.MALLOC.values():
        monkeypatch.setenv(variable, str(value))
    command = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    with process.Peer("a peer", command) as peer:
        assert not [name for name in peer.greeting if name.startswith("MALLOC_")]
        assert peer.greeting["PATH"]
    table = {parameter: value for parameter, (_, value) in jax_defaults.MALLOC.items()}
    assert table == serving.MALLOC


def test_a_peer_interrupted_before_its_greeting_is_ended(monkeypatch):
    processes = []

    def interrupted(peer):
        processes.append(peer._process)
        raise KeyboardInterrupt

    monkeypatch.setattr(process.Peer, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.Peer("a peer", [sys.executable, "-c", "import time; time.sleep(600)"])
    assert processes[0].returncode is not None


def test_a_program_that_dies_is_a_line_and_not_a_traceback():
    with pytest.raises(process.Failure, match="the search ended; last error: MemoryError: full"):
        process.result("the search", [sys.executable, "-c", "raise MemoryError('full')"])
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    jax_defaults.keep_memory()
    found = process.result("the search", [sys.executable, "-c", program])
    assert {"MALLOC_TOP_PAD_", "MALLOC_ARENA_MAX"} <= found.keys()  # as our command line has them


class Searches:
    """A run whose scores are known, by beam and sentence."""

    SCORES: ClassVar[Mapping[int, Sequence[float]]] = {
        1: (-1.0, -2.0, -3.0),
        2: (-1.5, -2.0, -2.0),
        5: (-1.2, -2.5, -3.5),
    }

    def translate(self, lines, beam_size, **_):
        alpha = np.zeros((0, 0), np.float32)
        return [Hypothesis("", (), (), score, True, (), alpha) for score in self.SCORES[beam_size]]


def test_sentences_with_a_worse_score_than_a_narrower_beam_are_counted():
    text = decode_benchmark.Text(["a", "b", "c"], ["", "", ""])
    found = decode_benchmark._below(Searches(), text, (5, 2))  # pyright: ignore
    assert found == {"2 than 1": 1, "5 than 1": 3, "5 than 2": 2}


@pytest.fixture
def without_joeynmt(monkeypatch):
    """Replace JoeyNMT's training, its program and our text; return the commands."""
    commands = []
    monkeypatch.setattr(process, "located", lambda name, python: python)
    monkeypatch.setattr(process, "run", lambda name, command: commands.append(command))
    monkeypatch.setattr(process, "Peer", lambda name, command: commands.append(command))
    monkeypatch.setattr(recipe, "write_text", lambda *_: None)
    return commands


def test_a_moved_joeynmt_is_not_trained_again(trained, without_joeynmt, tmp_path):
    run, python = load(trained[0]), Path("python")
    recipe.joeynmt(run, python, tmp_path / "a", updates=5)
    (tmp_path / "a").rename(tmp_path / "b")
    recipe.joeynmt(run, python, tmp_path / "b", updates=5)
    assert [command[2] for command in without_joeynmt] == ["train", "serve", "serve"]
    config = json.loads((tmp_path / "b/config.json").read_text())
    assert config["model_dir"] == str(tmp_path / "b/model")
    with pytest.raises(ValueError, match="holds another JoeyNMT model"):
        recipe.joeynmt(run, python, tmp_path / "b", updates=6)


def test_a_folder_with_files_of_others_is_refused(trained, without_joeynmt, tmp_path):
    (tmp_path / "train.src").write_text("mine\n")
    with pytest.raises(ValueError, match="holds other files: take another --peer-folder"):
        recipe.joeynmt(load(trained[0]), Path("python"), tmp_path, updates=5)
    assert [*tmp_path.iterdir()] == [tmp_path / "train.src"] and not without_joeynmt


def test_the_peer_has_the_pairs_of_our_epoch(trained, tmp_path):
    run = load(trained[0])
    limited = dataclasses.replace(run.config.data, limit_words=200)
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, data=limited))
    recipe.write_text(run, tmp_path, dev_pairs=3)
    sides = [(tmp_path / f"train.{name}").read_text().splitlines() for name in recipe.SIDES]
    store = data.prepare(limited, run.folder, trained=True).train
    rows = data.Plan.of(store, limited, run.config.training.seed).rows()
    assert [len(lines) for lines in sides] == [len(rows)] * 2 and 0 < len(rows) < len(store)
    assert list(recipe.to_ids(sides[1][-1])) == store.target(rows[-1])[:-1].tolist()


def test_a_joeynmt_of_other_pairs_is_another_one(trained, without_joeynmt, tmp_path):
    run, python = load(trained[0]), Path("python")
    recipe.joeynmt(run, python, tmp_path / "a", updates=5)
    limited = dataclasses.replace(run.config.data, limit_words=200)
    other = dataclasses.replace(run, config=dataclasses.replace(run.config, data=limited))
    with pytest.raises(ValueError, match="holds another JoeyNMT model"):
        recipe.joeynmt(other, python, tmp_path / "a", updates=5)


def test_the_peers_words_are_our_ids(trained):
    for codec in load(trained[0]).codecs:
        *ids, _ = codec.encode("the the zzzz")
        words = recipe.to_words(codec, "the the zzzz")
        assert words.split()[-1] == "<unk>"
        assert list(recipe.to_ids(words)) == ids


@pytest.mark.slow
def test_a_numbered_run_says_the_same_in_ids(trained):
    run = load(trained[0])
    texts = ["the man sleeps .", "the zzzz woman sees a dog"]
    words = [recipe.to_words(run.codecs[0], text) for text in texts]
    for plain, numbered in zip(
        run.translate(texts, 2), recipe.numbered(run).translate(words, 2), strict=True
    ):
        *ids, eos = plain.tokens
        assert eos == EOS_SYMBOL and plain.score == numbered.score
        found = recipe.to_ids(numbered.text)
        assert run.codecs[1].tokens(found) == tuple(ids)


def test_the_last_error_is_not_what_a_library_says_after_it():
    trace = 'Traceback (most recent call last):\n  File "x"\n    raise\nOSError: full\nbye: 0\n'
    assert last_error("start\n" + trace) == "OSError: full"
    assert last_error("one\n two \n\n") == "two"
    assert last_error("") == "none"


@pytest.fixture(scope="module")
def found():
    """A small model whose search has large buffers: T 300, K·V 3.7 MiB, α 5.5 MiB."""
    model = ModelConfig(
        source_vocabulary=50,
        target_vocabulary=20_000,
        embedding_size=8,
        hidden_size=8,
        alignment_size=8,
        readout_size=8,
    )
    return search_memory.memory(
        search_memory.Case(model, rows=8, length=100, decoding=DecodingConfig(beam_size=6))
    )


@pytest.mark.exhaustive
def test_memory_grows_linearly_with_steps_and_never_with_steps_times_words(found):
    grown, beyond, one = found["growth_mib"], found["beyond_mib"], found["one K*T*V"]
    assert found["steps"] == 300
    assert one == pytest.approx(8 * 6 * 300 * 20_000 * 4 / 2**20, abs=0.1)
    alpha = 8 * 6 * 300 * 100 * 4 / 2**20  # of T steps
    assert grown["T"] + alpha <= grown["2T"] <= 2.1 * grown["T"]
    assert abs(beyond["T*V"]) < 0.02 * one
    of_squares = 2 * 8 * 6 * 300**2 * 4 / 2**20  # the second difference of one array of K*T*T
    assert abs(beyond["T*T"]) < 0.1 * of_squares


@pytest.mark.exhaustive
def test_the_peak_of_search_is_planned_and_measured(found):
    planned, resident = found["planned_mib"], found["resident_mib"]
    parts = (planned[name] for name in ("parameters", "temporary", "output"))
    assert planned["peak"] == pytest.approx(sum(parts), abs=0.2)
    used = resident["peak"] - resident["before"]  # compiling takes some of it
    assert 0.5 * planned["temporary"] < used < 2 * planned["temporary"] + 400


@pytest.mark.parametrize(("platform", "is_measured"), [("cpu", True), ("gpu", False)])
def test_the_memory_of_a_process_says_nothing_about_an_accelerator(
    monkeypatch, platform, is_measured
):
    plan = search_program.PlannedMemory(*[2**20] * len(search_program.PlannedMemory._fields))
    monkeypatch.setattr(search_memory, "planned", lambda case: plan)
    monkeypatch.setattr(search_memory, "_resident", lambda case: {"peak": 1})
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert ("resident_mib" in search_memory.memory()) == is_measured
