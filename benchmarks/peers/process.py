"""Starts programs that answer each line of JSON with another line, and reports their failures."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from bahdanau_jax.cli import jax_defaults


class Failure(ValueError):
    """A program failed. The message contains its last error."""

    def __init__(self, name: str, fault: str, output: str):
        super().__init__(f"{name} {fault}; last error: {last_error(output)}")
        self.name = name


class TimeLimit(Failure):
    """A program was stopped because its time was over."""


class Peer:
    """A process that answers requests one by one. Its first line, without a request, is `greeting`.

    After `seconds` the process is killed, also during a request. `environment` adds variables to
    those of this process. Raises Failure where it does not start, ends, or writes anything but a
    JSON object, and TimeLimit where it was killed.

    >>> with Peer("JoeyNMT", ["/opt/joeynmt/bin/python", "joey.py", "serve", "peer.json"]) as peer:
    ...     peer.ask(lines=["3 4 5"], beam_size=5)["seconds"]
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        self.name = name
        self._is_over = threading.Event()
        with ExitStack() as stack:
            self._output = stack.enter_context(_transcript())
            self._process = begin(
                name,
                command,
                environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._output,
            )
            self._stack = stack.pop_all()
        self._stack.callback(self._end)
        if seconds is not None:
            self._limit(seconds)
        try:
            self.greeting = self._answer()
        except BaseException:  # also Ctrl-C: nobody else knows of the process yet
            self._stack.close()
            raise

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _limit(self, seconds: float) -> None:
        def stop() -> None:
            self._is_over.set()
            self._process.kill()

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        self._stack.callback(timer.cancel)

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failure("ended") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failure("ended")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._failure(f"answered {line[:80].strip()!r}, which is no JSON object")
        return answer

    def _failure(self, fault: str) -> Failure:
        self._process.kill()
        self._process.wait()
        self._output.seek(0)
        output = self._output.read()
        self._stack.close()
        if self._is_over.is_set():
            return TimeLimit(self.name, "was stopped at its time limit", output)
        return Failure(self.name, fault, output)


def result(name: str, command: Sequence[str]) -> dict[str, Any]:
    """Run a program of ours, with the allocator of our command line, and return what it prints.

    Raises Failure where it fails, and where that is no JSON object.
    """
    kept = {variable: os.environ.get(variable) for variable, _ in jax_defaults.MALLOC.values()}
    environment = {variable: value for variable, value in kept.items() if value is not None}
    with Peer(name, command, environment=environment) as peer:
        return peer.greeting


def run(name: str, command: Sequence[str]) -> None:
    """Run a program to its end. Raises Failure where it fails."""
    with _transcript() as output:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = begin(name, command, **streams, stderr=output)
        try:
            process.communicate()
        finally:
            process.kill()  # if this process is interrupted
        if process.returncode:
            output.seek(0)
            raise Failure(name, f"ended with code {process.returncode}", output.read())


def _transcript() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def begin(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    **streams: Any,
) -> subprocess.Popen:
    """Start a program with text pipes. Raises Failure where it cannot be started.

    JAX in it does not preallocate the accelerator's memory, which two programs share. It has the
    allocator as it comes, and not the settings of our command line, unless it makes them itself.
    """
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    for variable, _ in jax_defaults.MALLOC.values():
        shared.pop(variable, None)
    shared |= environment or {}
    try:
        return subprocess.Popen(list(command), text=True, encoding="utf-8", env=shared, **streams)
    except OSError as error:
        raise Failure(name, "does not start", f"{command[0]}: {error.strerror}") from error


def ours(module: str, *arguments: str) -> list[str]:
    """The command for the `main()` of a module of this checkout, from whichever folder.

    The benchmarks are not installed, so a process that starts elsewhere has to be told of them.
    """
    root = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {root!r}); from {module} import main; main()"
    return [sys.executable, "-c", program, *arguments]


def located(name: str, program: Path) -> Path:
    """The path of a program: a file, or a name that is looked up in PATH.

    Raises ValueError where there is none.
    """
    path = shutil.which(program.absolute()) or shutil.which(program)
    if path is None:
        raise ValueError(f"{name} does not start: {program} is not an executable file")
    return Path(path)


def last_error(output: str) -> str:
    """The error at the end of a traceback, or else the last line that is not blank.

    >>> last_error("Traceback (most recent call last):\n  File ...\nOSError: full\nbye\n")
    'OSError: full'
    """
    _, traceback, rest = output.rpartition("Traceback (most recent call last):\n")
    if traceback:  # a library may print statistics after it
        return next((line for line in rest.splitlines() if line[:1].strip()), "a traceback")
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "none")
