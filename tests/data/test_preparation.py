import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.preparation import has_vocabulary, prepare
from bahdanau_jax.data.sources import addresses
from bahdanau_jax.data.tokens import codec, text_chunks

ROOT = str(Path(__file__).resolve().parents[2])
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
    digest = prepared.statistics.pop("digest")
    assert len(digest) == 32
    assert prepared.statistics == {
        "read": 4,
        "read_tokens": 20,
        "kept": 2,
        "dropped": {"empty": 1, "too_long": 1, "uneven": 0, "duplicate": 0},
        "corpora": [2],
        "encodings": 1,
        "words": {"source": 8, "target": 9},
        "types": {"source": 15, "target": 19},
        "tokens": {"source": 8, "target": 9},
        "unknown": {"source": 0, "target": 0},
        "unk_rate": {"source": 0.0, "target": 0.0},
        "lengths": {"source": [[2, 1], [6, 1]], "target": [[2, 1], [7, 1]]},
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
    learned = codec.learn(config, addresses.pairs(config.train, config))
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


def test_a_folder_has_the_vocabulary_of_its_own_text_alone(config, tmp_path):
    """A dry run may use it: it would learn another one for other text in its place."""
    assert not has_vocabulary(config, tmp_path / "work")
    prepare(config, tmp_path / "work")
    assert has_vocabulary(config, tmp_path / "work")
    other = dataclasses.replace(config, train="builtin:copy/train?pairs=3")
    assert not has_vocabulary(other, tmp_path / "work")


def test_other_hosts_read_what_process_0_wrote(config, tmp_path):
    """Their copies of the files may have other times, but not another text."""
    first = prepare(config, tmp_path / "work")
    host = tmp_path / "host"
    host.mkdir()
    for name in ("a.en", "a.fr"):
        (host / name).write_bytes((tmp_path / name).read_bytes())
        os.utime(host / name, (1, 1))
    elsewhere, stages = dataclasses.replace(config, root=str(host)), []
    draft = tmp_path / "work/store/.unfinished-elsewhere"
    draft.mkdir()
    second = prepare(elsewhere, tmp_path / "work", stages.append, trained=True, writes=False)
    assert stages == ["ready"] and second.train.folder == first.train.folder
    (host / "a.en").write_bytes((host / "a.en").read_bytes().upper())
    with pytest.raises(ValueError, match="another text than that of text:a.en,a.fr on this host"):
        prepare(elsewhere, tmp_path / "work", trained=True, writes=False)
    assert set((tmp_path / "work/store").iterdir()) == {first.train.folder, draft}
    with pytest.raises(FileNotFoundError, match="the vocabulary folder is incomplete"):
        prepare(elsewhere, tmp_path / "not-shared", writes=False)
    assert not list((tmp_path / "not-shared").iterdir())


def test_another_length_limit_keeps_the_vocabulary_and_makes_another_store(config, tmp_path):
    prepare(config, tmp_path / "work")
    longer = prepare(dataclasses.replace(config, max_tokens=0), tmp_path / "work")
    assert longer.statistics["kept"] == 3
    assert len(list((tmp_path / "work/store").iterdir())) == 2


def test_each_stage_begins_once_and_where_needed(config, tmp_path):
    stages = []
    prepare(config, tmp_path / "work", stages.append)
    prepare(config, tmp_path / "work", stages.append)
    prepare(dataclasses.replace(config, max_tokens=0), tmp_path / "work", stages.append)
    first, second, longer = ["tokenise", "learn", "encode"], [], ["tokenise", "encode"]
    assert stages == [*first, "ready", *second, "ready", *longer, "ready"]


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


def test_nothing_left_leaves_no_store_and_no_vocabulary(config, tmp_path):
    """Otherwise the vocabulary would be refused with the settings that leave some pairs."""
    short = dataclasses.replace(config, max_tokens=1)
    with pytest.raises(ValueError, match="no training pair is left of 4"):
        prepare(short, tmp_path / "work")
    assert not list((tmp_path / "work/store").iterdir())
    other = dataclasses.replace(config, lowercase=True)
    assert prepare(other, tmp_path / "work").statistics["kept"] == 2


@pytest.mark.parametrize("file", ["source_ids.npy", "statistics.json"])
def test_a_damaged_store_is_named_and_made_again(config, tmp_path, caplog, file):
    whole = prepare(config, tmp_path / "work").train
    before, path = files_of(whole.folder), whole.folder / file
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    if file == "statistics.json":
        with pytest.raises(ValueError, match="is damaged: delete it"):
            prepare(config, tmp_path / "work", writes=False)  # not the first of several processes
        assert not caplog.records and path.read_bytes().endswith(b"?")
    prepare(config, tmp_path / "work")
    (told,) = [record.getMessage() for record in caplog.records]
    assert (
        told == f"the store {whole.folder} is made again: {file} is not the file that was written"
    )
    assert files_of(whole.folder) == before
    caplog.clear()
    prepare(config, tmp_path / "work")
    assert not caplog.records


def files_of(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"drop_duplicates": True, "max_ratio": 2.0},
        {
            "vocabulary": "sentencepiece",
            "source_vocabulary_size": 60,
            "target_vocabulary_size": 60,
            "subword_sampling": 0.2,
            "encodings": 2,
        },
    ],
)
def test_any_number_of_processes_gives_the_same_bytes(tmp_path, monkeypatch, change):
    monkeypatch.setattr(text_chunks, "SIZE", 40)
    train = "builtin:en-fr/train?pairs=230&max=9; 2*builtin:reverse/train?pairs=50"
    config = DataConfig(train=train, dev="", test="", **change)
    one, two = (
        prepare(dataclasses.replace(config, processes=n), tmp_path / str(n)) for n in (1, 2)
    )
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")
    assert one.statistics == two.statistics
    assert one.statistics["read"] == 280
    if change.get("drop_duplicates"):
        assert one.statistics["dropped"]["duplicate"] > 100  # each stands there twice


