"""Defaults of JAX, of the C libraries and of Python's garbage collector for every command.

Those of libraries are set by their own environment variables, which override them where they are
set already. So this file imports no library.
"""

import contextlib
import ctypes
import gc
import os
import stat
import sys
import tempfile
import warnings
from pathlib import Path

from bahdanau_jax import compiler_faults


def cache_folder() -> Path:
    """The folder of compiled programs; JAX_COMPILATION_CACHE_DIR overrides it."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "bahdanau_jax"
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    home = os.path.expanduser("~")
    if home == "~":  # no variable HOME, and no entry of the user
        return _private(Path(tempfile.gettempdir()) / f"bahdanau_jax-{os.getuid()}")
    return Path(home) / caches / "bahdanau_jax"


def _private(folder: Path) -> Path:
    """The folder, or a new one where another user could have written programs into it."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700:
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))


def apply() -> None:
    """Set the defaults that are not set yet; call it before JAX is imported."""
    defaults = {
        "JAX_COMPILATION_CACHE_DIR": str(cache_folder()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # JAX's default is 1 s
        "JAX_TRACEBACK_FILTERING": "off",  # the traceback shows which library raised the error
        # JAX factors matrices with OpenBLAS when it draws orthogonal weights. Its threads wait in a
        # loop, which takes the cores from the compiler, and their number changes the last bits.
        "OPENBLAS_NUM_THREADS": "1",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    compiler_faults.avoid()
    # An unwritable cache costs only time.
    warnings.filterwarnings("ignore", message="Error (writ|read)ing persistent compilation cache")
    keep_memory()
    collect_rarely()


OBJECTS = 10_000


def collect_rarely() -> None:
    """Let Python look for unreachable cycles after 10,000 new objects, by default after 700.

    Imports and tracing make hundreds of thousands of objects that stay. Looking through them again
    and again takes an eighth of the time of a short command (docs/decisions/0136). A collector that
    is off stays off.
    """
    if 0 < gc.get_threshold()[0] < OBJECTS:
        gc.set_threshold(OBJECTS)


# glibc's mallopt(3): parameter -> its variable for child processes, and its value.
MALLOC = {
    # No mapping for large arrays, which every free would return to the kernel.
    -4: ("MALLOC_MMAP_MAX_", 0),
    -1: ("MALLOC_TRIM_THRESHOLD_", 2**31 - 1),  # keep freed memory
    -2: ("MALLOC_TOP_PAD_", 2**28),  # get much memory at a time
    # Heaps. With fewer heaps the compiler's threads wait for each other. With glibc's default, 8
    # for each core, more memory returns to the kernel.
    -8: ("MALLOC_ARENA_MAX", 1 + (os.cpu_count() or 1)),
}


def keep_memory() -> None:
    """Let every update reuse the memory of the previous one instead of new memory of the kernel.

    On two CPU cores the page faults of a new gigabyte cost an eighth of an update.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for parameter, (variable, value) in MALLOC.items():
            if variable not in os.environ:
                mallopt(parameter, value)
                os.environ[variable] = str(value)
