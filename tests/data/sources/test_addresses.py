import dataclasses
import gzip
import itertools
import lzma
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources.addresses import (
    Corpus,
    Pair,
    aligned_pairs,
    are_apart,
    corpora,
    identity,
    open_corpora,
    pairs,
)
from bahdanau_jax.data.sources.text_files import lines

NONE = DataConfig()


@pytest.fixture
def corpus(tmp_path):
    """A function that writes files into the root, and the settings that find them."""

    def write(**contents):
        for name, content in contents.items():
            (tmp_path / name.replace("_", ".")).write_bytes(content)
        return DataConfig(root=str(tmp_path))

    return write


def test_pairs_in_order(corpus):
    config = corpus(a_en=b"one\ntwo\n", a_fr="un\ndeux œufs".encode())
    assert list(pairs("text:a.en,a.fr", config)) == [Pair("one", "un"), Pair("two", "deux œufs")]


def test_compressed_files_read_as_they_are(corpus):
    config = corpus(a_gz=gzip.compress(b"one\ntwo\n"), a_xz=lzma.compress(b"un\ndeux\n"))
    assert list(pairs("text:a.gz,a.xz", config)) == [("one", "un"), ("two", "deux")]


def test_shards_follow_each_other(corpus):
    config = corpus(a_en=b"one", b_en=b"two\nthree", a_fr=b"un", b_fr=b"deux\ntrois")
    got = list(pairs("text:a.en+b.en,a.fr+b.fr", config))
    assert got == [("one", "un"), ("two", "deux"), ("three", "trois")]


def test_only_a_newline_ends_a_line(corpus):
    odd = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\x00i"
    config = corpus(a_en=odd.encode() + b"\r\n\n" + b"x\r\r\n", a_fr=b"1\n2\n3")
    assert [pair.source for pair in pairs("text:a.en,a.fr", config)] == [odd, "", "x\r"]


@given(st.lists(st.text().map(lambda t: t.replace("\n", "").rstrip("\r"))))
@settings(max_examples=50)
def test_lines_return_what_was_written(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes("".join(f"{line}\n" for line in written).encode())
    assert list(lines(path)) == written


@pytest.fixture
def four_folders(tmp_path, monkeypatch):
    """Put a corpus in each folder of the search path; return the folders by name."""
    here = tmp_path / "here"
    folders = {
        "root": tmp_path / "root",
        "environment": tmp_path / "environment",
        "here": here,
        "data": here / "data",
    }
    for name, folder in folders.items():
        folder.mkdir(parents=True)
        for language in ("en", "fr"):
            (folder / f"a.{language}").write_text(f"{name}\n")
    monkeypatch.setenv("BAHDANAU_DATA", str(folders["environment"]))
    monkeypatch.chdir(here)
    return folders


def test_relative_names_are_looked_up_in_four_places_in_order(four_folders, monkeypatch):
    spec = "text:a.en,a.fr"
    assert next(pairs(spec, DataConfig(root=str(four_folders["root"])))) == ("root", "root")
    for name in ("environment", "here", "data"):
        assert next(pairs(spec, NONE)) == (name, name)
        # A folder that has one of the files alone is passed over.
        (four_folders[name] / "a.fr").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        pairs(spec, NONE)
    tried = ", ".join(str(four_folders[name]) for name in ("environment", "here", "data"))
    assert tried in str(caught.value) and "; data.root or" in str(caught.value)
    monkeypatch.delenv("BAHDANAU_DATA")
    with pytest.raises(FileNotFoundError, match=r"^no file a\.fr \(") as caught:
        pairs(spec, NONE)
    assert str(four_folders["environment"]) not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"/root/b\.en \(data.root is set"):
        pairs("text:b.en,b.fr", DataConfig(root=str(four_folders["root"])))
    absolute = f"text:{four_folders['here']}/a.en,{four_folders['root']}/a.fr"
    assert next(pairs(absolute, DataConfig(root="/nowhere"))) == ("here", "root")
    with pytest.raises(FileNotFoundError, match="no file /nowhere/a.en$"):
        pairs("tsv:/nowhere/a.en", NONE)


