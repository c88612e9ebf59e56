import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.batch import EOS, SIDES, UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.batches.plan import Corpora
from bahdanau_jax.data.sources import addresses
from bahdanau_jax.data.sources.addresses import Pair
from bahdanau_jax.data.store import chunks, file_digests, store
from bahdanau_jax.data.store.store import Pairs, Store
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.data.tokens.text_chunks import TextChunk

sentences = st.lists(st.integers(UNK, 70_000), max_size=8)
some_pairs = st.lists(st.tuples(sentences, sentences), max_size=30)
ENTRIES = (70_001, 70_001)
KEEP = DataConfig(max_tokens=0)

SOME = [([5, 6], [7]), ([1], [9, 1, 1])]


def packed(pairs, config=KEEP, corpus=0):
    """Pairs of ids without EOS, as a worker returns them; equal ids mean equal texts."""
    chunk = TextChunk(
        corpus, 0, [Pair(*(" ".join(map(str, side)) for side in pair)) for pair in pairs]
    )
    return chunks.pack(config, chunk, [list(side) for side in zip(*pairs, strict=True)] or [[], []])


def write(folder, pairs, config=KEEP, chunk=3):
    parts = [pairs[i : i + chunk] for i in range(0, len(pairs), chunk)]
    return store.write(folder, (packed(part, config) for part in parts), config, 1, ENTRIES)


def content(pairs):
    return [(pairs.source(i).tolist(), pairs.target(i).tolist()) for i in range(len(pairs))]


def ended(pairs):
    return [([*source, EOS], [*target, EOS]) for source, target in pairs]


@given(
    pairs=some_pairs,
    max_tokens=st.integers(0, 8),
    max_ratio=st.sampled_from([0.0, 1.0, 1.5, 3.0]),
    distinct=st.booleans(),
    chunk=st.integers(1, 9),
)
@settings(max_examples=150, deadline=None)
def test_a_store_gives_back_what_fits(
    tmp_path_factory, pairs, max_tokens, max_ratio, distinct, chunk
):
    config = DataConfig(max_tokens=max_tokens, max_ratio=max_ratio, drop_duplicates=distinct)
    folder = tmp_path_factory.mktemp("store") / "new"
    dropped, kept = dict.fromkeys(("empty", "too_long", "uneven", "duplicate"), 0), []
    for pair in pairs:
        shorter, longer = sorted(map(len, pair))
        if not shorter:
            dropped["empty"] += 1
        elif max_tokens and longer > max_tokens:
            dropped["too_long"] += 1
        elif max_ratio and longer > max_ratio * shorter:
            dropped["uneven"] += 1
        elif distinct and pair in kept:
            dropped["duplicate"] += 1
        else:
            kept.append(pair)
    if not kept:
        with pytest.raises(ValueError, match=f"no training pair is left of {len(pairs)}:"):
            write(folder, pairs, config, chunk)
        assert not folder.exists()
        return
    written = write(folder, pairs, config, chunk)
    for opened in (written, Store(folder)):
        assert content(opened) == ended(kept)
        assert opened.lengths.tolist() == [[len(s) + 1, len(t) + 1] for s, t in kept]
        statistics = opened.statistics
        assert statistics["read"] == len(pairs)
        assert statistics["kept"] == len(opened) == len(kept)
        assert statistics["dropped"] == dropped
        assert statistics["tokens"]["source"] == sum(len(s) for s, _ in kept)
        assert statistics["words"] == statistics["tokens"]
        assert statistics["unknown"]["target"] == sum(t.count(UNK) for _, t in kept)
        assert [n for n, count in statistics["lengths"]["target"] for _ in range(count)] == sorted(
            len(t) for _, t in kept
        )
    assert [path.name for path in folder.parent.iterdir()] == ["new"]