def test_encodings_differ_and_read_the_same(tmp_path):
    config = DataConfig(
        train="builtin:copy/train?pairs=60&min=5&limit=5000",
        dev="",
        test="",
        vocabulary="sentencepiece",
        source_vocabulary_size=60,
        target_vocabulary_size=60,
        subword_sampling=0.3,
        encodings=3,
    )
    for subwords in ("bpe", "unigram"):
        prepared = prepare(dataclasses.replace(config, subwords=subwords), tmp_path / f"{subwords}")
        train, (source, _) = prepared.train, prepared.codecs
        assert len(train) == 180
        ways = [
            {tuple(train.source(3 * pair + i).tolist()) for i in range(3)} for pair in range(60)
        ]
        assert sum(len(way) > 1 for way in ways) > 40
        assert all(len({source.decode(ids) for ids in way}) == 1 for way in ways)


KILLED = """
import os, signal, sys
from pathlib import Path
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import prepare
from bahdanau_jax.data.store import store
counts = store._Counts.add
def add(self, chunk, kept):
    counts(self, chunk, kept)
    if self._read > 5_000:
        os.kill(os.getpid(), signal.SIGKILL)
store._Counts.add = add
prepare(DataConfig(train="builtin:copy/train?pairs=9000", dev="", test=""), Path(sys.argv[1]))
"""


def test_killed_while_it_writes(tmp_path):
    """After a kill, the vocabulary is complete and not learned again, and there is no store."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "work")],
        env={**os.environ, "PYTHONPATH": ROOT},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"store", "vocabulary"}
    (left,) = (tmp_path / "work/store").iterdir()
    assert left.name.startswith(".unfinished-")
    config = DataConfig(train="builtin:copy/train?pairs=9000", dev="", test="")
    again, whole = (prepare(config, tmp_path / name) for name in ("work", "whole"))
    assert again.statistics == whole.statistics
    assert files_of(tmp_path / "work") == files_of(tmp_path / "whole")


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


def test_a_vocabulary_of_other_text_is_learned_again(config, tmp_path):
    """A vocabulary that a model was trained with is never learned again."""
    first = prepare(config, tmp_path / "work").codecs[0].vocabulary
    for line, name in (("Other words here.", "b.en"), ("D'autres mots ici.", "b.fr")):
        (tmp_path / name).write_text(f"{line}\n" * 3, "utf-8")
    other = dataclasses.replace(config, train="text:b.en,b.fr")
    kept = prepare(other, tmp_path / "work", trained=True)
    assert kept.codecs[0].vocabulary == first
    assert kept.statistics["unk_rate"]["source"] == 0.5  # "here" and "." are in both
    again = prepare(other, tmp_path / "work")
    assert again.statistics["unk_rate"] == {"source": 0.0, "target": 0.0}
    assert again.codecs[0].vocabulary != first


def test_a_file_that_changes_while_it_is_read(config, tmp_path):
    def change(stage):
        if stage == "learn":
            (tmp_path / "a.en").write_text("".join(f"{line} more\n" for line in ENGLISH), "utf-8")

    with pytest.raises(ValueError, match="changed while they were read: run it again"):
        prepare(config, tmp_path / "work", change)
    again = prepare(config, tmp_path / "work")
    assert again.train.source(0).tolist() == again.codecs[0].encode(f"{ENGLISH[0]} more")


def test_a_vocabulary_of_text_that_changed_is_not_kept_for_the_text_before(config, tmp_path):
    """Once the file is restored, the vocabulary is learned from it again."""
    before = (tmp_path / "a.en").read_bytes()
    words = prepare(config, tmp_path / "first").codecs[0].vocabulary

    def change(stage):
        if stage == "tokenise":
            (tmp_path / "a.en").write_text("other\n" * len(ENGLISH), "utf-8")

    with pytest.raises(ValueError, match="changed while they were read: run it again"):
        prepare(config, tmp_path / "work", change)
    (tmp_path / "a.en").write_bytes(before)
    assert prepare(config, tmp_path / "work").codecs[0].vocabulary == words
