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


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (
            "text:a.de,a.en",
            "end in .de and .en, but data.source_language is en and data.target_language fr",
        ),
        ("text:x/a.fr.gz+b.txt,a.en.xz", "--data.source-language fr --data.target-language en"),
        ("text:a.en,a.fr; 0.5*text:b.fr,b.en", "end in .fr and .en"),
        ("text:x/a.en.gz,a.fr", ""),
        ("text:a.src,a.en", ""),
        ("text:a.gz,b.gz", ""),
        ("text:train.en/a,train.de/b", ""),
        ("tsv:a.de", ""),
        ("builtin:copy/train", ""),
    ],
)
def test_names_of_files_that_say_other_languages(train, said):
    found = remarks.on_languages(DataConfig(train=train))
    assert said in found[0] if said else found == []
    german = DataConfig(train="text:a.de,a.en", source_language="de", target_language="en")
    assert remarks.on_languages(german) == []


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