def test_what_is_wrong_with_all_pairs(tmp_path):
    pairs = [([], [5]), ([5], []), ([5] * 4, [5])]
    message = "left of 3: 2 with an empty side, 1 above data.max_tokens = 3; change"
    with pytest.raises(ValueError, match=message):
        write(tmp_path / "t", pairs, DataConfig(max_tokens=3))


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=30))
@settings(max_examples=100, deadline=None)
def test_digests_seen_before(chunks_of_digests):
    seen, before = store._Seen(), set()
    for digests in chunks_of_digests:
        expected = []
        for digest in digests:
            expected.append(digest not in before)
            before.add(digest)
        assert seen.new(np.array(digests, np.uint64)).tolist() == expected
    longest = [len(run) for run in seen._runs]
    assert longest == sorted(longest, reverse=True)
    assert sum(longest) == len(before)


def test_pairs_of_several_corpora_are_counted_apart(tmp_path):
    config = DataConfig(train="builtin:copy/train; 0.5*builtin:reverse/train", max_tokens=2)
    parts = [packed(SOME, config, 0), packed(SOME[:1], config, 1), packed(SOME[:1], config, 1)]
    opened = store.write(tmp_path / "s", parts, config, 2, ENTRIES)
    assert opened.statistics["corpora"] == [1, 2]
    assert Corpora.of(opened, config) == ((1, 2), (1.0, 0.5), 1, None)
    assert opened.statistics["read_tokens"] == 7  # the dropped pair has one
    few = dataclasses.replace(config, limit_words=3)
    assert len(Corpora.of(opened, few).sample) == 1
    with pytest.raises(ValueError, match="data.limit_words = 2 leaves no training pair"):
        Corpora.of(opened, dataclasses.replace(config, limit_words=2))


def test_a_sample_has_pairs_with_all_their_encodings(tmp_path):
    config = DataConfig(max_tokens=0, encodings=2, limit_words=4)
    chunk = TextChunk(0, 0, [Pair("5 6", "3"), Pair("8 9", "4")])
    rows = [[[5, 6], [5, 6, 7], [8, 9], [8, 9, 7]], [[3], [3], [4], [4]]]
    opened = store.write(tmp_path / "s", [chunks.pack(config, chunk, rows)], config, 1, ENTRIES)
    assert len(opened) == 4
    assert Corpora.of(opened, config).sample.tolist() == [0, 1]


