"""Which errors a user can correct, and what they read then: one line without a traceback."""

import errno
from typing import TypeGuard

# A ValueError of one of these libraries is a fault of this program, not of the user.
NUMERIC = frozenset({"jax", "jaxlib", "flax", "optax", "numpy"})
DESCRIBED = (ValueError, OSError, MemoryError, FloatingPointError, RuntimeError)
DEVICES = "jax._src.xla_bridge"  # the module of JAX that looks for devices


def is_user_error(error: BaseException) -> TypeGuard[Exception]:
    """Whether the user can correct it: values, files, a model that is too large, divergence."""
    if is_without_device(error):
        return True
    if not isinstance(error, DESCRIBED):
        return False
    if isinstance(error, RuntimeError):  # XLA has no class for missing memory
        return "RESOURCE_EXHAUSTED" in str(error)
    if isinstance(error, MemoryError | OSError):
        return True
    return _raised_in(error).partition(".")[0] not in NUMERIC


def describe(error: Exception) -> str:
    """The message of an error for users; that of an OSError begins with its file."""
    if is_without_device(error):
        return f"JAX finds no device: set JAX_PLATFORMS=cpu, or install its plugin. {error}".strip()
    if isinstance(error, MemoryError | RuntimeError):
        text = (
            "not enough memory: lower decoding.batch_size, the beam size or --n-best to translate, "
            "data.batch_size to train, or make the model smaller"
        )
        if isinstance(error, RuntimeError):  # of XLA
            text += (
                "; on a GPU, also end other programs that use it, or set "
                f"XLA_PYTHON_CLIENT_PREALLOCATE=false for each ({str(error).splitlines()[0]})"
            )
        return text
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return "no space is left on the device of the output: free some, or write elsewhere"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error).strip() or type(error).__name__


def is_without_device(error: BaseException) -> bool:
    """Whether JAX finds no device, for which it raises an AssertionError at times."""
    return isinstance(error, RuntimeError | AssertionError) and _raised_in(error) == DEVICES


def _raised_in(error: BaseException) -> str:
    """The module whose frame raised the error."""
    module, trace = "", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        trace = trace.tb_next
    return module
