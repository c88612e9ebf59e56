"""`bahdanau translate`: exactly one line out for each line in, a window at a time."""

import codecs
import dataclasses
import gzip
import io
import json
import lzma
import os
import stat
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.cli import lines, main, progress
from bahdanau_jax.cli.completeness import Completeness
from bahdanau_jax.hypothesis import TOO_LONG, Hypothesis

ODD = "a\rb\x0bc\x0cd\x1ce\x1df\x1eg\x85h\u2028i\u2029j\x00k\x07l"


@pytest.fixture
def stdin(monkeypatch):
    def feed(data: bytes):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return feed


def test_stdin_to_stdout(call, run, stdin):
    stdin(b"one two\nthree")
    assert call("translate", "--run", "x", "--beam-size", 3) == (0, "ONE TWO\nTHREE\n", "")
    assert set(run.model.asked) == {(3, 1)}


def test_blank_lines_give_empty_ones(call, run, stdin):
    stdin("\na\n  \t\n\r\nb\n\u2003\n".encode())
    assert call("translate", "--run", "x") == (0, "\nA\n\n\nB\n\n", "")


def test_a_reference_of_another_length_is_refused_before_any_work(call, run, tmp_path):
    source, reference = tmp_path / "source", tmp_path / "reference.gz"
    source.write_text("a\nb\nc")
    reference.write_bytes(gzip.compress(b"a\nb\n"))
    given = ("--replace-unk", "True", "--input", source, "--reference", reference)
    code, out, err = call("translate", "--run", "x", *given)
    assert (code, out, run.model.windows) == (2, "", [])
    assert f"{reference} has 2 lines, but the input 3; " in err


def test_nothing_in_nothing_out(call, run, stdin):
    stdin(b"")
    assert call("translate", "--run", "x") == (0, "", "")
    assert run.model.windows == []


def test_control_characters_stay_in_their_line_and_leave_as_spaces(call, run, stdin):
    stdin(f"{ODD}\nnext\n".encode())
    code, out, err = call("translate", "--run", "x")
    assert run.model.windows == [[ODD, "next"]]
    assert (code, err) == (0, "")
    assert out == "A B C D E F G H I J\x00K\x07L\nNEXT\n"
    assert len(out.splitlines()) == 2


def test_invalid_utf8_is_replaced_with_one_warning(call, run, stdin):
    stdin(b"fine\nbad \xff\nworse \xc3\n" + b"x\n" * 2000 + b"\xfe\n")
    code, out, err = call("translate", "--run", "x")
    assert code == 0
    assert out.splitlines()[:3] == ["FINE", "BAD \ufffd", "WORSE \ufffd"]
    assert out.count("\n") == 2004
    assert err == (
        "bahdanau: warning: stdin:2: invalid UTF-8, read as U+FFFD (later ones not shown)\n"
    )


def test_a_byte_order_mark_is_no_part_of_the_first_line(call, run, stdin, tmp_path):
    text = codecs.BOM_UTF8 + b"one\n" + codecs.BOM_UTF8 + b"two\n"
    stdin(text)
    assert call("translate", "--run", "x") == (0, "ONE\n\ufeffTWO\n", "")
    path = tmp_path / "in.txt"
    path.write_bytes(text)
    assert lines.read_all(path) == ["one", "\ufefftwo"]
    path.write_bytes(codecs.BOM_UTF8)
    assert lines.read_all(path) == [""] and lines.count(path) == 1
    packed = tmp_path / "in.txt.gz"
    packed.write_bytes(gzip.compress(text))
    assert lines.read_all(packed) == ["one", "\ufefftwo"]


