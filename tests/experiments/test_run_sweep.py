"""Sweeps: their errors, resumption and reports. Only one of these tests trains."""

import contextlib
import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import pytest

from bahdanau_jax import run, training
from bahdanau_jax.config import Config
from bahdanau_jax.experiments import (
    cell_runs,
    product,
    sweep,
    sweep_definition,
    sweep_report,
)
from bahdanau_jax.model import compute_dtype
from bahdanau_jax.report import run_scores
from tests import small

STEPS = 4


def config(**changes) -> Config:
    own = dataclasses.replace(
        small.config.training, **{"steps": STEPS, "evaluate_every": 4, "checkpoint_every": 2}
    )
    return dataclasses.replace(small.config, training=own, **changes)


MISSING = "text:no.en,no.fr"
CELLS = product(config(), {"model.order": ["paper", "luong"]})


@pytest.fixture
def without_training(monkeypatch):
    """Replace training by a stand-in whose scores depend on cell and seed; return its calls."""
    trained = []

    def train(own, folder, **options):
        trained.append((own.model.order, own.training.seed))
        if own.model.order == "luong" and own.training.seed == 2 and trained.count(trained[-1]) < 2:
            raise ValueError("no luck\nat all")
        (folder / "checkpoints" / str(own.training.steps)).mkdir(parents=True)
        own.save(folder / "config.json")

    def train_vmapped(configs, folders, *_):
        for own, folder in zip(configs, folders, strict=True):
            train(own, folder)
        return {}

    def scores(self, folder):
        own = Config.load(folder / "config.json")
        return {"BLEU": 10.0 * own.training.seed + (own.model.order == "luong"), "chrF": None}

    monkeypatch.setattr(run, "train", train)
    monkeypatch.setattr(run, "train_vmapped", train_vmapped)
    monkeypatch.setattr(run, "prepare", lambda *_: {"vocabulary": {"source": 9, "target": 9}})
    monkeypatch.setattr(cell_runs.CellRuns, "_share_data", lambda *_: {"source": 9, "target": 9})
    monkeypatch.setattr(cell_runs.CellRuns, "_scored", scores)
    return trained


def test_a_fault_of_the_data_leaves_the_folder_for_other_settings(tmp_path, monkeypatch):
    """The data of the first cell are in its run folder when those of the second are refused."""
    monkeypatch.setattr(run, "train", lambda *_, **__: pytest.fail("it trains"))
    cells = product(config(), {"data.max_tokens": [40, 1]})
    with pytest.raises(ValueError, match="cell max_tokens=1: no training pair is left"):
        sweep(cells, tmp_path / "s", [1], vmapped=False)
    assert not [path for path in (tmp_path / "s").iterdir() if path.is_dir()]
    assert not (tmp_path / "s" / "sweep.json").exists()


def test_a_fault_of_the_data_of_a_later_cell_leaves_the_sweep_as_it_was(
    without_training, tmp_path, monkeypatch
):
    one, *_ = (dict([each]) for each in CELLS.items())
    sweep(one, tmp_path / "s", [1], vmapped=False)
    before = (tmp_path / "s" / "sweep.json").read_bytes()

    def refuse(self):
        raise ValueError("no training pair is left")

    with monkeypatch.context() as patch:
        patch.setattr(cell_runs.CellRuns, "prepare", refuse)
        with pytest.raises(ValueError, match="no training pair is left"):
            sweep(CELLS, tmp_path / "s", [1, 2], vmapped=False)
    assert (tmp_path / "s" / "sweep.json").read_bytes() == before
    assert not sweep(one, tmp_path / "s", [1], vmapped=False).failed


def test_a_failed_extension_leaves_no_text_that_the_next_one_has_to_repeat(tmp_path, monkeypatch):
    """The new cell's text was prepared, and recorded, before that of another cell was refused."""
    for name in ("t.en", "t.fr"):
        (tmp_path / name).write_text("a b\nc\n")
    text = {"train": "text:t.en,t.fr", "dev": "", "test": "text:t.en,t.fr", "root": str(tmp_path)}
    written = config(data=dataclasses.replace(small.config.data, **text))
    known, new, wrong = (
        {name: dataclasses.replace(own, data=dataclasses.replace(own.data, max_tokens=most))}
        for name, own, most in (("a", config(), 40), ("b", written, 40), ("c", config(), 1))
    )
    folder = tmp_path / "s"
    monkeypatch.setattr(run, "train", lambda *_, **__: None)
    sweep(known, folder, [1], vmapped=False)
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    with pytest.raises(ValueError, match="cell c: no training pair is left"):
        sweep(known | new | wrong, folder, [1, 2], vmapped=False)
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before
    (tmp_path / "t.fr").write_text("a b\na\n")
    sweep(known | new, folder, [1], vmapped=False)


