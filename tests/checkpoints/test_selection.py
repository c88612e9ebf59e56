"""The best checkpoint is used; better ones that are damaged or missing are reported."""

import json
import math
import shutil

import jax
import pytest

from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.checkpoints.selection import Records, best, candidates, ordered
from bahdanau_jax.run_folder import is_locked, lock
from tests.training import toy

# Where loading fails, Orbax's own threads complain to a loop that is closed by then.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SCORES = {2: 30.0, 4: 90.0, 6: 65.0}  # of a run that evaluated also at 1, 3 and 5
EARLIER = {1: 10.0, 3: 40.0, 5: 60.0}  # whose checkpoints were removed on the way


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choosing") / "run"
    state, _ = toy.parts()
    checkpoints = Checkpointer(folder / "checkpoints", 9)
    for step, score in SCORES.items():
        checkpoints.save(step, jax.tree.map(jax.numpy.copy, state), score)
    checkpoints.close()
    lines = [
        {"step": step, "dev_score": score} for step, score in sorted((SCORES | EARLIER).items())
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    return folder


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def choose(run, choice="best", count=1, keep=None):
    records = Records.of(run)
    checkpoints = Checkpointer(run / "checkpoints", keep, records)
    try:
        return checkpoints.choose({"params": toy.init()}, choice, count)[1]
    finally:
        checkpoints.close()


def metadata(run, step: int):
    return run / "checkpoints" / str(step) / "_CHECKPOINT_METADATA"


def flip(run, step: int, share: float, name: bytes = b"") -> None:
    data = bytearray(metadata(run, step).read_bytes())
    data[data.find(name) if name else int(share * len(data))] ^= 1
    metadata(run, step).write_bytes(bytes(data))


def empty(run, step: int) -> None:
    shutil.rmtree(run / "checkpoints" / str(step))
    (run / "checkpoints" / str(step)).mkdir()


def unnote(run, step: int) -> None:
    record = json.loads(metadata(run, step).read_text())
    metadata(run, step).write_text(json.dumps(record | {"custom_metadata": {}}))


HARM = {
    "its JSON": lambda run: flip(run, 4, 0),
    "its seal": lambda run: flip(run, 4, 0.5),
    "no note": lambda run: unnote(run, 4),
    "a key of Orbax's": lambda run: flip(run, 4, 0, b"item_handlers"),
    "nested": lambda run: metadata(run, 4).write_text("[" * 100_000),
    "no metadata": lambda run: metadata(run, 4).unlink(),
    "an empty folder": lambda run: empty(run, 4),
    "no folder": lambda run: shutil.rmtree(run / "checkpoints/4"),
    "no arrays": lambda run: shutil.rmtree(run / "checkpoints/4/state"),
    "set aside": lambda run: (run / "checkpoints/4").rename(run / "checkpoints/damaged-4"),
}


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM)
def test_a_better_checkpoint_that_cannot_be_read_is_named(run, caplog, harm):
    HARM[harm](run)
    chosen = choose(run)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"checkpoint {run}/checkpoints/4 is ")
    assert told.endswith("; its dev score was 90; used instead: step 6 (dev score 65)")
    assert [one.step for one in chosen.used] == [6] and [one.step for one in chosen.passed] == [4]
    assert chosen.to_json()["passed"][0]["score"] == 90.0


def test_a_step_that_cannot_be_read_is_refused(run, caplog):
    assert [one.step for one in choose(run, "4").used] == [4]
    HARM["no metadata"](run)
    with pytest.raises(OSError, match="/4 is damaged: .*: choose another checkpoint$"):
        choose(run, "4")
    assert [one.step for one in choose(run, "6").used] == [6] and not caplog.records


@pytest.mark.parametrize("choice", ["best", "newest"])
def test_a_healthy_run_is_silent(run, caplog, choice):
    """Its metrics have scores of checkpoints that were removed, which is no reason to warn."""
    assert [one.step for one in choose(run, choice).used] == [4 if choice == "best" else 6]
    assert [one.step for one in choose(run, choice, 3).used][2] == 2
    flip(run, 2, 0.5)  # worse and older: it would not have been chosen
    choose(run, choice)
    assert not caplog.records


def test_a_run_that_trains_has_not_saved_its_last_score_yet(run, caplog):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 8, "dev_score": 95.0}) + "\n")
    with lock(run):
        assert is_locked(run)
        choose(run)
        assert not caplog.records
    assert not is_locked(run)
    choose(run)
    assert "checkpoints/8 is missing; its dev score was 95; used" in caplog.text


