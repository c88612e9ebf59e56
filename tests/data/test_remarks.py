"""Warnings about corpora before training."""

import dataclasses

import pytest

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import remarks


def test_a_line_says_what_empty_dev_and_test_mean():
    assert remarks.on_splits(DataConfig()) == []
    (both,) = remarks.on_splits(DataConfig(train="text:a.en,a.fr"))
    for part in ("the newest checkpoint", "no test scores", "--data.dev text:F", "--data.test "):
        assert part in both
    (one,) = remarks.on_splits(DataConfig(train="text:a.en,a.fr", test="text:t.en,t.fr"))
    assert "data.dev is empty" in one and "test" not in one


def test_built_in_pairs_beside_other_training_text_are_named():
    dev, test = remarks.on_other_corpora(
        DataConfig(train="text:a.en,a.fr", dev="builtin:en-fr/dev", test="builtin:copy/test")
    )
    assert dev.startswith("data.dev has pairs of builtin:en-fr, but data.train has none")
    assert test.startswith("data.test has pairs of builtin:copy")
    mixed = "text:a.en,a.fr; builtin:en-fr/train"
    own = DataConfig(train=mixed, dev="builtin:en-fr/dev", test="tsv:t")
    assert remarks.on_other_corpora(own) == []
    changed = dataclasses.replace(DataConfig(), train="text:a.zh,a.en")
    assert len(remarks.on_other_corpora(changed)) == 2


CHINESE = "今天天气很好，我们去公园吧。"


@pytest.mark.parametrize(
    ("lines", "vocabulary", "said"),
    [
        ([CHINESE] * 6 + ["他说 hello world ."] * 5, "words", True),
        ([CHINESE] * 5 + ["他说 hello world ."] * 6, "words", False),
        ([CHINESE] * 9, "characters", False),
        (["12"] * 9 + ["", " "], "words", False),  # short words in their own lines
        ([""] * 9, "words", False),
    ],
)
def test_text_without_spaces_is_found(tmp_path, lines, vocabulary, said):
    (tmp_path / "a.en").write_text("The man sleeps .\n" * len(lines))
    (tmp_path / "a.zh").write_text("".join(f"{line}\n" for line in lines))
    config = DataConfig(train="text:a.en,a.zh", root=str(tmp_path), vocabulary=vocabulary)
    found = remarks.on_words(config)
    assert len(found) == said
    if said:
        assert "on the target side" in found[0] and "characters or sentencepiece" in found[0]


def test_built_in_text_is_not_looked_at():
    assert remarks.on_words(DataConfig(train="builtin:copy/train?pairs=5&max=1&min=1")) == []
