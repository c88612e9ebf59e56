"""The events of a run that the campaign recognises."""

import json

from tests.faults.folder import Watched


def write(folder, *steps, **scores):
    """A new metrics.jsonl in the place of the old one, as every start makes it."""
    fresh = folder / "metrics.tmp"
    fresh.write_text(
        "".join(json.dumps({"step": step, "epoch": 0} | scores) + "\n" for step in steps)
    )
    fresh.replace(folder / "metrics.jsonl")


def test_what_an_earlier_start_left_behind_is_no_event(tmp_path):
    write(tmp_path, 1, 2, 8)
    (tmp_path / "checkpoints" / "3.unfinished").mkdir(parents=True)
    watched = Watched(tmp_path)
    events = watched.reached(2), watched.evaluating(8), watched.saving()
    assert [event() for event in events] == [False, False, False]
    write(tmp_path, 1, 2, 8)
    (tmp_path / "checkpoints" / "6").mkdir()
    assert [event() for event in events] == [True, True, False]
    (tmp_path / "checkpoints" / "9.unfinished").mkdir()
    write(tmp_path, 8, dev_loss=1.0)
    assert [event() for event in events] == [False, False, True]


def test_before_the_first_start_there_are_none(tmp_path):
    watched = Watched(tmp_path)
    assert not watched.reached(1)() and not watched.saving()()
    write(tmp_path, 1)
    assert watched.reached(1)()