def test_a_folder_and_a_pipe_are_no_corpus(tmp_path, monkeypatch):
    monkeypatch.delenv("BAHDANAU_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for spec, message in {
        "text:folder,b.fr": "folder is a folder, but a corpus should be a file",
        "jsonl:pipe": "pipe is a pipe, but a corpus should be a file, which is read several times",
        "tsv:/dev/null": "/dev/null is a device or socket",
    }.items():
        with pytest.raises(ValueError, match=message):
            pairs(spec, NONE)


def test_a_missing_file_is_known_before_reading(corpus, tmp_path):
    config = corpus(a_en=b"one")
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "a.fr")) as caught:
        pairs("text:a.en,a.fr", config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("english", "french"), [(3, 2), (2, 5), (0, 1)])
def test_unequal_counts_name_both(corpus, english, french):
    config = corpus(a_en=b"x\n" * english, a_fr=b"y\n" * french)
    message = rf"a\.en has {english} lines, but .*a\.fr has {french}:"
    with pytest.raises(ValueError, match=message):
        list(pairs("text:a.en,a.fr", config))


def test_only_whole_pairs_come_before_the_error(corpus):
    config = corpus(a_en=b"1\n2\n3\n", a_fr=b"1\n2\n")
    got = []
    with pytest.raises(ValueError, match="has 3 lines"):
        got.extend(pairs("text:a.en,a.fr", config))
    assert got == [("1", "1"), ("2", "2")]


def test_unequal_shards(corpus):
    config = corpus(a_en=b"1\n2", b_en=b"3", a_fr=b"1", b_fr=b"2\n3")
    with pytest.raises(ValueError, match=r"a\.en has 2 lines, but .*a\.fr has 1"):
        list(pairs("text:a.en+b.en,a.fr+b.fr", config))
    with pytest.raises(ValueError, match="2 source files, but 1 target"):
        pairs("text:a.en+b.en,a.fr", config)


def test_invalid_utf8_names_file_and_line(corpus):
    config = corpus(a_en=b"fine\nna\xefve\n", a_fr=b"1\n2\n")
    with pytest.raises(ValueError, match=r"a\.en, line 2: not valid UTF-8 \(byte 3 of the line\)"):
        list(pairs("text:a.en,a.fr", config))
    for text, place in ((b"\xef\xbb\xbfab\xff\n1\n", (1, 6)), (b"\xef\xbb\xbfab\n\xff\n", (2, 1))):
        config = corpus(a_en=text, a_fr=b"1\n2\n")
        with pytest.raises(ValueError, match=r"line {}: not .* \(byte {} of".format(*place)):
            list(pairs("text:a.en,a.fr", config))


