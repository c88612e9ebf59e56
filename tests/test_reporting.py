"""Messages about long work, also where a stream is closed or full."""

import io
import logging
import sys
import warnings
from pathlib import Path

import pytest

from bahdanau_jax import reporting
from bahdanau_jax.cli import messages
from bahdanau_jax.figures import MissingFont  # a warning of the package

PACKAGE = Path(reporting.__file__).parent


class Full(io.StringIO):
    def flush(self):
        raise OSError(28, "No space left on device")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {"closed before Python began": lambda: None, "closed since": closed, "full": Full}


@pytest.mark.parametrize("stream", STREAMS)
def test_a_message_that_cannot_be_written_is_dropped(stream, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", STREAMS[stream]())  # in the test: pytest sets it before
    reporting.say("a message")
    reporting.PLAIN.note("a note")
    with messages.shown(), warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.getLogger("bahdanau_jax.run").warning("told")
        warnings.warn("no font has it", MissingFont, stacklevel=1)
    assert capsys.readouterr().out == ""


class Counted(io.StringIO):
    writes = 0

    def write(self, text):
        self.writes += 1
        return super().write(text)


def test_another_thread_cannot_write_inside_a_line():
    stream = Counted()
    reporting.say_to(stream, "a message")
    assert (stream.getvalue(), stream.writes) == ("a message\n", 1)


def test_nothing_else_prints_to_stderr():
    """`print` fails where stderr is full, and writes to stdout where it is closed."""
    files = [path for path in PACKAGE.rglob("*.py") if "runtime" not in path.parts]  # it is alone
    assert [path for path in files if "file=sys." in path.read_text("utf-8")] == []
