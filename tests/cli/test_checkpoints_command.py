"""`bahdanau checkpoints`: the list, damaged checkpoints, and pruning."""

import re
import shutil

import jax
import pytest

from bahdanau_jax import run_folder
from bahdanau_jax.checkpoints import Checkpointer
from tests.training import toy

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SCORES = {1: 9.0, 2: None, 3: 3.0, 4: 1.0}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of four checkpoints, the first of which is the best."""
    run = tmp_path_factory.mktemp("whole") / "run"
    state, step = toy.parts()
    checkpoints = Checkpointer(run / "checkpoints", 9)
    for at, score in SCORES.items():
        state, _ = step(state, toy.batch(at))
        checkpoints.save(at, jax.tree.map(jax.numpy.copy, state), score, {"step": at})
    checkpoints.close()
    return run


@pytest.fixture
def run(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def table(out: str) -> dict[int, tuple[str, str]]:
    """step -> (score, state)"""
    rows = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()[1:]]
    return {int(row[0]): (row[1], row[-1]) for row in rows}


def steps(run) -> set[str]:
    return {path.name for path in (run / "checkpoints").iterdir()}


def flip(run, step: int) -> None:
    files = (run / "checkpoints" / str(step) / "state").rglob("d/*")
    path = max((p for p in files if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(bytes(data))


def test_the_list(run, command_line):
    code, out, err = command_line("checkpoints", "--run", run)
    assert (code, err) == (0, "")
    assert table(out) == {
        1: ("9", "unchecked, best"),
        2: ("-", "unchecked"),
        3: ("3", "unchecked"),
        4: ("1", "unchecked"),
    }
    assert out.splitlines()[0].split() == ["step", "score", "MB", "saved", "state"]


def test_damage_is_found_named_and_never_best(run, command_line):
    flip(run, 1)
    (run / "checkpoints" / "2" / "_CHECKPOINT_METADATA").write_text("{")
    (run / "checkpoints" / "3").rename(run / "checkpoints" / "damaged-3")
    code, out, err = command_line("checkpoints", "--run", run, "--verify")
    found = table(out)
    assert found[1][1].startswith("damaged: ") and found[2][1].startswith("damaged: its metadata")
    assert found[3][1] == "damaged, set aside" and found[4] == ("1", "good, best")
    named = ", ".join(str(run / "checkpoints" / name) for name in ("1", "2", "damaged-3"))
    assert code == 2
    assert err == (
        f"bahdanau: 3 of 4 checkpoints cannot be used: {named}; training and translation skip "
        "them\n"
    )


def test_a_checkpoint_that_a_trainer_removes_is_not_damaged(run, command_line, monkeypatch):
    read = Checkpointer.arrays

    def removed_first(self, step):
        if step == 2:
            shutil.rmtree(run / "checkpoints" / "2")
        return read(self, step)

    monkeypatch.setattr(Checkpointer, "arrays", removed_first)
    code, out, err = command_line("checkpoints", "--run", run, "--verify")
    assert (code, err) == (0, "")
    assert {step: state for step, (_, state) in table(out).items()} == {
        1: "good, best",
        3: "good",
        4: "good",
    }


def test_pruning_leaves_the_newest_and_the_best(run, command_line):
    code, out, err = command_line("checkpoints", "--run", run, "--prune", 1)
    assert (code, err) == (0, "removed: 2, 3\n")
    assert table(out) == {1: ("9", "good, best"), 4: ("1", "good")}
    assert steps(run) == {"1", "4"}
    code, _, err = command_line("checkpoints", "--run", run, "--prune", 1)
    assert (code, err) == (0, "removed: none\n")


def test_pruning_leaves_the_last_good_one(run, command_line):
    """The newest are damaged: they do not count as kept, and are not removed."""
    for step in (1, 3, 4):
        flip(run, step)
    code, _, err = command_line("checkpoints", "--run", run, "--prune", 1)
    assert code == 2 and err.startswith("removed: none\n") and err.count("\n") == 2
    assert steps(run) == {"1", "2", "3", "4"}


def test_pruning_waits_for_no_trainer(run, command_line):
    with run_folder.lock(run):
        code, _, err = command_line("checkpoints", "--run", run, "--prune", 1)
    assert code == 2 and "is in use by another training run" in err and err.count("\n") == 1
    assert steps(run) == {"1", "2", "3", "4"}


WRONG = {
    ("--prune", "-1"): "--prune is -1, but should be at least 0",
    ("--words", "a,b"): "--words needs --import, which is missing",
    ("--import", "a.npz", "--verify"): "--import makes a new run folder: leave out the other",
    ("--import", "a.npz", "--words", "a"): "--words is 'a', but should be two files",
    ("--import", "no.safetensors"): "no.safetensors",
    ("--export", "model"): "model should end in .safetensors",
    ("--prune", "1", "--verify"): "--prune verifies all checkpoints first: leave out --verify",
    ("--trust-code",): "--trust-code needs --export or --import, which is missing",
    ("--prune", "x"): "",
    ("--verfy",): "no option --verfy; did you mean --verify?",
}


@pytest.mark.parametrize("options", WRONG)
def test_wrong_options(options, tmp_path, command_line):
    (tmp_path / "checkpoints").mkdir()
    code, out, err = command_line("checkpoints", "--run", tmp_path, *options)
    assert (code, out) == (2, "")
    assert WRONG[options] in err and err.count("\n") == 1 and "Traceback" not in err


def test_no_checkpoints(tmp_path, command_line):
    code, _, err = command_line("checkpoints", "--run", tmp_path)
    assert code == 2
    assert err == f"bahdanau: {tmp_path} holds no checkpoints: train a model there first\n"
