"""The folder of a report: what an earlier report left in it, and files that appear whole."""

import pytest
from matplotlib.figure import Figure

from bahdanau_jax import atomic
from bahdanau_jax.report.document import Picture, Section
from bahdanau_jax.report.publish import publish


def parts(*names: str) -> list[Section]:
    pictures = tuple(Picture(name, Figure(), f"Of [{name}].") for name in names)
    return [Section("Part", "Text.", pictures=pictures)]


def test_pictures_of_an_earlier_report_are_removed_and_other_files_stay(tmp_path):
    publish(tmp_path, "T", "S", {}, parts("alignment_3", "no-attention"))
    (tmp_path / "mine.svg").write_text("mine")
    publish(tmp_path, "T", "S", {}, parts("alignment_1"))
    found = {path.name for path in tmp_path.iterdir()}
    pictures = {"alignment_1.svg", "alignment_1.png", "mine.svg"}
    assert found == {"scores.json", "report.md", "index.html", *pictures}


def test_pictures_of_a_text_that_is_no_report_stay(tmp_path):
    (tmp_path / "report.md").write_text("# Mine\n\n![A plan](plan.svg)\n")
    (tmp_path / "plan.svg").write_text("mine")
    publish(tmp_path, "T", "S", {}, parts("alignment_1"))
    assert (tmp_path / "plan.svg").read_text() == "mine"


def test_a_file_that_cannot_be_written_leaves_that_of_the_earlier_report(tmp_path, monkeypatch):
    publish(tmp_path, "T", "S", {"BLEU": 1.0}, parts())
    before = (tmp_path / "scores.json").read_bytes()

    def full(draft, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        publish(tmp_path, "T", "S", {"BLEU": 2.0}, parts())
    assert (tmp_path / "scores.json").read_bytes() == before


def test_lone_surrogates_of_a_text_are_replaced(tmp_path):
    publish(tmp_path, "a \ud800 b", "S", {}, parts())
    assert "a ? b" in (tmp_path / "report.md").read_text("utf-8")