def test_damaged_archives(corpus):
    text = b"".join(b"%d\n" % n for n in range(20_000))
    whole = gzip.compress(text)
    broken = bytearray(whole)
    broken[len(broken) // 2] ^= 255
    damaged = {
        "cut_gz": whole[: len(whole) // 2],
        "flip_gz": bytes(broken),
        "not_gz": b"no archive\n",
        "cut_xz": lzma.compress(text)[:-40],
        "not_xz": b"no archive\n",
    }
    config = corpus(fine=text, **damaged)
    for name in damaged:
        with pytest.raises(ValueError, match=f"{name.replace('_', '.')} is damaged") as caught:
            list(pairs(f"text:{name.replace('_', '.')},fine", config))
        assert "\n" not in str(caught.value)


def test_an_empty_corpus(corpus):
    config = corpus(a_en=b"", a_fr=b"")
    with pytest.raises(ValueError, match="text:a.en,a.fr is empty"):
        list(pairs("text:a.en,a.fr", config))
    with pytest.raises(ValueError, match="is empty"):
        list(pairs("builtin:copy/train?pairs=0", NONE))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "txt:a,b",
            "no kind of corpus 'txt'; known: builtin, .*mean 'text'",
        ),
        ("text:a", "should be text:SOURCE_FILE,TARGET_FILE"),
        ("text:a,", "should be text:SOURCE_FILE,TARGET_FILE"),
        ("text:a,b,c", "should be text:SOURCE_FILE,TARGET_FILE"),
        ("builtin:revers/train", "no built-in corpus 'revers'; known: copy, en-fr, primes, rev"),
        ("builtin:reverse", "no split of builtin:reverse ''; known: dev, test, train"),
        ("builtin:reverse/train?pair=3", "option of builtin:reverse 'pair'; .*mean 'pairs'"),
        ("builtin:en-fr/train?limit=3", "no option of builtin:en-fr 'limit'; known: max, min"),
        ("builtin:reverse/train?pairs=-3", "pairs should be a whole number, not '-3'"),
        (f"builtin:reverse/train?pairs={'9' * 20}", "pairs should have at most 15 digits, not 20"),
        ("builtin:reverse/train?pairs", "pairs should be a whole number, not ''"),
        ("builtin:reverse/train?min=9&max=8", "min=9, max=8"),
    ],
)
def test_faults_of_a_specification(spec, message):
    with pytest.raises(ValueError, match=message) as caught:
        pairs(spec, NONE)
    assert "\n" not in str(caught.value)


def test_builtin_options_reach_the_generators():
    got = list(pairs("builtin:reverse/test?pairs=40&min=3&max=4&limit=6&seed=2", NONE))
    assert len(got) == 40
    assert all(p.source.split()[::-1] == p.target.split() for p in got)
    assert {len(p.source.split()) for p in got} == {3, 4}
    assert got != list(pairs("builtin:reverse/test?pairs=40&min=3&max=4&limit=6&seed=3", NONE))
    sentences = list(pairs("builtin:en-fr/train?pairs=6&min=4&max=5&seed=7", NONE))
    assert sentences[0] == ("en: 7 7 7 7", "fr: le7 le7 le7 le7")
    assert {len(p.source.split()) for p in sentences} == {5, 6}


def test_held_out_sentences_are_distinct():
    train = [pair.source for pair in pairs("builtin:en-fr/train?pairs=20", NONE)]
    dev = [pair.source for pair in pairs("builtin:en-fr/dev?pairs=20", NONE)]
    assert len(set(train)) < 20  # the stand-in repeats itself
    assert len(dev) == len(set(dev)) == 20


def test_too_few_distinct_sentences(grammar, monkeypatch):
    only = next(grammar.generate("dev"))
    monkeypatch.setattr(grammar, "generate", lambda *_, **__: itertools.repeat(only))
    with pytest.raises(ValueError, match="only 1 different sentence"):
        list(pairs("builtin:en-fr/dev?pairs=2", NONE))


@pytest.mark.parametrize("spec", ["builtin:primes/dev?pairs=30", "builtin:en-fr/test?pairs=30"])
def test_aligned_pairs_are_the_same_pairs(spec, grammar):
    aligned, plain = list(aligned_pairs(spec, NONE)), list(pairs(spec, NONE))
    assert len(aligned) == len(plain) == 30
    for one, other in zip(aligned, plain, strict=True):
        assert other.source.removeprefix("en: ").split() == list(one.source)
        assert other.target.removeprefix("fr: ").split() == list(one.target)


def test_text_has_no_alignments(corpus):
    config = corpus(a_en=b"one", a_fr=b"un")
    with pytest.raises(ValueError, match="no gold alignments"):
        aligned_pairs("text:a.en,a.fr", config)


def files(address, config):
    (opened,) = open_corpora(address, config)
    return opened.files