def test_cells_of_one_sweep_have_one_compute_dtype(without_training, tmp_path, monkeypatch):
    model_of = dataclasses.replace(small.config.model, compute_dtype="auto")
    cells = product(config(model=model_of), {"model.order": ["paper", "luong"]})
    first, new = (dict([each]) for each in cells.items())
    for dtype in ("bfloat16", "float32"):
        monkeypatch.setattr(compute_dtype, "fastest", lambda dtype=dtype: dtype)
        sweep(first | new if dtype == "float32" else first, tmp_path / "s", [1], vmapped=False)
    definition = json.loads((tmp_path / "s" / "sweep.json").read_text())["cells"]
    assert {each["model"]["compute_dtype"] for each in definition.values()} == {"bfloat16"}


def test_a_run_that_fails_leaves_the_others_and_is_tried_again(without_training, tmp_path):
    results = sweep(CELLS, tmp_path / "s", [1, 2], vmapped=False)
    assert results.failed == {"order=luong/seed-2": "no luck"}
    assert results.values("order=luong", "BLEU") == {1: 11.0}
    assert results.compare("order=luong", "order=paper", "BLEU").seeds == 1
    assert "no luck" in json.dumps(json.loads((tmp_path / "s/results.json").read_text()))
    again = sweep(CELLS, tmp_path / "s", [1, 2], vmapped=False)
    assert not again.failed and without_training[-1] == ("luong", 2)
    assert len(without_training) == 5  # nothing else was trained twice
    paired = again.compare("order=luong", "order=paper", "BLEU")
    assert (paired.difference, paired.seeds) == (1.0, 2)
    text = sweep_report.write(tmp_path / "s", again, CELLS)
    assert "| order=luong | 2 | 16.0 ± 7.1 (" in text
    assert (tmp_path / "s/report/index.html").exists()


def test_more_seeds_and_cells_may_come_and_other_sweeps_not(without_training, tmp_path):
    folder = tmp_path / "s"
    sweep({"a": CELLS["order=paper"]}, folder, [1], vmapped=False)
    sweep({"a": CELLS["order=paper"], "b": CELLS["order=paper"]}, folder, [1, 3], vmapped=False)
    assert json.loads((folder / "sweep.json").read_text())["seeds"] == [[1], [3]]
    lower = dataclasses.replace(
        CELLS["order=paper"], training=dataclasses.replace(config().training, seed=0)
    )
    sweep({"a": lower}, folder, [0, 1, 3], vmapped=False)  # as --training.seed 0 --seeds 4
    assert json.loads((folder / "sweep.json").read_text())["seeds"] == [[1], [3], [0]]
    for cells, seeds, said in (
        (
            {"a": CELLS["order=luong"]},
            [0, 1, 3],
            "model.order of its cell a is 'paper', not 'luong'",
        ),
        ({"c": CELLS["order=paper"]}, [0, 1, 3], "its cells are a, b"),
        ({"a": CELLS["order=paper"]}, [1], "it also has the seeds 0, 3"),
    ):
        with pytest.raises(ValueError, match=said):
            sweep(cells, folder, seeds, vmapped=False)
    with pytest.raises(ValueError, match="its vmapped is False, not True"):
        sweep({"a": CELLS["order=paper"]}, folder, [1, 3], vmapped=True)
    (folder / "sweep.json").write_text("{}")
    with pytest.raises(ValueError, match="is damaged"):
        sweep({"a": CELLS["order=paper"]}, folder, [1, 3], vmapped=False)
    (tmp_path / "other" / "folder").mkdir(parents=True)
    with pytest.raises(ValueError, match="choose an empty one"):
        sweep(CELLS, tmp_path / "other", [1])


def test_fields_that_a_later_version_added_have_their_defaults(without_training, tmp_path):
    cells, path = {"a": CELLS["order=paper"]}, tmp_path / "s/sweep.json"
    sweep(cells, tmp_path / "s", [1], vmapped=False)
    stored = json.loads(path.read_text())
    del stored["cells"]["a"]["optimizer"]["coverage"]
    path.write_text(json.dumps(stored))
    sweep(cells, tmp_path / "s", [1], vmapped=False)
    optimizer = dataclasses.replace(cells["a"].optimizer, coverage=0.5)
    changed = {"a": dataclasses.replace(cells["a"], optimizer=optimizer)}
    with pytest.raises(ValueError, match=r"optimizer.coverage of its cell a is 0.0, not 0.5"):
        sweep(changed, tmp_path / "s", [1], vmapped=False)


