"""Logs of Orbax: its own errors are reported once, and those of other programs stay."""

import asyncio
import gc

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
