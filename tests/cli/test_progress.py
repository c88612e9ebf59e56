"""The display of a command's stages, on terminals and elsewhere."""

import os
import pty
import subprocess
import sys

import pytest

from bahdanau_jax.cli import progress

PROGRAM = """
import sys, time
from bahdanau_jax.cli import progress

progress.WORTH_A_LINE = 0.2
with progress.reporter() as reporter:
    reporter.stage("short")
    stage = reporter.stage("translating", 40, "lines")
    for _ in range(4):
        time.sleep(0.1)
        stage.advance(10)
    print("a warning", file=sys.stderr)
    reporter.note("step 5: BLEU 3")
    with reporter.aside():
        print("a result")
    reporter.stage("drawing")
"""


def on_terminal(**environment: str) -> str:
    """The output of PROGRAM on a terminal of 80 columns."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment},
    )
    os.close(terminal)
    seen = b""
    while True:
        try:
            seen += os.read(main, 1 << 16)
        except OSError:  # its other end is closed
            break
    os.close(main)
    assert process.wait(30) == 0
    return seen.decode()


def test_bars_on_a_terminal():
    seen = on_terminal()
    assert "translating" in seen and "/40 lines" in seen and "left" in seen
    for whole in ("a warning\r\n", "step 5: BLEU 3\r\n", "a result\r\n"):
        assert whole in seen
    # The last stage that was long leaves a line, the others none; the cursor is visible again.
    shown = seen.rpartition("\x1b[?25h")[2]
    assert "translating: " in seen and "40 lines" in seen and "drawing" not in shown
    assert "short: " not in seen and seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")


def test_no_line_is_wider_than_a_terminal():
    for line in on_terminal(NO_COLOR="1").replace("\r", "\n").split("\n"):
        plain = line.replace("\x1b[?25l", "").replace("\x1b[?25h", "").replace("\x1b[2K", "")
        assert len(plain) <= 80, plain


def test_a_terminal_that_cannot_draw_gets_lines():
    seen = on_terminal(TERM="dumb")
    assert "\x1b" not in seen and "step 5: BLEU 3\r\n" in seen


def test_elsewhere_a_stage_that_lasts_is_a_line(capfd, monkeypatch):
    lasting, short = 0.0, 600.0
    monkeypatch.setattr(progress, "PROMPT", short)
    with progress.reporter() as reporter:
        reporter.stage("short")
        timer = reporter._timer
        monkeypatch.setattr(progress, "PROMPT", lasting)
        reporter.stage("translating", 40, "lines").advance(10)
        assert timer.finished.is_set()  # cancelled: a short stage is never a line
        reporter._timer.join(60)
        monkeypatch.setattr(progress, "PROMPT", short)
        reporter.stage("drawing")
    assert capfd.readouterr() == ("", "translating ...\n")


def test_what_was_done_is_said_where_it_is_asked_for(capfd):
    with progress.reporter(counts=True) as reporter:
        reporter.stage("translating", 40, "lines").advance(40)
    assert "translating: 0 s, 40 lines, " in capfd.readouterr().err


def test_after_an_error_nothing_is_said_to_be_done(capfd):
    with pytest.raises(ValueError), progress.reporter(counts=True) as reporter:
        reporter.stage("translating", 40, "lines").advance(10)
        raise ValueError
    assert capfd.readouterr() == ("", "")


def test_a_thread_may_report_on_a_stage_that_has_ended(monkeypatch):
    """A thread of the compiler does this after training has begun."""
    monkeypatch.setenv("TERM", "xterm")
    bars = progress.Bars(keep=False)
    try:
        compiling = bars.stage("compiling", 2)
        bars.stage("training", 9)
        compiling.describe("compiling 2 of 2")
        compiling.advance()
    finally:
        bars.close()