def test_fields_that_change_no_score_may_differ(without_training, tmp_path):
    config = CELLS["order=paper"]
    sweep({"a": config}, tmp_path / "s", [1], vmapped=False)
    training = dataclasses.replace(config.training, checkpoint_every=1_000, log_every=3)
    data = dataclasses.replace(config.data, root="elsewhere", processes=2)
    changed = dataclasses.replace(config, training=training, data=data)
    sweep({"a": changed}, tmp_path / "s", [1], vmapped=False)
    assert json.loads((tmp_path / "s/sweep.json").read_text())["cells"]["a"]["data"]["root"]
    training = dataclasses.replace(training, evaluate_every=3)
    changed = dataclasses.replace(config, training=training)
    with pytest.raises(ValueError, match="training.evaluate_every of its cell a is"):
        sweep({"a": changed}, tmp_path / "s", [1], vmapped=False)


@pytest.mark.parametrize(
    "cells, seeds, said",
    [
        ({}, [1], "at least one cell"),
        (CELLS, [], "at least one cell and one seed"),
        (CELLS, [1, 1], "all be different"),
        (CELLS, range(10_001), "10,001 seeds: a sweep has at most 10,000"),
        (CELLS, [-1], "the seed -1 should be an integer of at least 0, below"),
        (CELLS, [True], "the seed True should be an integer"),
        (CELLS, [1.5], "the seed 1.5 should be an integer"),
        (CELLS, [1 << 32], "the seed 4294967296 should be"),
        ({"../cell": config()}, [1], "the cell name '../cell' cannot name a folder"),
        ({"a[1]": config()}, [1], r"the cell name 'a\[1\]' cannot name a folder"),
        ({"": config()}, [1], "the cell name '' cannot name a folder"),
        ({"data": config()}, [1], "is that of a file or folder of the sweep"),
        ({"report": config()}, [1], "the cell name 'report' is that of a file or folder of the"),
        ({"sweep.json": config()}, [1], "'sweep.json' is that of a file or folder of the sweep"),
        ({"results.json": config()}, [1], "'results.json' is that of a file or folder"),
        ({"a" * 256: config()}, [1], "has more than 255 bytes"),
        ({"a": config(data=dataclasses.replace(small.config.data, test=""))}, [1], "data.test is"),
        (
            {
                "a": config(
                    data=dataclasses.replace(small.config.data, dev="", train=MISSING, test=MISSING)
                )
            },
            [1],
            "cell a: no file",
        ),
        (  # before the remark that the dev pairs are of another corpus
            {"a": config(data=dataclasses.replace(small.config.data, train=MISSING))},
            [1],
            "cell a: no file",
        ),
    ],
)
def test_faults_come_before_any_work(cells, seeds, said, tmp_path):
    with pytest.raises((ValueError, OSError), match=said):
        sweep(cells, tmp_path / "s", seeds)
    assert not (tmp_path / "s" / "data").exists()


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"tokenize": "x"}, "no BLEU tokeniser 'x'"),
        ({"length_bins": (0,)}, "edges of lengths should be positive"),
        ({"resamples": 0}, "0 resamples"),
        ({"beam_size": 0}, "cell order=paper: .*beam_size"),
    ],
)
def test_faults_of_the_settings_of_the_scores_come_before_any_training(
    changes, said, without_training, tmp_path
):
    with pytest.raises(ValueError, match=said):
        sweep(CELLS, tmp_path, [1], vmapped=False, settings=run_scores.Settings(**changes))
    assert not without_training


def test_a_file_in_the_place_of_the_report_is_refused_before_any_training(
    without_training, tmp_path
):
    (tmp_path / "report").write_text("mine")
    with pytest.raises(ValueError, match="report is a file where the report goes: move it away"):
        sweep(CELLS, tmp_path, [1], vmapped=False)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_shared_order_of_seeds_that_train_in_turn_is_refused(without_training, tmp_path):
    with pytest.raises(ValueError, match="order shared is for seeds that train vmapped; in turn"):
        sweep(CELLS, tmp_path / "s", [1, 2], vmapped=False, order="shared")
    assert not without_training and not (tmp_path / "s").exists()


def test_a_shared_order_is_refused_where_a_cell_turns_out_to_train_in_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(cell_runs, "MOST_VMAPPED", 10)
    monkeypatch.setattr(run, "train", lambda *_, **__: pytest.fail("it trains"))
    cells = {"a": CELLS["order=paper"]}
    with pytest.raises(ValueError, match="^cell a: the data order shared is for seeds that train"):
        sweep(cells, tmp_path / "s", [1, 2], order="shared")
    assert not [path for path in (tmp_path / "s").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    "vmapped, order, kept",
    [(None, None, "shared"), (True, None, "shared"), (False, None, "own"), (True, "own", "own")],
)
def test_a_sweep_records_the_order_that_its_seeds_have(
    vmapped, order, kept, without_training, tmp_path
):
    sweep(CELLS, tmp_path, [1, 2], vmapped=vmapped, order=order)
    assert json.loads((tmp_path / "sweep.json").read_text())["order"] == kept