def test_a_warning_after_the_first_window_has_the_right_line(caplog, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(b"x\n" * 1500 + b"\xff\n")
    assert len(lines.read_all(path)) == 1501
    assert f"{path}:1501: " in caplog.text


def test_n_best_in_text(call, run, stdin):
    stdin(b"a\n\nb\n")
    code, out, _ = call("translate", "--run", "x", "--n-best", 2)
    assert code == 0
    assert (
        out
        == "0 ||| A ||| -0.5\n0 ||| A ||| -1.5\n1 |||  ||| 0\n2 ||| B ||| -0.5\n2 ||| B ||| -1.5\n"
    )


def test_lines_are_numbered_through_all_windows(call, run, stdin):
    stdin(b"x\n" * 1500)
    _, out, _ = call("translate", "--run", "x", "--n-best", 2)
    assert [int(line.split()[0]) for line in out.splitlines()[::2]] == list(range(1500))


def test_jsonl_is_one_object_a_hypothesis(call, run, stdin):
    stdin("é\u2028\x85x\n\nb\n".encode())
    code, out, _ = call("translate", "--run", "x", "--format", "jsonl", "--n-best", 2)
    assert code == 0
    objects = [json.loads(line) for line in out.splitlines()]
    assert [o["index"] for o in objects] == [0, 0, 1, 2, 2]
    assert objects[0]["text"] == "É\u2028\x85X"
    assert "É" in out
    assert Hypothesis.from_json(objects[2]).text == ""
    assert Hypothesis.from_json(objects[0]).alpha.shape == (3, 2)


def test_the_window_is_bounded(call, run, stdin):
    stdin(b"x\n" * 3000)
    code, out, _ = call("translate", "--run", "x")
    assert (code, out) == (0, "X\n" * 3000)
    assert [len(window) for window in run.model.windows] == [1024, 1024, 952]


def test_a_line_is_answered_before_the_next_is_asked_for(run, monkeypatch):
    """With endless input, the translations of a window are written before more is read."""
    down_read, down_write = os.pipe()
    os.set_blocking(down_read, False)  # an answer that is late fails, it does not hang
    asked = iter([b"one\ntwo\nthr", b"ee\n", None])

    class Conversation(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            if (text := next(asked)) is None:
                return 0
            if text == b"ee\n":
                assert os.read(down_read, 100) == b"ONE\nTWO\n"
            buffer[: len(text)] = text
            return len(text)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Conversation())))
    monkeypatch.setattr(sys, "stdout", os.fdopen(down_write, "w"))
    assert main.main(["translate", "--run", "x"]) == 0
    assert os.read(down_read, 100) == b"THREE\n"
    os.close(down_read)
    sys.stdout.close()


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files(call, run, tmp_path, suffix, pack):
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    source.write_bytes(pack("été\n".encode() * 2000))
    code, out, err = call("translate", "--run", "x", "--input", source, "--output", target)
    assert (code, out, err) == (0, "", "")
    assert lines.read_all(target) == ["ÉTÉ"] * 2000
    if suffix == ".gz":  # without the name of a draft and the time
        assert target.read_bytes()[3:8] == bytes(5)
    assert max(map(len, run.model.windows)) <= 1024
    source.write_bytes(pack(b"text\n" * 9000)[:-9])
    code, _, err = call("translate", "--run", "x", "--input", source)
    assert code == 2
    assert err.startswith(f"bahdanau: {source}: cannot be unpacked: ")
    source.write_bytes(b"plain text\n")
    code, _, err = call("translate", "--run", "x", "--input", source)
    assert (code, err.count("\n")) == (2, 1)
    assert str(source) in err


def test_output_appears_whole_or_not_at_all(call, run, tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("a\n" * 1025)
    target.write_text("before")
    real = run.model.translate

    def fails_later(words, **options):
        assert target.read_text() == "before"
        if len(words) == 1:
            raise ValueError("no more")
        return real(words, **options)

    run.model.translate = fails_later
    arguments = ("translate", "--run", "x", "--input", source, "--output", target)
    assert call(*arguments) == (2, "", "bahdanau: no more\n")
    assert target.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]
    run.model.translate = real
    assert call(*arguments) == (0, "", "")
    assert target.read_text() == "A\n" * 1025
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask


def test_output_through_a_link_and_to_a_device(call, run, stdin, tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("")
    link.symlink_to(real)
    stdin(b"a\n")
    assert call("translate", "--run", "x", "--output", link)[0] == 0
    assert link.is_symlink() and real.read_text() == "A\n"
    packed = tmp_path / "link.gz"  # it is read by this name too
    packed.symlink_to(real)
    stdin(b"b\n")
    assert call("translate", "--run", "x", "--output", packed)[0] == 0
    assert packed.is_symlink() and gzip.decompress(real.read_bytes()) == b"B\n"
    assert call("translate", "--run", "x", "--input", packed) == (0, "B\n", "")
    stdin(b"a\n")
    assert call("translate", "--run", "x", "--output", "/dev/stdout") == (0, "A\n", "")


def test_wrong_files_and_numbers(call, run, stdin, tmp_path):
    missing, given, link = (tmp_path / name for name in ("missing.txt", "given", "link"))
    given.write_text("a\n")
    link.symlink_to(given)
    wrong = {
        ("--input", missing): f"{missing}: no such file (--input)",
        ("--input", tmp_path): f"{tmp_path}: Is a directory",
        ("--output", missing / "out"): f"{missing / 'out'}: the folder does not exist",
        ("--n-best", "0"): "--n-best is 0, but should be between 1 and 1000",
        (): "missing: --run (bahdanau translate --help)",
        ("--preset", "fast"): "no --preset 'fast'; known: default, greedy, groundhog",
        ("--beam-size", "0"): "decoding.beam_size is 0, but should be at least 1",
        ("--max-ratio", "1e9"): "decoding.max_ratio is 1000000000.0, but should be above 0 and at "
        "most 100",
        ("--lexicon", missing): "--lexicon needs --replace-unk, which is missing",
        ("--prefix", missing): f"{missing}: no such file (--prefix)",
        ("--reference", given, "--output", given): f"--output would replace {given}, the file of "
        "--reference: name another",
        ("--input", given, "--output", link): f"--output would replace {given}, the file of "
        "--input: name another",
        ("--n-best", "3", "--beam-size", "2"): "--beam-size is 2, but should be at least 3"
        " (the number of translations wanted)",
    }
    for options, message in wrong.items():
        stdin(b"a\n")
        folder = ("--run", "x") if options else ()
        assert call("translate", *folder, *options) == (2, "", f"bahdanau: {message}\n")


def test_each_line_by_itself(call, run, stdin):
    stdin(b"one\ntwo\n\nthree")
    code, out, _ = call("translate", "--run", "x", "--line-buffered", "True")
    assert (code, out) == (0, "ONE\nTWO\n\nTHREE\n")
    assert run.model.windows == [["one"], ["two"], [""], ["three"]]
    assert [options["first"] for options in run.model.options] == [0, 1, 2, 3]


def test_settings_of_the_search_reach_the_model(call, run, stdin):
    stdin(b"a\n")
    options = ("--coverage", "0.2", "--length-normalization", "wu", "--seed", 1)
    assert call("translate", "--run", "x", *options)[0] == 0
    assert run.model.options == [
        {"prefixes": None, "first": 0, "coverage": 0.2, "length_normalization": "wu"}
    ]


def test_an_option_that_does_nothing_is_said_to(call, run, stdin):
    without = {
        ("--alpha", "0.3"): "--alpha counts only with --length-normalization wu",
        ("--top-k=0",): "--top-k counts only with --method sample",
        ("--seed", "1"): "--seed counts only with --method sample",
        ("--method", "sample", "--shrink", "True"): "--shrink counts only with --method beam",
    }
    for options, note in without.items():
        stdin(b"a\n")
        expected = 0, "A\n", f"bahdanau: warning: {note}\n"
        assert call("translate", "--run", "x", *options) == expected
    refused = 2, "", "bahdanau: --top-k counts only with --method sample\n"
    assert call("translate", "--run", "x", "--top-k", "3") == refused
    stdin(b"a\n")
    options = ("--method", "sample", "--top_k", "3", "--seed", "2", "--temperature", "0.5")
    assert call("translate", "--run", "x", *options) == (0, "A\n", "")
    stdin(b"a\n")
    assert call("translate", "--run", "alpha") == (0, "A\n", "")  # a folder of that name


def test_a_preset_may_be_changed(call, run, stdin):
    stdin(b"a\n")
    assert call("translate", "--run", "x", "--preset", "groundhog", "--min-ratio", 0.25)[0] == 0
    expected = {"prefixes": None, "first": 0, "shrink": True, "min_ratio": 0.25}
    assert run.model.options == [expected]


def test_several_runs_and_their_weights(call, run, stdin):
    stdin(b"a\n")
    options = ("--average", 3, "--checkpoint", "newest", "--weights", "params")
    assert call("translate", "--run", "x", "--run", "y", *options) == (0, "A\n", "")
    how = {"checkpoint": "newest", "average": 3, "weights": "params", "trust_code": False}
    assert [(str(folder), given) for folder, given in run.loaded] == [("x", how), ("y", how)]


def test_a_run_may_be_one_of_its_checkpoints(call, run, stdin):
    stdin(b"a\n")
    assert call("translate", "--run", "x@650", "--run", "y") == (0, "A\n", "")
    loaded = [(str(folder), given["checkpoint"]) for folder, given in run.loaded]
    assert loaded == [("x", "650"), ("y", "best")]
    said = "bahdanau: x@650 and --checkpoint newest both name a checkpoint: leave one out\n"
    assert call("translate", "--run", "x@650", "--checkpoint", "newest") == (2, "", said)


def test_prefixes_go_with_their_lines(call, run, stdin, tmp_path):
    prefixes = tmp_path / "prefixes.txt"
    prefixes.write_text("p\n\nr\n")
    stdin(b"a\nb\nc\n")
    options = ("--prefix", prefixes, "--line-buffered", "True")
    assert call("translate", "--run", "x", *options)[0] == 0
    assert [given["prefixes"] for given in run.model.options] == [["p"], [""], ["r"]]
    for text, count in ((b"a\nb\n", "more"), (b"a\n" * 4, "fewer")):
        stdin(text)
        code, _, err = call("translate", "--run", "x", "--prefix", prefixes)
        message = (
            f"bahdanau: {prefixes} has {count} lines than the input; expected one for each line\n"
        )
        assert (code, err) == (2, message)


def test_progress_only_where_asked_for_or_seen(call, run, stdin, monkeypatch):
    stdin(b"a\n" * 1500)
    code, out, err = call("translate", "--run", "x", "--progress", "True")
    assert (code, out) == (0, "A\n" * 1500)
    assert "1,500 lines" in err
    assert not progress.wanted(None, False)  # this stderr is no terminal
    monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda: True))
    assert progress.wanted(None, False) and not progress.wanted(None, True)
    assert progress.wanted(True, True) and not progress.wanted(False, False)


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=40))
def test_any_bytes_come_back_line_for_line(written):
    data = b"".join(line + b"\n" for line in written)
    for size in (1, 3, 1000):
        chunks = iter([data[i : i + size] for i in range(0, len(data), size)])
        assert [line for window in lines._windows(chunks) for line in window] == written


