import dataclasses
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.batch import EOS, UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import codec, store
from bahdanau_jax.data.sources import Pair
from bahdanau_jax.data.store import Pairs, Store

sentences = st.lists(st.integers(UNK, 70_000), max_size=8).map(lambda ids: [*ids, EOS])
encoded_pairs = st.lists(st.tuples(sentences, sentences))

SOME = [([5, 6, EOS], [7, EOS]), ([1, EOS], [9, 1, 1, EOS])]


def content(pairs):
    return [(pairs.source(i).tolist(), pairs.target(i).tolist()) for i in range(len(pairs))]


@given(encoded=encoded_pairs, max_tokens=st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_a_store_gives_back_what_fits(tmp_path_factory, encoded, max_tokens):
    folder = tmp_path_factory.mktemp("store") / "new"

    def fits(pair):
        lengths = [len(side) - 1 for side in pair]
        return min(lengths) > 0 and (not max_tokens or max(lengths) <= max_tokens)

    kept = [pair for pair in encoded if fits(pair)]
    if not kept:
        with pytest.raises(ValueError, match=f"no training pair is left of {len(encoded)}:"):
            store.write(folder, encoded, max_tokens)
        assert not folder.exists()
        return
    written = store.write(folder, iter(encoded), max_tokens)
    for opened in (written, Store(folder)):
        assert content(opened) == kept
        assert opened.lengths.tolist() == [[len(s), len(t)] for s, t in kept]
        statistics = opened.statistics
        assert statistics["read"] == len(encoded)
        assert statistics["kept"] == len(opened) == len(kept)
        assert sum(statistics["dropped"].values()) == len(encoded) - len(kept)
        assert statistics["tokens"]["source"] == sum(len(s) - 1 for s, _ in kept)
        assert statistics["unknown"]["target"] == sum(t.count(UNK) for _, t in kept)
    assert [path.name for path in folder.parent.iterdir()] == ["new"]


def test_reasons_are_told_apart(tmp_path):
    encoded = [*SOME, ([EOS], [5, EOS]), ([5, EOS], [EOS]), ([5] * 4 + [EOS], [5, EOS])]
    statistics = store.write(tmp_path / "s", encoded, 3).statistics
    assert statistics["dropped"] == {"empty": 2, "too_long": 1}
    message = "left of 3: 1 have more than data.max_tokens = 3 tokens on a side, 2 have an empty"
    with pytest.raises(ValueError, match=message):
        store.write(tmp_path / "t", encoded[2:], 3)


def test_ids_take_as_little_as_they_can(tmp_path):
    for largest, dtype in ((65_535, np.uint16), (65_536, np.uint32)):
        opened = store.write(tmp_path / "s", [([largest, EOS], [5, EOS])])
        assert opened.source(0).dtype == dtype
        assert opened.source(0).tolist() == [largest, EOS]
        assert isinstance(opened.sides[0].ids, np.memmap)


def test_a_failure_leaves_nothing(tmp_path):
    def breaks():
        yield SOME[0]
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        store.write(tmp_path / "s", breaks())
    assert not list(tmp_path.iterdir())


def test_a_failure_keeps_the_old_store(tmp_path, monkeypatch):
    store.write(tmp_path / "s", SOME)

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="no space"):
        store.write(tmp_path / "s", SOME[:1])
    assert content(Store(tmp_path / "s")) == SOME


@pytest.mark.parametrize("harm", ["cut", "empty", "other"])
@pytest.mark.parametrize(
    "file", ["source_ids.npy", "target_ids.npy", "target_offsets.npy", "statistics.json"]
)
def test_a_damaged_store(tmp_path, file, harm):
    folder = tmp_path / "s"
    store.write(folder, SOME)
    path = folder / file
    path.write_bytes({"cut": path.read_bytes()[:-4], "empty": b"", "other": b"[]"}[harm])
    with pytest.raises(ValueError, match="s is damaged: delete it") as caught:
        Store(folder)
    assert "\n" not in str(caught.value)


def test_no_store(tmp_path):
    with pytest.raises(FileNotFoundError):
        Store(tmp_path)


def test_pairs_in_memory():
    pairs = Pairs.of(SOME)
    assert content(pairs) == SOME
    assert pairs.lengths.tolist() == [[3, 2], [2, 4]]
    assert Pairs.of([]).lengths.shape == (0, 2)


@pytest.fixture
def corpus(tmp_path):
    for name in ("a.en", "a.fr", "b.en"):
        (tmp_path / name).write_text("one two\nthree\n")
    config = DataConfig(train="text:a.en,a.fr", root=str(tmp_path))
    return config, codec.learn(config, [Pair("one two", "un deux")])


@pytest.mark.parametrize(
    "change",
    [
        {"train": "text:b.en,a.fr"},
        {"train": "builtin:copy/train"},
        {"source_language": "de"},
        {"tokenizer": "none"},
        {"lowercase": True},
        {"vocabulary": "characters"},
        {"source_vocabulary_size": 7},
        {"joint_vocabulary": True},
        {"max_tokens": 49},
    ],
)
def test_another_setting_another_key(corpus, change):
    config, codecs = corpus
    changed = dataclasses.replace(config, **change)
    assert store.key(changed, codecs) != store.key(config, codecs)


def test_what_shapes_only_batches_keeps_the_key(corpus):
    config, codecs = corpus
    changed = dataclasses.replace(config, batch_size=7, pool_batches=3, shapes=2, dev="", test="")
    assert store.key(changed, codecs) == store.key(config, codecs)


def test_changed_files_and_vocabularies_change_the_key(corpus, tmp_path):
    config, codecs = corpus
    before = store.key(config, codecs)
    assert store.key(config, codecs) == before
    assert store.key(config, codec.learn(config, [Pair("one", "un deux")])) != before
    stat = (tmp_path / "a.en").stat()
    os.utime(tmp_path / "a.en", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
    assert store.key(config, codecs) != before
    os.utime(tmp_path / "a.en", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert store.key(config, codecs) == before
    (tmp_path / "a.en").write_text("one two\nthree four\n")
    os.utime(tmp_path / "a.en", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert store.key(config, codecs) != before


def test_a_moved_root_keeps_the_key(corpus, tmp_path):
    config, codecs = corpus
    before = store.key(config, codecs)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("a.en", "a.fr"):
        (tmp_path / name).rename(moved / name)
    assert store.key(dataclasses.replace(config, root=str(moved)), codecs) == before