@pytest.mark.exhaustive
def test_a_sweep_of_the_command_line_is_the_same_twice(command_line, tmp_path):
    def swept(folder):
        arguments = ["sweep", small.FILE, "--workdir", folder, "--seeds", 2, "--vary"]
        arguments += ["model.attention=dot,none", "--training.steps", STEPS]
        return command_line(*arguments, "--model.initial-state", "zero")

    code, out, err = swept(tmp_path / "a")
    assert code == 0, err
    assert out.startswith("| cell | seeds | BLEU | chrF | AER |")
    first = json.loads((tmp_path / "a/results.json").read_text())
    assert swept(tmp_path / "b")[0] == 0
    assert json.loads((tmp_path / "b/results.json").read_text()) == first
    code, again, _ = swept(tmp_path / "a")  # finished: nothing is trained again
    assert code == 0 and again == out
    own = tmp_path / "a" / "attention=dot" / "seed-2"
    assert command_line("translate", "--run", own, "--input", small.FILE)[0] == 0
    faults = command_line("sweep", small.FILE, "--workdir", own, "--vary", "model.ordr=a")
    assert faults[0] == 2 and faults[2].count("\n") == 1


def test_the_programs_of_a_cell_are_released_before_the_next(
    without_training, tmp_path, monkeypatch
):
    program, train, kept = jax.jit(jnp.sin), run.train, []

    def compiles(*arguments, **options):
        kept.append(program._cache_size())
        program(1.0)
        assert program._cache_size() == 1
        train(*arguments, **options)

    monkeypatch.setattr(run, "train", compiles)
    sweep(CELLS, tmp_path / "s", [1], vmapped=False)
    assert kept == [0, 0]


def test_results_of_earlier_cells_stay(without_training, tmp_path):
    folder, (first, second) = tmp_path / "s", CELLS.items()
    sweep(dict([first, second]), folder, [1], vmapped=False)
    sweep(dict([first]), folder, [1], vmapped=False)
    stored = json.loads((folder / "results.json").read_text())
    assert set(stored["scores"]) == set(CELLS)


def test_results_of_a_sweep_that_is_gone_do_not_return(without_training, tmp_path):
    folder, (first, second) = tmp_path / "s", CELLS.items()
    sweep(dict([first, second]), folder, [1], vmapped=False)
    (folder / "sweep.json").unlink()
    for name in (*CELLS, "data"):
        shutil.rmtree(folder / name)
    sweep(dict([first]), folder, [1], vmapped=False)
    stored = json.loads((folder / "results.json").read_text())
    assert set(stored["scores"]) == {first[0]}


def test_data_are_prepared_once_wherever_the_corpus_is(tmp_path):
    """Neither their place nor the number of processes changes them."""
    for name in ("t.en", "t.fr", "moved/t.en", "moved/t.fr"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a b\nc\n")
    text = {"train": "text:t.en,t.fr", "dev": "", "test": "text:t.en,t.fr"}
    for changed in ({"root": str(tmp_path)}, {"root": str(tmp_path / "moved"), "processes": 2}):
        own = config(data=dataclasses.replace(small.config.data, **text, **changed))
        cell_runs.CellRuns(tmp_path / "s", "a", own, [[1]]).prepare()
    assert len([*(tmp_path / "s/data").iterdir()]) == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TypeError("a score of mine"), "TypeError: a score of mine"),
        (RuntimeError("a thread died"), "RuntimeError: a thread died"),
        (RuntimeError("RESOURCE_EXHAUSTED: 9 bytes"), "not enough memory: lower decoding.batch_"),
        (RuntimeError("RESOURCE_EXHAUSTED: 9 bytes\nmore"), "for each (RESOURCE_EXHAUSTED: "),
        (MemoryError(), "not enough memory: lower decoding.batch_"),
    ],
)
def test_whatever_a_run_raises_the_others_continue(
    error, said, without_training, tmp_path, monkeypatch
):
    train = run.train

    def failing(own, folder, **options):
        if own.training.seed == 1:
            raise error
        train(own, folder, **options)

    monkeypatch.setattr(run, "train", failing)
    results = sweep({"a": CELLS["order=paper"]}, tmp_path / "s", [1, 2], vmapped=False)
    assert [*results.failed] == ["a/seed-1"] and said in results.failed["a/seed-1"]
    assert list(results.scores["a"]) == [2] and results.seeds == "1"


def test_a_run_that_diverged_is_not_tried_again(without_training, tmp_path, monkeypatch):
    def diverging(own, folder, **options):
        without_training.append("again")
        folder.mkdir(parents=True)
        raise training.Diverged("not finite\nat step 3")

    monkeypatch.setattr(run, "train", diverging)
    for _ in range(2):
        results = sweep({"a": CELLS["order=paper"]}, tmp_path / "s", [1], vmapped=False)
        assert results.failed == {"a/seed-1": "not finite"}
    assert without_training == ["again"]


