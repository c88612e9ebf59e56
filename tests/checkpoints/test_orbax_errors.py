"""Logs of Orbax: its own errors are reported once, and those of other programs stay."""

import asyncio
import gc
import sys

from bahdanau_jax.checkpoints import orbax_errors


def logged(message: str, caplog) -> str:
    """The log of a task that fails after nobody waits for it any more."""

    async def failing():
        raise ValueError(message)

    async def main():
        task = asyncio.ensure_future(failing())
        await asyncio.sleep(0)
        del task
        gc.collect()

    caplog.clear()
    asyncio.run(main())
    return caplog.text


def test_a_late_error_of_a_read_that_was_reported_is_not_logged_again(caplog):
    of_read = 'OUT_OF_RANGE: Error opening "zarr3" driver [tensorstore_spec=...]'
    orbax_errors.hush()
    assert "never retrieved" not in logged(of_read, caplog)
    assert "never retrieved" in logged("an error of a user's own task", caplog)


def ended_by_python(file: str) -> None:
    """Let Python end a coroutine, defined in this file, that raises an error on its way out."""
    source = """
import types
@types.coroutine
def waiting():
    yield
async def read():
    try:
        await waiting()
    except BaseException:
        raise Exception("Encountered error while reading array index")
"""
    names = {}
    exec(compile(source, file, "exec"), names)
    coroutine = names["read"]()
    coroutine.send(None)
    del coroutine
    gc.collect()


def test_an_abandoned_read_of_orbax_ends_without_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    orbax_errors.hush()
    ended_by_python(f"{orbax_errors.ORBAX}/serialization.py")
    assert "reading array index" not in capsys.readouterr().err
    ended_by_python("own.py")
    assert "reading array index" in capsys.readouterr().err
