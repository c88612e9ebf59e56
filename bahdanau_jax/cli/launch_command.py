"""bahdanau launch --processes N -- train CONFIG --workdir DIR"""

import contextlib
import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any, ClassVar, TextIO

from bahdanau_jax.cli import LOST, PROGRAM, USER_ERROR, leaving, options
from bahdanau_jax.reporting import say

DIES_WITH_PARENT = 1  # Linux's prctl: PR_SET_PDEATHSIG
WELL = (0, 128 + signal.SIGTERM)  # exit codes: finished; stopped and saved
LAST_WORDS = 2.0  # seconds to wait after a failure for other exit codes, which may show its cause
GLOO = b"connected peer ranks"  # part of a line of Gloo, which its threads may split
POLL = 0.05  # seconds
_LIBC = ctypes.CDLL(None)  # loaded before any child is made


@dataclass(frozen=True)
class Launch:
    """Run one training in several processes on this machine, and restart them when one dies.

    The arguments after -- are the command line of each process, `train` with its options.

    When a process dies, all are ended and started again from the last good checkpoint. The first
    Ctrl-C, or SIGTERM, saves the run and ends the command; the same command resumes the run. A
    second Ctrl-C ends all processes at once, without saving.
    """

    processes: int  # the number of processes
    devices_per_process: int = 0  # devices of each process, simulated ones on CPUs; 0: all devices
    restarts: int = 3  # maximum number of restarts
    grace: float = 60.0  # seconds to save and exit after SIGTERM

    BEHIND: ClassVar[str] = "-- train CONFIG --workdir DIR"
    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau launch --processes 2 -- train quickstart --workdir runs/quickstart",
        "bahdanau launch --processes 4 --restarts 0 -- train my.py --workdir runs/four",
    )


def main(arguments: Sequence[str]) -> int:
    """Launch the processes; return 0, or the exit code of the process that failed."""
    own, command = _split(arguments)
    asked_for_help = options.help_asked(Launch, own)[1] is not None
    if not command and not asked_for_help and (rest := _from_first_command(own)):
        before = own[: len(own) - len(rest)] or ["--processes", "N"]
        form = f"bahdanau launch {shlex.join(before)} -- {shlex.join(rest)}"
        raise ValueError(f"-- is missing before {rest[0]}: {form}")
    chosen = options.parse(Launch, own, "bahdanau launch")
    others = chosen.devices_per_process, chosen.restarts, chosen.grace
    if chosen.processes < 1 or not all(number >= 0 for number in others):  # False for NaN
        raise ValueError("--processes should be at least 1, the other numbers at least 0")
    if command[:1] != ["train"]:
        fault = "nothing to launch"
        if command:
            fault = f"only train runs in several processes, not {command[0]}"
        raise ValueError(f"{fault}: bahdanau launch --processes N -- train CONFIG --workdir DIR")
    with _signals() as stop:
        for left in range(chosen.restarts, -1, -1):
            code, cause = Processes(chosen, command).outcome(stop)
            if not cause or stop.received or not left:
                break
            say(
                f"bahdanau: {cause}: starting all {chosen.processes} again "
                f"({left - 1} restarts left)"
            )
    if cause:
        say(f"bahdanau: {cause}")
    return code


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before --, and those after it."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    return list(arguments[:at]), list(arguments[at + 1 :])