def test_a_line_above_the_limit_of_bytes_gives_a_blank_one(call, run, stdin, monkeypatch, tmp_path):
    monkeypatch.setattr(lines, "LONGEST", 100)
    monkeypatch.setattr(lines, "CHUNK", 30)
    text = b"a\n" + b"b" * 100 + b"\n" + b"c" * 101 + b"\nd\n" + b"e" * 500
    stdin(text)
    code, out, err = call("translate", "--run", "x")
    assert (code, out) == (0, f"A\n{'B' * 100}\n\nD\n\n")
    said = "bahdanau: warning: {}:{}: a line of more than 100 bytes is read as an empty one\n"
    assert err == said.format("stdin", 3) + said.format("stdin", 5)
    path = tmp_path / "text"
    path.write_bytes(text)
    assert call("translate", "--run", "x", "--input", path)[1] == out
    assert lines.count(path) == len(lines.read_all(path)) == 5


def test_a_prefix_above_the_limit_of_bytes_makes_its_line_blank(
    call, run, stdin, monkeypatch, tmp_path
):
    monkeypatch.setattr(lines, "LONGEST", 100)
    monkeypatch.setattr(lines, "CHUNK", 30)
    path = tmp_path / "prefixes"
    path.write_text(f"p\n{'q' * 101}\n\n")
    for options in ((), ("--line-buffered", "True")):
        stdin(b"a\nb\nc\n")
        code, out, err = call("translate", "--run", "x", "--prefix", path, *options)
        assert (code, out) == (0, "A\n\nC\n")
        said = f"{path}:2: a line of more than 100 bytes is read as an empty one\n"
        assert err == f"bahdanau: warning: {said}"


