import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import codec, sources
from bahdanau_jax.data.prepare import prepare

ENGLISH = ["The man isn't here.", "", "A dog saw the man, the dog and the cat.", "Yes!"]
FRENCH = ["L'homme n'est pas ici.", "Rien.", "Un chien a vu l'homme, le chien et le chat.", "Oui !"]


@pytest.fixture
def config(tmp_path):
    for name, lines in (("a.en", ENGLISH), ("a.fr", FRENCH)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return DataConfig(
        train="text:a.en,a.fr",
        dev="text:a.en,a.fr",
        test="builtin:copy/test?pairs=3",
        root=str(tmp_path),
        max_tokens=9,
    )


def test_prepare_counts_what_it_did(config, tmp_path, capfd):
    prepared = prepare(config, tmp_path / "work")
    assert prepared.statistics == {
        "read": 4,
        "kept": 2,
        "dropped": {"too_long": 1, "empty": 1},
        "tokens": {"source": 8, "target": 9},
        "unknown": {"source": 0, "target": 0},
        "unk_rate": {"source": 0.0, "target": 0.0},
        "vocabulary": {"source": 17, "target": 21},
    }
    assert [tuple(pair) for pair in prepared.dev] == list(zip(ENGLISH, FRENCH, strict=True))
    assert len(prepared.test) == 3
    assert capfd.readouterr() == ("", "")


def test_the_store_holds_what_the_codecs_encode(config, tmp_path):
    prepared = prepare(config, tmp_path / "work")
    for row, line in enumerate((0, 3)):
        assert prepared.train.source(row).tolist() == prepared.codecs[0].encode(ENGLISH[line])
        assert prepared.train.target(row).tolist() == prepared.codecs[1].encode(FRENCH[line])


def test_learning_equals_learning_from_text(config, tmp_path):
    prepared = prepare(config, tmp_path / "work")
    learned = codec.learn(config, sources.pairs(config.train, config))
    for one, other in zip(prepared.codecs, learned, strict=True):
        assert one.vocabulary == other.vocabulary


def test_a_second_time_nothing_is_tokenised(config, tmp_path, monkeypatch):
    first = prepare(config, tmp_path / "work")

    def never(*_):
        raise AssertionError("tokenised again")

    monkeypatch.setattr(codec, "tokenize_pairs", never)
    second = prepare(config, tmp_path / "work")
    assert second.statistics == first.statistics
    assert (second.train.lengths == first.train.lengths).all()
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"vocabulary", "store"}


def test_another_length_limit_keeps_the_vocabulary_and_makes_another_store(config, tmp_path):
    prepare(config, tmp_path / "work")
    longer = prepare(dataclasses.replace(config, max_tokens=0), tmp_path / "work")
    assert longer.statistics["kept"] == 3
    assert len(list((tmp_path / "work/store").iterdir())) == 2


def test_another_vocabulary_needs_another_folder(config, tmp_path):
    prepare(config, tmp_path / "work")
    with pytest.raises(ValueError, match="data.vocabulary = 'words', but it is now 'characters'"):
        prepare(dataclasses.replace(config, vocabulary="characters"), tmp_path / "work")


def test_unknown_words_are_counted(config, tmp_path):
    small = dataclasses.replace(config, source_vocabulary_size=3)
    statistics = prepare(small, tmp_path / "work").statistics
    assert statistics["vocabulary"]["source"] == 3
    assert statistics["unk_rate"]["source"] == statistics["unknown"]["source"] / 8 > 0.5


@pytest.mark.parametrize("which", ["train", "dev", "test"])
def test_a_missing_corpus_is_known_before_any_work(config, tmp_path, which):
    broken = dataclasses.replace(config, **{which: "text:no.en,no.fr"})
    with pytest.raises(FileNotFoundError, match="no.en"):
        prepare(broken, tmp_path / "work")
    assert not (tmp_path / "work/vocabulary").exists()


def test_nothing_left_leaves_nothing(config, tmp_path):
    short = dataclasses.replace(config, max_tokens=1)
    with pytest.raises(ValueError, match="no training pair is left of 4"):
        prepare(short, tmp_path / "work")
    assert not list((tmp_path / "work").iterdir())


def test_no_dev_and_no_test(config, tmp_path):
    prepared = prepare(dataclasses.replace(config, dev="", test=""), tmp_path / "work")
    assert prepared.dev == prepared.test == []


@pytest.mark.parametrize("vocabulary", ["words", "characters"])
def test_a_builtin_corpus(tmp_path, vocabulary):
    config = DataConfig(
        train="builtin:en-fr/train?pairs=50&min=3&max=9",
        dev="builtin:reverse/dev?pairs=5",
        test="",
        tokenizer="none",
        vocabulary=vocabulary,
        max_tokens=0,
    )
    prepared = prepare(config, tmp_path)
    assert prepared.statistics["kept"] == 50
    assert len(prepared.dev) == 5


@pytest.mark.slow
def test_real_captions(tmp_path):
    root = Path(os.environ.get("BAHDANAU_DATA", "data"))
    if not (root / "multi30k").exists():
        pytest.skip("Multi30k is not in BAHDANAU_DATA")
    config = DataConfig(
        train="text:multi30k/train.en.gz,multi30k/train.fr.gz",
        dev="text:multi30k/val.en.gz,multi30k/val.fr.gz",
        test="",
        root=str(root),
        lowercase=True,
        vocabulary="sentencepiece",
        joint_vocabulary=True,
        source_vocabulary_size=8_000,
    )
    prepared = prepare(config, tmp_path)
    assert prepared.statistics["read"] == 29_000
    assert prepared.statistics["vocabulary"] == {"source": 8_000, "target": 8_000}
    assert len(prepared.dev) == 1_014
    assert np.all(prepared.train.lengths <= 51)
