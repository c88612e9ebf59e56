"""The `bahdanau` command: finds the subcommand, runs it, and turns what happens into an exit code.

0: done. 2: something the user can mend, said on stderr without a traceback. 1: a fault of this
program, with its traceback. 75: another process of the same training is lost. 130, 143 and 141:
stopped by Ctrl-C, by SIGTERM, or by the reader of a pipe.
"""

import contextlib
import errno
import importlib
import io
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TypeGuard

from bahdanau_jax.cli import LOST, MENDABLE, jax_defaults, leaving, manual, messages
from bahdanau_jax.cli.leaving import Terminated
from bahdanau_jax.names import nearest, suggestion
from bahdanau_jax.reporting import say

# Each is a module of this folder with a function main(arguments).
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "train": "train a model, or go on with one, and report its scores",
        "launch": "train in several processes here, and again when one of them dies",
        "prepare": "only fetch and tokenise what a training run would read",
        "translate": "translate lines of text with a trained model",
        "align": "link the words of a translation to those of its source",
        "evaluate": "translate a file and score it against its reference",
        "curves": "show how runs learned, side by side",
        "checkpoints": "list, verify and prune a run's checkpoints; export and import weights",
    }
)

OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "-h, --help": "show this help; after a command, the help of that command",
        "--version": "show the version",
    }
)

# Where a ValueError comes out of one of these, it is about arrays, and the fault is ours.
NUMERIC = frozenset({"jax", "jaxlib", "flax", "optax", "numpy"})
Dispatch = Callable[[list[str]], int | None]
DESCRIBED = (ValueError, OSError, MemoryError, FloatingPointError, RuntimeError)


EXAMPLES = (
    "bahdanau train quickstart --workdir runs/quickstart",
    "echo 'The man saw a white house .' | bahdanau translate --run runs/quickstart",
)


def usage() -> str:
    parts = (
        "usage: bahdanau COMMAND [OPTIONS]",
        "Attention translation with recurrent networks (RNNsearch, arXiv 1409.0473).",
        manual.examples(EXAMPLES),
        manual.table("commands:", COMMANDS),
        manual.table("options:", OPTIONS),
    )
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None, dispatch: Dispatch | None = None) -> int:
    """Run one command line and return its exit code; errors of this program's own leave as raised.

    Without `arguments`, those of the process are run. The process is then ended at once after
    Ctrl-C, SIGTERM or an error, whatever goes on in its threads. `dispatch` runs the command that
    the arguments name; by default it is one of COMMANDS.

    >>> main(["translate", "--run", "runs/quickstart", "--input", "source.txt"])
    """
    owned = arguments is None
    if owned:
        _replace_closed()
        leaving.watch()
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments, dispatch or _dispatch)
    except BaseException:
        if _awaited() or (owned and _is_busy()):
            traceback.print_exc()
            leaving.leave(1)
        raise
    if owned and (number := leaving.received()):
        leaving.end(number)
    if code and (_awaited() or (owned and _is_busy())):
        leaving.leave(code)
    return code


def _awaited() -> bool:
    """Whether other processes of the same training have to learn that this one failed."""
    distributed = sys.modules.get("bahdanau_jax.distributed")
    return distributed is not None and distributed.is_connected()


def _is_busy() -> bool:
    """Whether Python would wait for a thread at its end, such as the compiler's or a search."""
    main = threading.main_thread()
    return any(not one.daemon and one is not main for one in threading.enumerate())


def _is_lost(error: BaseException) -> bool:
    """Whether it was another process of the same training that failed."""
    distributed = sys.modules.get("bahdanau_jax.distributed")
    return distributed is not None and isinstance(error, distributed.Lost)


def _replace_closed() -> None:
    """A file opened later gets none of the numbers of stdin, stdout and stderr where these are
    closed: libraries write messages to number 2. What is printed to a closed stderr is dropped."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _any_character() -> None:
    """Whatever the encoding of the terminal, text with other characters is written, escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is buffered and cannot be written is dropped: else Python tries again as it exits."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _run(arguments: Sequence[str], dispatch: Dispatch) -> int:
    jax_defaults.apply()
    _any_character()
    try:
        code = None
        # SystemExit is how --help leaves; errors come as errors.
        with messages.shown(), contextlib.suppress(SystemExit):
            code = dispatch(list(arguments))
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a closed pipe is caught
        return code or 0
    except KeyboardInterrupt:
        if not leaving.received():  # otherwise `leaving.end` says it
            say("bahdanau: interrupted")
        return 130
    except BrokenPipeError:
        return 141
    except Terminated:
        return 143
    except BaseException as error:
        if number := leaving.received():  # a library made this error of the signal
            return 128 + number
        if not _is_mendable(error) or os.environ.get("BAHDANAU_TRACEBACK"):
            raise
        for line in describe(error).splitlines():
            say(f"bahdanau: {line}")
        return LOST if _is_lost(error) else MENDABLE
    finally:
        _drop_output()


def _dispatch(arguments: list[str]) -> int | None:
    """The exit code, where a command has one of its own."""
    if not arguments:
        raise ValueError(f"no command given; one of {', '.join(COMMANDS)}, or --help")
    name, *rest = arguments
    if name in ("-h", "--help"):
        print(usage(), end="")
    elif name == "--version":
        print(_version())
    elif name not in COMMANDS:
        hint = suggestion(nearest(name, COMMANDS), f"the commands are {', '.join(COMMANDS)}")
        raise ValueError(f"no command {name!r}; {hint}")
    else:
        return importlib.import_module(f"bahdanau_jax.cli.{name}").main(rest)


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("bahdanau-jax")
    except metadata.PackageNotFoundError:
        raise ValueError("bahdanau-jax is not installed: pip install --editable .") from None


def _is_mendable(error: BaseException) -> TypeGuard[Exception]:
    """Whether it is about what the user gave: values, files, a model too large, divergence."""
    if not isinstance(error, DESCRIBED):
        return False
    if isinstance(error, RuntimeError):  # of XLA, which has no class for it
        return "RESOURCE_EXHAUSTED" in str(error)
    return isinstance(error, MemoryError) or not _is_numeric(error.__traceback__)


def describe(error: Exception) -> str:
    """What went wrong, for people: an OSError leads with the file it is about."""
    if isinstance(error, MemoryError | RuntimeError):
        return (
            "not enough memory: lower decoding.batch_size, the beam size or --n-best to translate, "
            "data.batch_size to train, or make the model smaller"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return "no space is left where the output goes: free some, or write elsewhere"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error).strip() or type(error).__name__


def _is_numeric(trace: TracebackType | None) -> bool:
    """Whether the innermost frame, the one that raised, belongs to a library of arrays."""
    package = ""
    while trace is not None:
        package = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        trace = trace.tb_next
    return package in NUMERIC


if __name__ == "__main__":
    sys.exit(main())