def test_open_corpora_need_no_settings(corpus, tmp_path, monkeypatch):
    """The files of each corpus are located once."""
    config = dataclasses.replace(corpus(a_en=b"one", a_fr=b"un"), root="")
    monkeypatch.setenv("BAHDANAU_DATA", str(tmp_path))
    opened = open_corpora("text:a.en,a.fr; builtin:copy/test?pairs=2", config)
    monkeypatch.setenv("BAHDANAU_DATA", "nowhere")
    assert [len(list(corpus.pairs())) for corpus in opened] == [1, 2]
    before = identity(opened)
    assert [name for name, _ in before[0][1]] == ["a.en", "a.fr"]
    os.utime(tmp_path / "a.en", (1, 1))  # another host's copy of the same text
    assert identity(opened) == before
    (tmp_path / "a.en").write_bytes(b"two")
    os.utime(tmp_path / "a.en", (1, 1))
    assert identity(opened) != before


def test_files_of_a_corpus(corpus, tmp_path):
    config = corpus(a_en=b"one", a_fr=b"un")
    assert files("text:a.en,a.fr", config) == [tmp_path / "a.en", tmp_path / "a.fr"]
    assert [path.name for path in files("builtin:copy/train", NONE)] == ["integer_tasks.py"]
    code = {path.name for path in files("builtin:en-fr/train", NONE)}
    assert {"conftest.py", "test_hansards.py"} <= code  # the stand-in and all beside it


def write(folder, name, text):
    (folder / name).write_text(text, "utf-8")
    return DataConfig(root=str(folder))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("text:a,b", [("text:a,b", 1.0)]),
        ("text:a,b; 0.5*tsv:c ;2*jsonl:d", [("text:a,b", 1.0), ("tsv:c", 0.5), ("jsonl:d", 2.0)]),
        (".25*builtin:copy/train", [("builtin:copy/train", 0.25)]),
    ],
)
def test_several_corpora_with_weights(spec, expected):
    assert corpora(spec) == [Corpus(*one) for one in expected]


@pytest.mark.parametrize("spec", ["", "text:a,b;", "0*text:a,b", ";", "2*"])
def test_faulty_lists_of_corpora(spec):
    with pytest.raises(ValueError, match="KIND:WHERE, or several with ; between"):
        corpora(spec)


def test_an_unknown_kind_among_several():
    with pytest.raises(ValueError, match="no kind of corpus '2x.*known: .*jsonl"):
        corpora("text:a,b; 2x*tsv:c")


def test_corpora_follow_each_other(tmp_path):
    config = write(tmp_path, "a.tsv", "one\tun\n")
    write(tmp_path, "b.jsonl", '{"en": "two", "fr": "deux"}\n')
    found = list(pairs("0.5*tsv:a.tsv; jsonl:b.jsonl; 3*tsv:a.tsv", config))
    assert found == [Pair("one", "un"), Pair("two", "deux"), Pair("one", "un")]


@given(
    rows=st.lists(
        st.tuples(*[st.text(st.characters(exclude_characters="\t\n\r", codec="utf-8"))] * 2),
        min_size=1,
    )
)
@settings(max_examples=50, deadline=None)
def test_a_table_gives_back_its_cells(tmp_path_factory, rows):
    """Any cells are read: there is no quoting, and only tabs and line feeds separate them."""
    config = write(
        tmp_path_factory.mktemp("tsv"), "a.tsv", "".join(f"x\t{a}\t{b}\n" for a, b in rows)
    )
    assert [tuple(pair) for pair in pairs("tsv:a.tsv?source=2&target=3", config)] == rows


def test_columns_by_name(tmp_path):
    config = write(tmp_path, "a.tsv", "id\tfr\ten\n7\tun\tone\n8\tdeux\ttwo\n")
    expected = [Pair("one", "un"), Pair("two", "deux")]
    assert list(pairs("tsv:a.tsv?source=en&target=fr", config)) == expected
    assert list(pairs("tsv:a.tsv?source=en&target=2", config)) == expected
    assert list(pairs("tsv:a.tsv+a.tsv?source=en&target=fr", config)) == expected * 2
    assert files("tsv:a.tsv?source=en&target=fr", config) == [tmp_path / "a.tsv"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tsv:a.tsv?source=de&target=fr", r"a.tsv, line 1: no column 'de'; there are id, fr"),
        ("tsv:a.tsv?source=1&target=3", r"a.tsv, line 2: 2 columns, but column 3 is needed"),
        ("tsv:a.tsv?source=0&target=1", r"a.tsv, line 1: no column '0'.*count from 1"),
        ("tsv:a.tsv?sorce=1", r"no option of tsv: 'sorce'.*did you mean 'source'"),
        ("tsv:b.tsv", "no file .*b.tsv"),
    ],
)
def test_faulty_tables(tmp_path, address, message):
    config = write(tmp_path, "a.tsv", "id\tfr\ten\n7\tun\n")
    with pytest.raises((ValueError, OSError), match=message):
        list(pairs(address, config))