def test_a_line_or_its_prefix_may_be_too_long(caplog):
    Completeness(3.0, prefixed=True)(6, [[TOO_LONG]])
    (told,) = caplog.messages
    assert told.startswith("line 7 or its prefix has more than 20,000 tokens; its output is blank")


def test_nothing_of_a_line_above_the_limit_is_kept(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 100)
    told = []
    chunks = iter([b"a\n" * 90, b"a" * 60, b"\n", b"a" * 100, b"\n", b"b" * 101])
    windows = lines._windows(chunks, too_long=told.append)
    assert sum(len(next(windows)) for _ in range(3)) == 92 and not told
    assert next(windows) == [b""] and told == [93]


def test_lines_that_were_too_long_and_translations_that_did_not_end_are_told(call, run, stdin):
    """The warnings are the same for text, n-best lists and jsonl; text has as many lines."""
    translate = run.model.translate

    def partly(lines, beam_size=None, n_best=None, *, advance, **options):
        found = translate(lines, n_best=n_best or 1, advance=advance)
        for row, line in enumerate(lines):
            if line == "long":
                found[row] = [TOO_LONG]
            elif line == "cut":
                found[row][0] = dataclasses.replace(found[row][0], finished=False)
        return found

    run.model.translate = partly
    told = (
        "bahdanau: warning: line 2 has more than 20,000 tokens; its output is blank: break it into "
        "sentences\n"
        "bahdanau: warning: 2 of {} translations are cut off at 4 tokens for each source token, "
        "the first in line 3: give a larger --max-ratio\n"
    )
    asked = ("translate", "--run", "x", "--max-ratio", 4)
    text = b"one\nlong\ncut\n\ncut\n"
    stdin(text)
    assert call(*asked, "--line-buffered", True) == (0, "ONE\n\nCUT\n\nCUT\n", told.format(4))
    stdin(text)
    _, out, err = call(*asked, "--n-best", 2, "--beam-size", 2)
    assert err == told.format(7)
    assert [line.split(" ||| ")[0] for line in out.splitlines()] == list("00122344")
    stdin(text)
    code, out, err = call(*asked, "--format", "jsonl")
    finished = [json.loads(line)["finished"] for line in out.splitlines()]
    assert finished == [True, False, False, True, False]
    assert (code, err) == (0, told.format(4))


@pytest.mark.parametrize("option", ["--n-best", "--beam-size"])
def test_lists_and_beams_have_an_upper_bound(call, run, stdin, option):
    stdin(b"one\n")
    code, out, err = call("translate", "--run", "x", option, 100_000)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is 100000, but should be" in err and "1000\n" in err


@given(st.text(max_size=30))
def test_flat_text_is_one_line(text):
    assert len(f"{lines.flat(text)}|".splitlines()) == 1
    assert lines.flat(text).split() == text.split()


def test_a_terminal_is_told_that_lines_are_read_from_it(call, run, stdin, monkeypatch):
    told = "bahdanau: reading lines from the terminal; end with Ctrl-D\n"
    stdin(b"a\n")
    assert call("translate", "--run", "x") == (0, "A\n", "")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert call("translate", "--run", "x") == (0, "", told)


def test_the_number_of_lines_of_a_file_is_known_before(tmp_path):
    (tmp_path / "a.en").write_text("a\n" * 1500 + "b")
    assert lines.total(tmp_path / "a.en") == 1501
    assert lines.total(None) is lines.total(tmp_path) is None