def test_a_score_that_nobody_knows_may_have_been_the_best(run, caplog):
    (run / "metrics.jsonl").unlink()
    flip(run, 2, 0.5)
    assert [one.step for one in choose(run).used] == [4]
    assert "checkpoints/2 is damaged" in caplog.text and "dev score is unknown" in caplog.text


def test_torn_metrics_do_not_matter(run, caplog):
    (run / "metrics.jsonl").write_bytes(b'{"step": 4, "dev_sco\n[1]\n\xff\n' + b"[" * 100_000)
    assert [one.step for one in choose(run).used] == [4]
    assert not caplog.records


def test_a_trainer_names_all_that_are_damaged_and_keeps_them(run, caplog):
    """Training resumes from the newest one, but the loss of the best one has to be reported."""
    flip(run, 4, 0.5)
    assert [one.step for one in choose(run, "newest", keep=1).used] == [6]
    assert "checkpoints/4 is damaged" in caplog.text and "dev score was 90" in caplog.text
    assert (run / "checkpoints/damaged-4").is_dir()


def test_a_newer_one_that_is_damaged_is_called_newer(run, caplog):
    flip(run, 6, 0.5)
    assert [one.step for one in choose(run, "newest").used] == [4]
    (told,) = caplog.messages
    assert told.startswith(f"checkpoint {run}/checkpoints/6 is damaged: ")
    assert told.endswith("; it is newer; used instead: step 4 (dev score 90)")


def test_a_damaged_one_without_a_score_is_not_called_newer(run, caplog):
    flip(run, 2, 0.5)
    records = Records({}, last=6)  # which evaluated nothing
    checkpoints = Checkpointer(run / "checkpoints", 9, records)
    checkpoints.choose({"params": toy.init()}, "newest", 1)
    checkpoints.close()
    assert "checkpoints/2 is damaged" in caplog.text and "it has no dev score" in caplog.text


def test_orders_of_steps():
    scores = {2: 5.0, 4: 9.0, 6: 5.0}  # step 8 has none
    assert best(scores) == 4 and best({2: 5.0, 6: 5.0}) == 6 and best({}) is None
    assert ordered([2, 4, 6, 8], scores, "best", 2) == [4, 6, 2, 8]
    assert ordered([2, 8, 4, 6], scores, "newest", 2) == [8, 6, 4, 2]
    assert ordered([2, 4], scores, "2", 1) == [2]


@pytest.mark.parametrize(
    ("steps", "choice", "count", "said"),
    [
        ([4, 2], "3", 1, "there is no checkpoint of step 3; there are those of 2, 4"),
        ([], "3", 1, "there is no checkpoint of step 3; there are those of no step"),
        ([2, 4], "2", 2, "2 checkpoints cannot be averaged: step 2 is one"),
        ([2, 4], "2", 0, "0 checkpoints cannot be averaged: at least 1"),
        ([2, 4], "best", 0, "0 checkpoints cannot be averaged: at least 1"),
        ([2, 4], "oldest", 1, "no checkpoint 'oldest'; known: best, newest (did you mean 'best'?)"),
    ],
)
def test_choices_that_no_checkpoint_fits(steps, choice, count, said):
    with pytest.raises(ValueError) as fault:
        ordered(steps, {}, choice, count)
    assert str(fault.value) == said


def test_what_may_be_the_best_of_a_run_that_trains():
    scores = {2: 5.0, 4: 9.0, 6: 7.0, 8: 99.0}  # 8 is not saved yet, and 4 is missing
    training = Records(scores, last=8, training=True)
    for here, expected in (({2: 5.0, 6: 7.0}, [4, 6, 2]), ({2: 5.0, 4: 9.0, 6: 7.0}, [4, 6, 2])):
        assert [c.step for c in candidates(here, {}, training, "best", 1)] == expected
    stopped = Records(scores, last=8)
    assert [c.step for c in candidates({6: 7.0}, {}, stopped, "best", 1)] == [8, 6]
    assert [c.step for c in candidates({6: 7.0}, {}, stopped, "newest", 1)] == [6]


def test_the_order_of_what_is_known():
    records = Records({1: 5.0, 2: 9.0, 3: 7.0}, last=4)
    found = candidates({1: 5.0, 4: None}, {3: "torn", 5: "torn"}, records, "best", 1)
    assert [(one.step, one.score) for one in found] == [
        (5, math.inf),  # saved after the last line: nobody knows
        (2, 9.0),  # missing
        (3, 7.0),
        (1, 5.0),
        (4, None),
    ]
    torn = "is damaged: torn"
    assert [one.fault for one in found] == [torn, "is missing", torn, "", ""]
