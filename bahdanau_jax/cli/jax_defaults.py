"""What every command asks of JAX, unless the environment says otherwise.

Set through JAX's own environment variables, so that nothing here has to import JAX.
"""

import os
import sys
from pathlib import Path


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