def test_a_run_without_its_last_evaluation_is_not_complete(without_training, tmp_path, monkeypatch):
    """A signal during that evaluation leaves a checkpoint of the last update."""
    train, calls = run.train, []

    def interrupted(own, folder, **options):
        calls.append(own.training.seed)
        if len(calls) == 1:
            train(own, folder, **options)
            raise training.Interrupted("saved")
        (folder / "evaluated").touch()

    monkeypatch.setattr(run, "train", interrupted)
    cells = {"a": CELLS["order=paper"]}
    with pytest.raises(training.Interrupted):
        sweep(cells, tmp_path / "s", [1], vmapped=False)
    sweep(cells, tmp_path / "s", [1], vmapped=False)
    assert calls == [1, 1] and (tmp_path / "s/a/seed-1/evaluated").exists()


def test_other_text_at_the_same_address_is_scored_again(tmp_path, monkeypatch):
    for side in ("en", "fr"):
        (tmp_path / f"t.{side}").write_text("a b\nc\n")
    address = f"text:{tmp_path}/t.en,{tmp_path}/t.fr"
    own = config(data=dataclasses.replace(small.config.data, test=address))
    digests = []
    for text in ("a b\nc\n", "a b\nd\n"):
        (tmp_path / "t.fr").write_text(text)
        digests.append(cell_runs.CellRuns(tmp_path, "a", own, [[1]])._texts)
    assert digests[0].keys() == digests[1].keys() and digests[0] != digests[1]


def test_other_text_at_the_address_of_the_training_pairs_is_refused(tmp_path):
    """Otherwise the seeds and cells of one table would have learned from two texts."""
    for side in ("en", "fr"):
        (tmp_path / f"t.{side}").write_text("a b\nc\n")
    text = {"train": "text:t.en,t.fr", "dev": "", "test": "text:t.en,t.fr", "root": str(tmp_path)}
    settings = dataclasses.replace(small.config.data, **text)
    own, folder = config(data=settings), tmp_path / "s"
    cell_runs.CellRuns(folder, "a", own, [[1]]).prepare()
    shutil.copytree(tmp_path, tmp_path / "moved", ignore=shutil.ignore_patterns("s"))
    moved = config(data=dataclasses.replace(settings, root=str(tmp_path / "moved")))
    for place in (tmp_path, tmp_path / "moved"):
        (place / "t.fr").write_text("a b\na\n")
    for name, cell in (("a", own), ("a", moved), ("b", own)):
        runs = cell_runs.CellRuns(folder, name, cell, [[1], [2]])
        with pytest.raises(ValueError, match=f"cell {name}: the text of data.train is no longer"):
            runs.prepare()
    (tmp_path / "t.fr").write_text("a b\nc\n")
    cell_runs.CellRuns(folder, "b", own, [[1], [2]]).prepare()


@pytest.mark.parametrize("edited", ["t.fr", "d.fr"])
def test_text_edited_since_an_earlier_call_is_refused_for_cells_with_other_batches_too(
    edited, without_training, tmp_path
):
    for name in ("t.en", "t.fr", "d.fr"):
        (tmp_path / name).write_text("a b\nc\n")
    text = {"train": "text:t.en,t.fr", "dev": "text:t.en,d.fr", "test": "text:t.en,t.fr"}
    own = config(data=dataclasses.replace(small.config.data, **text, root=str(tmp_path)))
    cells = product(own, {"data.batch_size": [20, 21]})
    first = dict([*cells.items()][:1])
    sweep(first, tmp_path / "s", [1], vmapped=False)
    sweep(first, tmp_path / "s", [1], vmapped=False)
    before = (tmp_path / "s/sweep.json").read_bytes()
    (tmp_path / edited).write_text("a b\na\n")
    field = {"t": "train", "d": "dev"}[edited[0]]
    for given in (first, cells):  # also where the cell has ended
        with pytest.raises(ValueError, match=f"the text of data.{field} is no longer what the sw"):
            sweep(given, tmp_path / "s", [1], vmapped=False)
    assert (tmp_path / "s/sweep.json").read_bytes() == before
    (tmp_path / edited).write_text("a b\nc\n")
    sweep(cells, tmp_path / "s", [1], vmapped=False)


def test_ctrl_c_during_the_preparation_leaves_the_folder_for_other_settings(tmp_path, monkeypatch):
    def leave(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cell_runs.CellRuns, "prepare", leave)
        with pytest.raises(KeyboardInterrupt):
            sweep(CELLS, tmp_path / "s", [1], vmapped=False)
    assert not (tmp_path / "s/sweep.json").exists()