def test_records(tmp_path):
    lines = ['{"translation": {"en": "one\\ttwo", "fr": "un"}, "id": 3}', '{"en": "x", "fr": ""}']
    config = write(tmp_path, "a.jsonl", f"{lines[0]}\n")
    write(tmp_path, "b.jsonl", f"{lines[1]}\n")
    nested = "jsonl:a.jsonl?source=translation.en&target=translation.fr"
    assert list(pairs(nested, config)) == [Pair("one\ttwo", "un")]
    assert list(pairs("jsonl:b.jsonl", config)) == [Pair("x", "")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"en": "x"', "line 2: no JSON object"),
        ("[" * 100_000, "line 2: no JSON object"),
        ('{"en": ' + "1" * 5_001 + "}", "line 2: no "),
        ('{"en": "x"}', "line 2: no text at 'fr'; the line has en"),
        ('{"en": "x", "fr": 3}', "line 2: no text at 'fr'"),
        ('["x", "y"]', "line 2: no text at 'en'; the line has a list"),
        ('{"en": "x", "fr": "\\ud800"}', "line 2: half a surrogate pair in 'fr'"),
    ],
)
def test_faulty_records(tmp_path, line, message):
    config = write(tmp_path, "a.jsonl", f'{{"en": "a", "fr": "b"}}\n{line}\n')
    with pytest.raises(ValueError, match=message):
        list(pairs("jsonl:a.jsonl", config))


def test_segments_of_sgm_files(tmp_path):
    sgm = (
        '<srcset setid="t" srclang="any">\n<doc docid="1">\n<p>\n'
        '<seg id="1">R&amp;D costs &quot;5&quot; &lt; 6</seg>\n<seg id="2"> two </seg>\n'
        "</p>\n</doc>\n</srcset>\n"
    )
    config = write(tmp_path, "a.en.sgm", sgm)
    write(tmp_path, "a.fr", "un\ndeux\n")
    assert list(pairs("text:a.en.sgm,a.fr", config)) == [
        Pair('R&D costs "5" < 6', "un"),
        Pair("two", "deux"),
    ]


def test_a_segment_over_two_lines(tmp_path):
    config = write(tmp_path, "a.en.SGM", '<seg id="1">one\ntwo</seg>\n')
    write(tmp_path, "a.fr", "un\n")
    with pytest.raises(ValueError, match="a.en.SGM, line 1: a <seg> should end on the line"):
        list(pairs("text:a.en.SGM,a.fr", config))


def test_a_byte_order_mark_is_no_text(tmp_path):
    config = write(tmp_path, "a.tsv", "\ufeffen\tfr\n\ufeffone\tun\n")
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress((tmp_path / "a.tsv").read_bytes()))
    for name in ("a.tsv", "a.tsv.gz"):
        found = list(pairs(f"tsv:{name}?source=en&target=fr", config))
        assert found == [Pair("\ufeffone", "un")]  # elsewhere it is a character like any other


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("builtin:en-fr/train?pairs=5", "builtin:en-fr/test", True),
        ("builtin:en-fr/test?seed=1", "builtin:en-fr/test", False),
        ("builtin:reverse/train", "builtin:copy/test", False),
        ("text:a.en,a.fr", "builtin:en-fr/test", False),
    ],
)
def test_splits_of_a_built_in_corpus_are_known_to_be_apart(one, other, apart):
    assert are_apart(one, other) is apart
