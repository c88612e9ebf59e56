"""A program that answers each line of JSON with another one."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any


class Failure(ValueError):
    """A program that went wrong, with its last words."""

    def __init__(self, name: str, what: str, said: str):
        super().__init__(f"{name} {what}; its last words: {last_words(said)}")
        self.name = name


class Peer:
    """A process that is asked and answers in turn; what it says first, unasked, is `greeting`.

    Raises a `Failure` where it does not start, ends, or answers otherwise.

    >>> with Peer("JoeyNMT", ["/opt/joeynmt/bin/python", "joey.py", "serve", "peer.json"]) as peer:
    ...     peer.ask(lines=["3 4 5"], beam_size=5)["seconds"]
    """

    def __init__(self, name: str, command: Sequence[str]):
        self.name = name
        with ExitStack() as stack:
            self._said = stack.enter_context(_transcript())
            self._process = begin(
                name, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
            )
            self._stack = stack.pop_all()
        self._stack.callback(self._end)
        self.greeting = self._answer()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

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
            raise self._failure(f"answered {line[:80].strip()!r}, which is no object of JSON")
        return answer

    def _failure(self, what: str) -> Failure:
        self._process.kill()
        self._process.wait()
        self._said.seek(0)
        said = self._said.read()
        self._stack.close()
        return Failure(self.name, what, said)


def run(name: str, command: Sequence[str]) -> None:
    """Run a peer's program to its end, or raise its `Failure`."""
    with _transcript() as said:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = begin(name, command, **streams, stderr=said)
        try:
            process.communicate()
        finally:
            process.kill()  # where this one is interrupted
        if process.returncode:
            said.seek(0)
            raise Failure(name, f"ended with code {process.returncode}", said.read())


def _transcript() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def begin(name: str, command: Sequence[str], **streams: Any) -> subprocess.Popen:
    """The program's process, text its pipes; or its `Failure`, where it cannot be started.

    JAX in it leaves an accelerator's memory that it does not need to the other one.
    """
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    try:
        return subprocess.Popen(list(command), text=True, encoding="utf-8", env=shared, **streams)
    except OSError as error:
        raise Failure(name, "does not start", f"{command[0]}: {error.strerror}") from error


def located(name: str, program: Path) -> Path:
    """Where a program lies: the file of that path, or else what PATH has by that name.

    Raises ValueError where there is none.
    """
    found = shutil.which(program.absolute()) or shutil.which(program)
    if found is None:
        raise ValueError(f"{name} does not start: {program} is no program")
    return Path(found)


def last_words(said: str) -> str:
    """The error that a traceback ends with, or else the last line that is not blank.

    >>> last_words("Traceback (most recent call last):\n  File ...\nOSError: full\nbye\n")
    'OSError: full'
    """
    _, traceback, rest = said.rpartition("Traceback (most recent call last):\n")
    if traceback:  # what follows one may be a library that tells its statistics as it leaves
        return next((line for line in rest.splitlines() if line[:1].strip()), "a traceback")
    return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "none")