@pytest.mark.parametrize(("entries", "dtype"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_ids_take_as_little_as_they_can(tmp_path, entries, dtype):
    opened = store.write(tmp_path / "s", [packed([([entries - 1], [5])])], KEEP, 1, (entries, 9))
    assert opened.source(0).dtype == dtype
    assert opened.target(0).dtype == np.uint16
    assert opened.source(0).tolist() == [entries - 1, EOS]
    assert isinstance(opened.sides[0].ids, np.memmap)


def test_the_header_of_a_long_file_is_corrected(tmp_path):
    """The final length has more digits than that in the first header."""
    opened = write(tmp_path / "s", [([5] * 7, [6])] * 2_000, chunk=700)
    assert len(opened) == 2_000 and opened.sides[0].ids.shape == (16_000,)
    assert set(opened.sides[0].ids[-8:].tolist()) == {5, EOS}


def test_a_failure_leaves_nothing(tmp_path):
    def breaks():
        yield packed(SOME)
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        store.write(tmp_path / "s", breaks(), KEEP, 1, ENTRIES)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / ".unfinished-abc").mkdir()
    (tmp_path / ".unfinished-abc/source_ids.npy").write_bytes(b"half")
    write(tmp_path / "s", SOME)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_failure_keeps_the_old_store(tmp_path):
    write(tmp_path / "s", SOME)

    def full():
        yield packed(SOME)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        store.write(tmp_path / "s", full(), KEEP, 1, ENTRIES)
    assert content(Store(tmp_path / "s")) == ended(SOME)


@pytest.mark.parametrize("harm", ["cut", "empty", "other", "deep", "bit", "gone"])
@pytest.mark.parametrize(
    "file",
    [
        *(f"{side}_{part}.npy" for side in SIDES for part in store.PARTS),
        *("statistics.json", file_digests.SEAL),
    ],
)
def test_a_damaged_store(tmp_path, file, harm):
    folder = tmp_path / "s"
    write(folder, SOME)
    path = folder / file
    whole = path.read_bytes()
    path.write_bytes(
        {
            "cut": whole[:-4],
            "empty": b"",
            "other": b"[]",
            "deep": b"[" * 100_000,
            "bit": whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
            "gone": b"",
        }[harm]
    )
    if harm == "gone":
        path.unlink()
    error = FileNotFoundError if (file, harm) == (file_digests.SEAL, "gone") else ValueError
    with pytest.raises(error, match=r"\." if file == file_digests.SEAL else file) as caught:
        Store(folder)
    assert "\n" not in str(caught.value)
    assert error is FileNotFoundError or "s is damaged: delete it" in str(caught.value)


def test_a_seal_that_leaves_a_file_out(tmp_path):
    write(tmp_path / "s", SOME)
    path = tmp_path / "s" / file_digests.SEAL
    sealed = json.loads(path.read_text())
    del sealed["source_ids.npy"]
    path.write_text(json.dumps(sealed))
    with pytest.raises(ValueError, match="source_ids.npy is not the file that was written"):
        Store(tmp_path / "s")


def test_no_store(tmp_path):
    with pytest.raises(FileNotFoundError):
        Store(tmp_path)


def test_pairs_in_memory():
    pairs = Pairs.of(ended(SOME))
    assert content(pairs) == ended(SOME)
    assert pairs.lengths.tolist() == [[3, 2], [2, 4]]
    assert Pairs.of([]).lengths.shape == (0, 2)


@pytest.fixture
def corpus(tmp_path):
    for name in ("a.en", "a.fr", "b.en"):
        (tmp_path / name).write_text("one two\nthree\n")
    config = DataConfig(train="text:a.en,a.fr", root=str(tmp_path))
    return config, codec.learn(config, [Pair("one two", "un deux")])


def key(config, codecs):
    corpora = addresses.open_corpora(config.train, config)
    return store.key(config, codecs, addresses.identity(corpora))


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
        {"unicode": "NFC"},
        {"unescape": True},
        {"subword_sampling": 0.1},
        {"encodings": 2},
        {"max_ratio": 3.0},
        {"drop_duplicates": True},
        {"max_tokens": 49},
        {"train": "text:a.en,a.fr; text:a.en,a.fr"},
    ],
)
def test_another_setting_another_key(corpus, change):
    config, codecs = corpus
    changed = dataclasses.replace(config, **change)
    assert key(changed, codecs) != key(config, codecs)


def test_what_shapes_only_batches_keeps_the_key(corpus):
    config, codecs = corpus
    changed = dataclasses.replace(
        config, batch_size=7, pool_batches=3, shapes=2, dev="", test="", processes=3
    )
    changed = dataclasses.replace(changed, plan="buckets", batch_words=9, train=f"2*{config.train}")
    assert key(changed, codecs) == key(config, codecs)


def test_each_setting_is_of_the_text_or_of_the_store_or_of_batches_alone():
    """A new one has to be added to one of the lists."""
    fields = {field.name for field in dataclasses.fields(DataConfig)}
    of_the_store = {"max_tokens", "max_ratio", "drop_duplicates", "encodings", "subword_sampling"}
    assert {*codec.SETTINGS} == fields - {*store.IRRELEVANT} - of_the_store


def test_changed_files_and_vocabularies_change_the_key(corpus, tmp_path):
    config, codecs = corpus
    before = key(config, codecs)
    assert key(config, codecs) == before
    assert key(config, codec.learn(config, [Pair("one", "un deux")])) != before
    (tmp_path / "a.en").write_text("one six\nthree\n")
    assert key(config, codecs) != before
    (tmp_path / "a.en").write_text("one two\nthree\n")  # the same text at another time
    assert key(config, codecs) == before


def test_a_moved_root_keeps_the_key(corpus, tmp_path):
    config, codecs = corpus
    before = key(config, codecs)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("a.en", "a.fr"):
        (tmp_path / name).rename(moved / name)
    assert key(dataclasses.replace(config, root=str(moved)), codecs) == before