def _from_first_command(arguments: Sequence[str]) -> list[str]:
    """The arguments from the first word that is neither an option nor the value of one."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        del rest[: 1 if "=" in rest[0] else 2]
    return rest


class Stop:
    """The signal that asked all processes to end."""

    received = 0  # the signal's number


@contextlib.contextmanager
def _signals() -> Iterator[Stop]:
    """Record the first signal; a later Ctrl-C calls the previous handler."""
    stop = Stop()
    before: dict[int, Any] = {}

    def receive(number: int, frame: FrameType | None) -> None:
        if stop.received and number == signal.SIGINT:
            handler = before[number]
            (handler if callable(handler) else signal.default_int_handler)(number, frame)
        stop.received = stop.received or number

    if threading.current_thread() is threading.main_thread():
        # A signal that the shell ignores, as Ctrl-C of a job in the background, stays ignored.
        numbers = [
            n for n in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(n) is not signal.SIG_IGN
        ]
        before = {n: signal.signal(n, receive) for n in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Processes:
    """All processes of one attempt; `outcome` ends every one of them."""

    def __init__(self, chosen: Launch, command: Sequence[str]):
        self._chosen, self._command = chosen, command
        self._running: list[subprocess.Popen] = []
        self._threads: list[threading.Thread] = []

    def _start(self, number: int, port: int) -> None:
        process = subprocess.Popen(
            [*PROGRAM, *self._command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment(number, port, self._chosen)},
            start_new_session=True,  # a process group, which can be ended with its workers
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        self._running.append(process)
        for source, to, prefix in (
            (process.stdout, sys.stdout, ""),
            (process.stderr, sys.stderr, f"[{number}] "),
        ):
            thread = threading.Thread(target=_copy, args=(source, to, prefix), daemon=True)
            thread.start()
            self._threads.append(thread)

    def outcome(self, stop: Stop) -> tuple[int, str]:
        """Start all processes and wait for their end: (exit code, cause of a restart or "").

        An error that the user can correct causes no restart; the process has reported it.
        """
        with leaving.cleanup(self._end):
            try:
                port = _free_port()
                for number in range(self._chosen.processes):
                    self._start(number, port)
                return self._watched(stop)
            finally:
                self._end()

    def _watched(self, stop: Stop) -> tuple[int, str]:
        stopped_at = 0.0
        while True:
            codes = [process.poll() for process in self._running]
            failed = [code for code in codes if code not in (None, *WELL)]
            if failed or None not in codes:
                break
            if stop.received and not stopped_at:
                stopped_at = time.monotonic()
                self._signal(signal.SIGTERM)
            if stopped_at and time.monotonic() - stopped_at > self._chosen.grace:
                return 128 + stop.received, f"not saved within {self._chosen.grace:g} s"
            time.sleep(POLL)
        return self._verdict() if failed else (max(code or 0 for code in codes), "")

    def _verdict(self) -> tuple[int, str]:
        """(exit code, cause) after a process has failed."""
        stopped = [i for i, process in enumerate(self._running) if _stopped(process)]
        until = time.monotonic() + LAST_WORDS
        while time.monotonic() < until and any(p.poll() is None for p in self._running):
            time.sleep(POLL)
        codes = {i: p.poll() for i, p in enumerate(self._running)}
        failed = {i: code for i, code in codes.items() if code not in (None, *WELL)}
        first = min(failed, key=lambda i: (_rank(failed[i]), i))
        code = failed[first]
        exit_code = code if code > 0 else 128 - code
        if stopped and _rank(code):  # the others failed because it did not answer
            return exit_code, f"process {stopped[0]} was stopped and did not answer"
        if code == USER_ERROR:
            return USER_ERROR, ""
        if code > 0:
            return exit_code, f"process {first} failed with exit code {code}"
        return exit_code, f"process {first} was ended by {signal.Signals(-code).name}"

    def _signal(self, number: int) -> None:
        for process in self._running:
            if process.poll() is None:
                process.send_signal(number)

    def _end(self) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for thread in self._threads:
            thread.join(timeout=LAST_WORDS)


def _stopped(process: subprocess.Popen) -> bool:
    """Whether a process is suspended until it gets SIGCONT."""
    flags = os.WSTOPPED | os.WCONTINUED | os.WNOHANG | os.WNOWAIT
    try:
        state = os.waitid(os.P_PID, process.pid, flags)
    except (AttributeError, ChildProcessError):  # no such call on macOS; a dead process
        return False
    return state is not None and state.si_code == os.CLD_STOPPED


def _rank(code: int) -> int:
    """The rank of an exit code as a cause of failure; 0 is the most likely cause.

    LOST and SIGABRT come last: they are consequences of the loss of another process.
    """
    if code in (LOST, -signal.SIGABRT):
        return 3
    if code < 0:
        return 0
    return 1 if code == USER_ERROR else 2


def environment(number: int, port: int, chosen: Launch) -> dict[str, str]:
    """The environment variables of a process, which distributed/processes.py reads."""
    variables = {
        "BAHDANAU_COORDINATOR": f"127.0.0.1:{port}",
        "BAHDANAU_PROCESSES": str(chosen.processes),
        "BAHDANAU_PROCESS_ID": str(number),
    }
    if count := chosen.devices_per_process:
        gpus = range(number * count, (number + 1) * count)
        variables["JAX_NUM_CPU_DEVICES"] = str(count)
        variables["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, gpus))
    return variables


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _die_with_parent() -> None:
    """In the child process: make the kernel kill it when the launcher dies."""
    _LIBC.prctl(DIES_WITH_PARENT, signal.SIGKILL)


def _copy(source: IO[bytes], to: TextIO | None, prefix: str) -> None:
    """Copy the lines of a process's output, without those of Gloo, which are no results.

    All lines are read even if one cannot be written; otherwise the process would wait.
    """
    with source:
        for line in source:
            if to is not None and GLOO not in line:
                with contextlib.suppress(OSError, ValueError):
                    to.write(prefix + line.decode("utf-8", "replace"))
                    to.flush()
