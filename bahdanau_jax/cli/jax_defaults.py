"""What every command asks of JAX and of the C library, unless the environment says otherwise.

Set through JAX's own environment variables, so that nothing here has to import JAX.
"""

import ctypes
import os
import sys
import warnings
from pathlib import Path

from bahdanau_jax import compiler_faults


def cache_folder() -> Path:
    """Where compiled programs are kept between runs; JAX_COMPILATION_CACHE_DIR overrides it."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "bahdanau_jax"
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / caches / "bahdanau_jax"


def apply() -> None:
    defaults = {
        "JAX_COMPILATION_CACHE_DIR": str(cache_folder()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # JAX's own default skips all below 1 s
        "JAX_TRACEBACK_FILTERING": "off",  # so that it shows which library raised
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    compiler_faults.avoid()
    # A cache that cannot be written to costs time, and no result.
    warnings.filterwarnings("ignore", message="Error (writ|read)ing persistent compilation cache")
    _keep_memory()


# glibc's mallopt: parameter -> value. See mallopt(3).
_MALLOC = {
    -4: 0,  # M_MMAP_MAX: no block of its own for large arrays, which would go back at every free
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD: keep what is freed
    -2: 2**28,  # M_TOP_PAD: ask for much at a time
    # M_ARENA_MAX: heaps. The compiler's threads wait for each other with fewer, and with glibc's
    # own number, 8 a core, more memory goes back to the kernel.
    -8: 1 + (os.cpu_count() or 1),
}


def _keep_memory() -> None:
    """Let every update reuse the memory of the one before instead of asking the kernel for it.

    On two CPU cores the page faults of a fresh gigabyte cost an eighth of an update.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for parameter, value in _MALLOC.items():
            mallopt(parameter, value)