def test_a_sweep_killed_while_it_restores_the_folder_can_continue(tmp_path, monkeypatch):
    """Folders of cells without a definition would be refused for good."""

    def leave(self):
        self.folder(1).mkdir(parents=True, exist_ok=True)
        raise KeyboardInterrupt

    def killed(folder, ignore_errors):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(cell_runs.CellRuns, "prepare", leave)
        patch.setattr(sweep_definition.shutil, "rmtree", killed)
        with pytest.raises(SystemExit):
            sweep(CELLS, tmp_path / "s", [1], vmapped=False)
        with pytest.raises(KeyboardInterrupt):  # not refused: it prepares again
            sweep(CELLS, tmp_path / "s", [1], vmapped=False)


def test_one_address_in_two_roots_is_refused_with_the_reason(tmp_path):
    """The texts of a sweep are known by their addresses."""
    for root, target in ((tmp_path, "a b\nc\n"), (tmp_path / "b", "a b\na\n")):
        root.mkdir(exist_ok=True)
        (root / "t.en").write_text("a b\nc\n")
        (root / "t.fr").write_text(target)
    address = "text:t.en,t.fr"
    text = dataclasses.replace(small.config.data, train=address, dev="", test=address)
    cells = product(config(data=text), {"data.root": [str(tmp_path), str(tmp_path / "b")]})
    with pytest.raises(ValueError, match=r"another data\.root: vary data\.train instead"):
        sweep(cells, tmp_path / "s", [1], vmapped=False)
    assert not (tmp_path / "s" / "sweep.json").exists()


def test_other_text_at_the_address_of_the_dev_pairs_is_refused(tmp_path):
    """Otherwise two texts would have chosen the checkpoints of one table."""
    for name in ("t.en", "t.fr", "d.fr"):
        (tmp_path / name).write_text("a b\nc\n")
    text = {"train": "text:t.en,t.fr", "dev": "text:t.en,d.fr", "test": "text:t.en,t.fr"}
    own = config(data=dataclasses.replace(small.config.data, **text, root=str(tmp_path)))
    cell_runs.CellRuns(tmp_path / "s", "a", own, [[1]]).prepare()
    (tmp_path / "d.fr").write_text("a b\na\n")
    runs = cell_runs.CellRuns(tmp_path / "s", "a", own, [[1], [2]])
    with pytest.raises(ValueError, match="cell a: the text of data.dev is no longer what the swe"):
        runs.prepare()
    shutil.rmtree(tmp_path / "s/data")  # the run folders know their text too
    with pytest.raises(ValueError, match="cell a: the text of data.dev is no longer what the swe"):
        runs.prepare()
    (tmp_path / "d.fr").write_text("a b\nc\n")
    runs.prepare()


def test_all_groups_have_the_batches_of_the_first_seed(monkeypatch, tmp_path):
    """The table does not depend on how many seeds came in which call."""
    calls = []

    def train(configs, folders, order, first, reporter):
        calls.append(([each.training.seed for each in configs], order, first))
        for own, folder in zip(configs, folders, strict=True):
            (folder / "checkpoints/4").mkdir(parents=True, exist_ok=True)
            own.save(folder / "config.json")
        return {}

    monkeypatch.setattr(run, "train_vmapped", train)
    monkeypatch.setattr(cell_runs.CellRuns, "_share_data", lambda *_: {"source": 9, "target": 9})
    monkeypatch.setattr(cell_runs.CellRuns, "_scored", lambda *_: {"BLEU": 1.0})
    cells = {"a": CELLS["order=paper"]}
    sweep(cells, tmp_path / "s", [4, 5])
    sweep(cells, tmp_path / "s", [4, 5, 6])
    assert calls == [([4, 5], "shared", 4), ([6], "shared", 4)]
    assert [cell_runs.group_of(tmp_path / f"s/a/seed-{n}", n) for n in (4, 6)] == [(4, 5), (6,)]


def test_a_run_whose_checkpoints_are_gone_is_trained_again(without_training, tmp_path):
    cells = {"a": CELLS["order=paper"]}
    old = [tmp_path / "a/seed-1" / name for name in (cell_runs.SCORES, cell_runs.TRANSLATIONS)]
    for _ in range(2):
        sweep(cells, tmp_path, [1], vmapped=False)
        assert not any(path.exists() for path in old)  # scores of another training
        for path in old:
            path.write_text("old")
        shutil.rmtree(tmp_path / "a/seed-1/checkpoints")
    assert without_training == [("paper", 1)] * 2


