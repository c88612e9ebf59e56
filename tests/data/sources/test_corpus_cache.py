"""Cached corpora: intact files are read, and all others are generated again."""

import os

import pytest

from bahdanau_jax.data.sources import builtin, corpus_cache

ADDRESS = "copy/test?pairs=12000&max=3"
NAMES = ("first", "second", "third")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    return tmp_path / "corpora"


def pairs(name, count=corpus_cache.WORTH):
    """The pairs under a name, and whether they were generated for this call."""
    calls = []

    def generate():
        calls.append(name)
        yield from ((f"{name} {i}", f"le {i}") for i in range(3))

    return list(corpus_cache.texts(name, count, generate())), bool(calls)


def test_the_second_call_reads_the_same_pairs(cache):
    pairs_of_first, generated = pairs("first")
    assert generated and pairs("first") == (pairs_of_first, False)


def test_a_corpus_on_disk_is_the_generated_one(cache, monkeypatch):
    generated = list(builtin.texts(ADDRESS))
    assert list(cache.iterdir())
    monkeypatch.setattr(builtin, "_pairs", lambda *_, **__: iter([None]))  # has no text
    assert list(builtin.texts(ADDRESS)) == generated


def test_other_addresses_and_other_rules_have_other_keys(tmp_path):
    rules = tmp_path / "rules.py"
    keys = set()
    for address, text in [("a", "one"), ("b", "one"), ("a", "two")]:
        rules.write_text(text)
        keys.add(corpus_cache.key(address, [rules]))
    assert len(keys) == 3


@pytest.mark.parametrize("damage", [b"", b"x", b"0" * 64 + b"\nfirst 0\nle 0"])
def test_a_damaged_file_is_written_again(cache, damage):
    pairs("first")
    (cache / "first.txt").write_bytes(damage)
    assert pairs("first")[1]
    assert not pairs("first")[1]


def test_pairs_that_were_not_all_read_are_not_kept(cache):
    next(corpus_cache.texts("first", corpus_cache.WORTH, iter([("a", "b")] * 2)))
    assert not cache.exists()


@pytest.mark.parametrize("count", [corpus_cache.WORTH - 1, corpus_cache.MOST + 1])
def test_small_and_huge_corpora_are_not_kept(cache, count):
    pairs("first", count)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JAX_ENABLE_COMPILATION_CACHE", "false"),
        ("JAX_COMPILATION_CACHE_DIR", ""),
        ("JAX_COMPILATION_CACHE_DIR", "gs://bucket/cache"),
        ("JAX_COMPILATION_CACHE_DIR", os.devnull),  # no folder can be made in it
    ],
)
def test_without_a_cache_the_pairs_are_generated(cache, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert pairs("first")[1] and pairs("first")[1]
    assert not cache.exists()


def test_what_was_read_longest_ago_is_removed(cache, monkeypatch):
    for age, name in enumerate(NAMES[:2]):
        pairs(name)
        os.utime(cache / f"{name}.txt", (age, age))
    pairs("first")  # read again
    size = (cache / "first.txt").stat().st_size
    monkeypatch.setattr(corpus_cache, "MOST_BYTES", 2 * size + 8)
    pairs("third")
    assert {path.stem for path in cache.iterdir()} == {"first", "third"}
