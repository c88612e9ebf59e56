"""The `bahdanau` command: it runs a subcommand and returns an exit code.

Exit codes:

    0    The command succeeded.
    1    The program has a fault, which its traceback shows.
    2    The user can correct the error that is printed on stderr.
    75   Another process of the same training is lost.
    130  Ctrl-C stopped the command.
    141  The reader of a pipe closed it.
    143  SIGTERM stopped the command.
"""

import importlib
import io
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from bahdanau_jax.cli import LOST, USER_ERROR, HelpShown, jax_defaults, leaving, manual, messages
from bahdanau_jax.cli.leaving import Terminated
from bahdanau_jax.names import did_you_mean
from bahdanau_jax.reporting import say
from bahdanau_jax.user_errors import describe, is_user_error

# Each command is a module of this folder with a function main(arguments).
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "train": "train a model, or resume its training, and report its scores",
        "launch": "train in several processes here, and restart them when one dies",
        "prepare": "only fetch and tokenise the text of a training run",
        "translate": "translate lines of text with a trained model",
        "align": "link the words of a translation to those of its source",
        "evaluate": "translate a file and score it against its reference",
        "sweep": "train with several settings and seeds, and compare the scores",
        "reproduce": "run an experiment of the paper, or another one, and report on it",
        "explore": "serve a page in which a trained model can be looked at and changed",
        "curves": "compare the learning curves of runs",
        "completion": "print a script that completes command lines in bash, zsh or fish",
        "doctor": "check the installation: versions, devices, known faults, two updates",
        "export": "write a model that translates without this program",
        "checkpoints": "list, verify and prune a run's checkpoints; export and import weights",
        "serve": "serve trained models over HTTP: translate, score and align as JSON",
    }
)

OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "-h, --help": "show this help, or the help of the command before it",
        "--version": "show the version",
    }
)

Dispatch = Callable[[list[str]], int | None]


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
    """Run one command line and return its exit code; faults of this program raise their exception.

    Without `arguments`, the command line of the process is run. In that case Ctrl-C, SIGTERM or an
    error ends the process at once, without waiting for its threads. `dispatch` runs the command
    that the arguments name, by default one of COMMANDS.

    >>> main(["translate", "--run", "runs/quickstart", "--input", "source.txt"])
    """
    owned = arguments is None
    if owned:
        _replace_closed()
        leaving.watch()
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments, dispatch or _dispatch)
    except BaseException:
        if _is_connected() or (owned and _is_busy()):
            traceback.print_exc()
            leaving.leave(1)
        raise
    if owned and (number := leaving.received()):
        leaving.end(number)
    if code and (_is_connected() or (owned and _is_busy())):
        leaving.leave(code)
    return code


def _is_connected() -> bool:
    """Whether this process trains together with others, which have to learn that it failed."""
    distributed = sys.modules.get("bahdanau_jax.distributed")
    return distributed is not None and distributed.is_connected()


def _is_busy() -> bool:
    """Whether a thread runs that Python would wait for at its exit, such as the compiler's."""
    main = threading.main_thread()
    return any(not thread.daemon and thread is not main for thread in threading.enumerate())


def _is_lost(error: BaseException) -> bool:
    """Whether the error is the loss of another process of the same training."""
    distributed = sys.modules.get("bahdanau_jax.distributed")
    return distributed is not None and isinstance(error, distributed.Lost)


def _replace_closed() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr.

    Otherwise a file that is opened later could get descriptor 2, to which libraries write messages.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _any_character() -> None:
    """Escape characters that the encoding of the terminal does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Drop buffered output that cannot be written; otherwise Python tries again at its exit."""
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
        with messages.shown():
            code = _called(dispatch, list(arguments))
        if sys.stdout is not None:
            sys.stdout.flush()  # inside `try`, which catches a closed pipe
        return code or 0
    except KeyboardInterrupt as interrupt:
        if not leaving.received():  # otherwise `leaving.end` writes a line
            say(f"bahdanau: {str(interrupt) or 'interrupted'}")
        return 130
    except BrokenPipeError:
        return 141
    except Terminated:
        return 143
    except BaseException as error:
        if number := leaving.received():  # a library turned the signal into this error
            return 128 + number
        if not is_user_error(error) or os.environ.get("BAHDANAU_TRACEBACK"):
            raise
        for line in describe(error).splitlines():
            say(f"bahdanau: {line}")
        return LOST if _is_lost(error) else USER_ERROR
    finally:
        _drop_output()


def _called(dispatch: Dispatch, arguments: list[str]) -> int | None:
    """Return the exit code of a command. Code of a user that ends the program is an error."""
    try:
        return dispatch(arguments)
    except HelpShown:
        return None
    except SystemExit as ended:
        told = f"code of this run ended the program: SystemExit: {ended.code}"
        raise ValueError(told) from ended


def _dispatch(arguments: list[str]) -> int | None:
    """Run the command that the arguments name; return its exit code, or None for success."""
    if not arguments:
        raise ValueError(f"no command given; one of {', '.join(COMMANDS)}, or --help")
    name, *rest = arguments
    if name in ("-h", "--help"):
        print(usage(), end="")
    elif name == "--version":
        print(_version())
    elif name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS, f"the commands are {', '.join(COMMANDS)}")
        raise ValueError(f"no command {name!r}; {hint}")
    else:
        return importlib.import_module(f"bahdanau_jax.cli.{name}_command").main(rest)


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("bahdanau-jax")
    except metadata.PackageNotFoundError:
        raise ValueError("bahdanau-jax is not installed: pip install --editable .") from None