@pytest.mark.parametrize("error", [training.Interrupted("killed"), OSError("the disk is full")])
@pytest.mark.parametrize("vmapped", [False, True])
def test_a_run_that_is_trained_again_and_cut_off_has_not_ended(
    vmapped, error, tmp_path, monkeypatch
):
    """It leaves a checkpoint of too few updates beside the record of the first training."""
    calls = []

    def train(configs, folders, *_):
        calls.append([own.training.seed for own in configs])
        for own, folder in zip(configs, folders, strict=True):
            steps = 2 if len(calls) == 2 else STEPS
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
            (folder / "checkpoints" / str(steps)).mkdir(parents=True)
            own.save(folder / "config.json")
        if len(calls) == 2:
            raise error
        return {}

    monkeypatch.setattr(run, "train_vmapped", train)
    monkeypatch.setattr(run, "train", lambda own, folder, **_: train([own], [folder]))
    monkeypatch.setattr(cell_runs.CellRuns, "_share_data", lambda *_: {"source": 9, "target": 9})
    runs = cell_runs.CellRuns(tmp_path, "a", CELLS["order=paper"], [[1, 2] if vmapped else [1]])
    runs.train(vmapped)
    shutil.rmtree(tmp_path / "a/seed-1/checkpoints")
    with contextlib.suppress(training.Interrupted):
        runs.train(vmapped)
        assert len(runs.failed) == len(calls[0])  # an error of one counts for the whole group
    for _ in range(2):
        runs.train(vmapped)
    assert calls == [calls[0]] * 3


@pytest.mark.parametrize("vmapped", [False, True])
def test_a_group_that_is_trained_again_is_scored_again(
    vmapped, without_training, tmp_path, monkeypatch
):
    """Its training overwrites the checkpoints of all its runs, also of those that have ended."""
    runs = cell_runs.CellRuns(tmp_path, "a", CELLS["order=paper"], [[1, 2]])
    runs.train(vmapped=False)
    shutil.rmtree(runs.folder(1) / "checkpoints")
    scores = runs.folder(2) / cell_runs.SCORES
    scores.write_text("old")
    monkeypatch.setattr(run, "train_vmapped", lambda *_: {})
    runs.train(vmapped)
    assert scores.exists() != vmapped and (runs.folder(2) / cell_runs.ENDED).exists()


def test_scores_belong_to_the_newest_checkpoint(tmp_path, monkeypatch):
    """`bahdanau train` may continue a run of a sweep."""
    runs = cell_runs.CellRuns(tmp_path, "a", CELLS["order=paper"], [[1]])
    folder, stored = runs.folder(1), {"BLEU": 7.0}
    folder.mkdir(parents=True)
    monkeypatch.setattr(cell_runs.run_folder, "updates_made", lambda _: STEPS - 1)
    monkeypatch.setattr(runs, "_load", lambda _: pytest.fail("it is scored again"))
    with pytest.raises(pytest.fail.Exception, match="scored again"):
        runs._scored(folder)
    settings = runs._settings(folder)
    (folder / cell_runs.SCORES).write_text(json.dumps({"settings": settings, "scores": stored}))
    assert not runs.stored_scores()  # its training has not ended
    runs._end(1, None, [1])
    assert not runs.stored_scores()  # reports read its translations
    (folder / cell_runs.TRANSLATIONS).touch()
    assert runs._scored(folder) == stored
    assert runs.stored_scores() == {1: stored}
    monkeypatch.setattr(cell_runs.run_folder, "updates_made", lambda _: STEPS)
    assert not runs.stored_scores()
    with pytest.raises(pytest.fail.Exception, match="scored again"):
        runs._scored(folder)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"cells": 3, "seeds": [[1]], "order": "shared", "vmapped": null}']
)
def test_a_damaged_definition_is_named(text, without_training, tmp_path):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(ValueError, match=r"sweep\.json is damaged: restore it"):
        sweep(CELLS, tmp_path, [1], vmapped=False)
    assert not without_training


def test_an_empty_address_of_further_pairs_is_refused(without_training, tmp_path):
    with pytest.raises(ValueError, match="^the address of further test pairs is empty"):
        sweep(CELLS, tmp_path, [1], vmapped=False, tests={"more": ""})
    assert not without_training


def test_training_text_of_a_later_cell_is_checked_before_any_training(tmp_path, monkeypatch):
    """All of it: two sides of unequal length are equal in their first lines."""
    (tmp_path / "t.en").write_text("a b\nc\n")
    (tmp_path / "t.fr").write_text("a b\nc\nd\n")
    test, train = (f"text:{tmp_path}/t.en,{tmp_path}/t.{side}" for side in ("en", "fr"))
    unequal = config(data=dataclasses.replace(small.config.data, train=train, dev="", test=test))
    monkeypatch.setattr(run, "train", lambda *_, **__: pytest.fail("it trains"))
    with pytest.raises(ValueError, match=r"^cell b: .*t\.en.*2.*3"):
        sweep({"a": CELLS["order=paper"], "b": unequal}, tmp_path / "s", [1], vmapped=False)


