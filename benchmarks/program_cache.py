"""The folder in which JAX keeps compiled programs, which is empty when a measurement begins."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator

VARIABLE = "JAX_COMPILATION_CACHE_DIR"
_OF_THE_USER = os.environ.get(VARIABLE)  # before the command line sets its own default


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """Let the processes that start meanwhile find no compiled programs of earlier ones.

    A folder that the user has set stays in use.
    """
    if _OF_THE_USER:
        yield
        return
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory(prefix="programs-", ignore_cleanup_errors=True) as folder:
        os.environ[VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            if before is not None:
                os.environ[VARIABLE] = before


def of_flags(flags: str) -> dict[str, str]:
    """The variable with a folder for these flags of XLA alone; {} where no folder is set.

    JAX also keeps in it which kernels XLA chose for a product. Their names do not tell all flags,
    so a program could get kernels that were chosen with other flags.
    """
    folder = os.environ.get(VARIABLE)
    name = hashlib.sha256(" ".join(flags.split()).encode()).hexdigest()[:12]
    return {VARIABLE: os.path.join(folder, f"flags-{name}")} if folder else {}
