"""Training runs as processes that start fast, because all modules are imported once.

A server process imports the program; each run is a fork of it. So a run begins in a tenth of a
second instead of several, and a kill falls into training more often than into imports.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PRELOADED = ["bahdanau_jax.run", "bahdanau_jax.cli.main", "bahdanau_jax.cli.train_command"]


def server():
    """A context whose processes have imported the program, and share no state."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _main(arguments: list[str], out: str, error: str, limit: int) -> None:
    """The command line, in a process whose streams go into files."""
    for number, path in ((1, out), (2, error)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    if limit:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    from bahdanau_jax.cli.main import main

    sys.argv = ["bahdanau", *arguments]
    sys.exit(main())


def children(process: "Process") -> list[int]:
    """Process ids, in the order in which they were started."""
    task = Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children")
    return [int(pid) for pid in task.read_text().split()]


@dataclass
class Process:
    """A running command line."""

    process: multiprocessing.process.BaseProcess
    error: Path  # what it says on stderr

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def send(self, number: int) -> None:
        if self.process.pid and self.alive:
            os.kill(self.process.pid, number)

    def end(self, seconds: float = 600) -> tuple[int, str]:
        """Wait for the end; return (exit code, stderr), where -9 is SIGKILL."""
        self.process.join(seconds)
        if self.alive:
            self.process.kill()
            self.process.join()
            raise TimeoutError(f"it did not end in {seconds} s: {self.error.read_text()}")
        return self.process.exitcode or 0, self.error.read_text(errors="replace")

    def wait(self, event: Callable[[], bool], seconds: float = 600) -> bool:
        """Wait until `event()` is true; return False where the process ended before."""
        deadline = time.monotonic() + seconds
        while not event():
            if not self.alive:
                return False
            if time.monotonic() > deadline:
                raise TimeoutError(self.error.read_text())
            time.sleep(0.003)
        return True


class Machine:
    """Starts command lines; `scratch` takes what they print."""

    def __init__(self, scratch: Path):
        self._context, self._scratch, self._count = server(), scratch, 0

    def start(self, *arguments, limit: int = 0) -> Process:
        """`limit`: bytes that a file may have, as on a disk that is full."""
        self._count += 1
        out, error = (self._scratch / f"{self._count}.{kind}" for kind in ("out", "err"))
        error.touch()
        words = [str(argument) for argument in arguments]
        process = self._context.Process(target=_main, args=(words, str(out), str(error), limit))
        process.start()
        return Process(process, error)

    def run(self, *arguments, limit: int = 0) -> tuple[int, str]:
        return self.start(*arguments, limit=limit).end()


@contextlib.contextmanager
def mounted(folder: Path, megabytes: float) -> Iterator[bool]:
    """Mount a file system of this size in memory; return False where this user may not."""
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={int(megabytes * 1024)}k"
    if os.system(f"mount -t tmpfs -o {size} tmpfs '{folder}' 2>/dev/null"):
        yield False
        return
    try:
        yield True
    finally:
        os.system(f"umount -l '{folder}'")