def test_a_group_that_fails_again_loses_only_the_runs_that_had_not_ended(
    without_training, tmp_path, monkeypatch
):
    name, own = "order=paper", CELLS["order=paper"]
    sweep({name: own}, tmp_path, [1, 2, 3], vmapped=False)
    (tmp_path / name / "seed-2" / cell_runs.ENDED).write_text("\n")  # damaged, as if never written

    def fail(*_):
        raise ValueError("seed-2 is damaged")

    monkeypatch.setattr(run, "train_vmapped", fail)
    runs = cell_runs.CellRuns(tmp_path, name, own, [[1, 2, 3]])
    runs.train(vmapped=True)
    assert runs.failed == {f"{name}/seed-2": "seed-2 is damaged"}
    assert sorted(runs.score()) == [1, 3]


def test_test_pairs_are_read_where_the_corpus_is_now(tmp_path, monkeypatch):
    own = CELLS["order=paper"]
    moved = dataclasses.replace(own, data=dataclasses.replace(own.data, root=str(tmp_path / "now")))
    (tmp_path / "a/seed-1").mkdir(parents=True)
    trained = own.with_vocabularies(9, 8)
    trained.save(tmp_path / "a/seed-1/config.json")
    monkeypatch.setattr(
        cell_runs, "load", lambda folder, **_: cell_runs.Run(folder, trained, (), {})
    )
    read = []
    monkeypatch.setattr(cell_runs.TestPairs, "read", lambda settings: read.append(settings.root))

    def evaluated(*_):
        return [run_scores.Evaluated([], [], [], None, {})]

    monkeypatch.setattr(cell_runs, "evaluate_test_pairs", evaluated)
    runs = cell_runs.CellRuns(tmp_path, "a", moved, [[1]], tests={"more": "builtin:copy/test"})
    runs._texts = {}
    assert runs.score() == {1: {"tests": {"more": {}}}}
    assert read == [str(tmp_path / "now")] * 2


def test_test_pairs_and_search_are_those_of_the_cell(tmp_path, monkeypatch):
    """`bahdanau train` accepts others in the folder of a run that has ended."""
    own = CELLS["order=paper"]
    other = dataclasses.replace(
        own.with_vocabularies(9, 8),
        data=dataclasses.replace(own.data, test="builtin:copy/test?pairs=3"),
        decoding=dataclasses.replace(own.decoding, beam_size=7),
    )
    (tmp_path / "a/seed-1").mkdir(parents=True)
    other.save(tmp_path / "a/seed-1/config.json")
    monkeypatch.setattr(cell_runs, "load", lambda folder, **_: cell_runs.Run(folder, other, (), {}))
    loaded = cell_runs.CellRuns(tmp_path, "a", own, [[1]])._load(tmp_path / "a/seed-1").config
    assert (loaded.data, loaded.decoding) == (own.data, own.decoding)


def test_a_run_with_more_updates_than_its_cell_is_not_scored(tmp_path, monkeypatch):
    """`bahdanau train` may continue a run of a sweep beyond its end."""
    own = CELLS["order=paper"]
    training = dataclasses.replace(own.training, steps=2 * STEPS)
    (tmp_path / "a/seed-1/checkpoints" / str(2 * STEPS)).mkdir(parents=True)
    longer = dataclasses.replace(own, training=training).with_vocabularies(9, 8)
    longer.save(tmp_path / "a/seed-1/config.json")
    monkeypatch.setattr(cell_runs, "load", lambda *_, **__: pytest.fail("it is scored"))
    runs = cell_runs.CellRuns(tmp_path, "a", own, [[1]])
    runs._texts = {}
    assert not runs.score()
    assert "seed-1 has 8 updates, above 4: remove its checkpoints" in runs.failed["a/seed-1"]


@pytest.mark.parametrize("change", [{"attention": "dot"}, {"attention": "mine:score"}])
def test_a_folder_with_another_model_is_not_scored(change, tmp_path, monkeypatch):
    own = CELLS["order=paper"]
    other = dataclasses.replace(own, model=dataclasses.replace(own.model, **change))
    (tmp_path / "a/seed-1").mkdir(parents=True)
    other.with_vocabularies(9, 8).save(tmp_path / "a/seed-1/config.json")
    monkeypatch.setattr(cell_runs, "load", lambda *_, **__: pytest.fail("its code would run"))
    runs = cell_runs.CellRuns(tmp_path, "a", own, [[1]])
    runs._texts = {}
    assert not runs.score()
    assert runs.failed["a/seed-1"].endswith("holds another model than that of its cell")


@pytest.mark.parametrize("text", ["[]", "\n", '{"scores": 1, "failed": {}}'])
def test_damaged_results_are_named_before_any_training(text, without_training, tmp_path):
    sweep({"a": CELLS["order=paper"]}, tmp_path, [1], vmapped=False)
    before = (tmp_path / "sweep.json").read_text()
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ValueError, match=r"results\.json is damaged; remove it"):
        sweep({"b": CELLS["order=paper"], "a": CELLS["order=paper"]}, tmp_path, [1], vmapped=False)
    assert len(without_training) == 1
    assert (tmp_path / "sweep.json").read_text() == before
