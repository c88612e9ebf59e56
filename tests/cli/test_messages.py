"""Warnings have one form on the command line, and stay standard in the library."""

import logging
import warnings

import pytest

from bahdanau_jax.cli import messages
from bahdanau_jax.figures import MissingFont


def test_a_warning_of_the_package_is_a_line_of_one_form(capsys):
    log = logging.getLogger("bahdanau_jax.checkpoints.checkpointer")
    with messages.shown(), warnings.catch_warnings():
        warnings.simplefilter("always")
        log.warning("checkpoint %s is damaged:\nno array", "x/7")
        log.info("nothing to see")
        warnings.warn("no font has it", MissingFont, stacklevel=1)
    assert capsys.readouterr().err == (
        "bahdanau: warning: checkpoint x/7 is damaged: no array\n"
        "bahdanau: warning: no font has it\n"
    )


def test_a_traceback_stands_below_its_message(capsys):
    with messages.shown():
        try:
            raise KeyError("lost")
        except KeyError as error:
            logging.getLogger("bahdanau_jax.x").warning("a run\nfailed", exc_info=error)
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert first == "bahdanau: warning: a run failed"
    assert second.startswith("Traceback") and last == "KeyError: 'lost'"


def test_the_standard_logging_comes_back(caplog):
    before = warnings.showwarning
    with pytest.raises(KeyError), messages.shown():
        raise KeyError
    logging.getLogger("bahdanau_jax.run").warning("told")
    assert caplog.messages == ["told"] and warnings.showwarning is before


def test_other_packages_warn_as_they_do(monkeypatch):
    told = []
    monkeypatch.setattr(
        warnings, "showwarning", lambda message, *_, **__: told.append(str(message))
    )
    with messages.shown(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("theirs", UserWarning, stacklevel=1)
    assert told == ["theirs"]
