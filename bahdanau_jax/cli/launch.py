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

from bahdanau_jax.cli import LOST, MENDABLE, leaving, options
from bahdanau_jax.reporting import say

DIES_WITH_PARENT = 1  # Linux's prctl: PR_SET_PDEATHSIG
WELL = (0, 128 + signal.SIGTERM)  # done; stopped and saved
LAST_WORDS = 2.0  # seconds for the others to die of the same cause, so that the cause is known
GLOO = b"connected peer ranks"  # in what Gloo says; its threads may cut its lines short
POLL = 0.05  # seconds
PROGRAM = (sys.executable, "-m", "bahdanau_jax.cli.main")
_LIBC = ctypes.CDLL(None)  # loaded before any child is made


@dataclass(frozen=True)
class Launch:
    """Run one training in several processes on this machine, and again when one of them dies.

    After -- stands the command line of each, as `bahdanau` takes it.

    When a process dies, all are ended and started again, from the last good checkpoint. The first
    Ctrl-C, or SIGTERM, saves the run and leaves; the same command goes on with it. A second Ctrl-C
    ends all processes at once, without saving.
    """

    processes: int  # how many
    devices_per_process: int = 0  # devices of each, CPU cores standing in for them; 0: all it finds
    restarts: int = 3  # how often all may be started again
    grace: float = 60.0  # seconds that processes have to save and leave after SIGTERM

    BEHIND: ClassVar[str] = "-- train CONFIG --workdir DIR"
    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau launch --processes 2 -- train quickstart --workdir runs/quickstart",
        "bahdanau launch --processes 4 --restarts 0 -- train my.py --workdir runs/four",
    )


def main(arguments: Sequence[str]) -> int:
    """The exit code of the processes: 0, or that of the one which failed."""
    mine, command = _parted(arguments)
    asked_for_help = options.help_asked(Launch, mine)[1] is not None
    if not command and not asked_for_help and (rest := _unmarked(mine)):
        before = mine[: len(mine) - len(rest)] or ["--processes", "N"]
        form = f"bahdanau launch {shlex.join(before)} -- {shlex.join(rest)}"
        raise ValueError(f"-- is missing before {rest[0]}: {form}")
    chosen = options.parse(Launch, mine, "bahdanau launch")
    others = chosen.devices_per_process, chosen.restarts, chosen.grace
    if chosen.processes < 1 or not all(number >= 0 for number in others):  # nor is NaN
        raise ValueError("--processes should be at least 1, the other numbers at least 0")
    if not command:
        raise ValueError(
            "nothing to launch: bahdanau launch --processes N -- train CONFIG --workdir DIR"
        )
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


def _parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before --, and what after it."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    return list(arguments[:at]), list(arguments[at + 1 :])


def _unmarked(arguments: Sequence[str]) -> list[str]:
    """From the first word that is no option of `launch`, nor the value of one."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        del rest[: 1 if "=" in rest[0] else 2]
    return rest


class Stop:
    """Whether a signal asked the whole to end."""

    received = 0  # the signal's number


@contextlib.contextmanager
def _signals() -> Iterator[Stop]:
    """The first signal is noted; a Ctrl-C after it goes to the handler that was there before."""
    stop = Stop()
    before: dict[int, Any] = {}

    def receive(number: int, frame: FrameType | None) -> None:
        if stop.received and number == signal.SIGINT:
            handler = before[number]
            (handler if callable(handler) else signal.default_int_handler)(number, frame)
        stop.received = stop.received or number

    if threading.current_thread() is threading.main_thread():
        before = {n: signal.signal(n, receive) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Processes:
    """All processes of one attempt. None of them outlives `outcome`."""

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
            start_new_session=True,  # a group of its own: it and its workers can be ended together
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
        """Start all; (exit code, what went wrong or ""), once no process is left.

        Where the fault is the user's to mend, it has been said by the process, and is no cause to
        start again.
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
        told = 0.0
        while True:
            codes = [process.poll() for process in self._running]
            failed = [code for code in codes if code not in (None, *WELL)]
            if failed or None not in codes:
                break
            if stop.received and not told:
                told = time.monotonic()
                self._signal(signal.SIGTERM)
            if told and time.monotonic() - told > self._chosen.grace:
                return 128 + stop.received, f"not saved within {self._chosen.grace:g} s"
            time.sleep(POLL)
        return self._verdict() if failed else (max(code or 0 for code in codes), "")

    def _verdict(self) -> tuple[int, str]:
        """Once one has failed."""
        stopped = [i for i, process in enumerate(self._running) if _stopped(process)]
        until = time.monotonic() + LAST_WORDS
        while time.monotonic() < until and any(p.poll() is None for p in self._running):
            time.sleep(POLL)
        codes = {i: p.poll() for i, p in enumerate(self._running)}
        failed = {i: code for i, code in codes.items() if code not in (None, *WELL)}
        first = min(failed, key=lambda i: (_rank(failed[i]), i))
        code = failed[first]
        left = code if code > 0 else 128 - code
        if stopped and _rank(code):  # of whose silence the others died
            return left, f"process {stopped[0]} was stopped and did not answer"
        if code == MENDABLE:
            return MENDABLE, ""
        if code > 0:
            return left, f"process {first} failed with exit code {code}"
        return left, f"process {first} was ended by {signal.Signals(-code).name}"

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
    """Whether it is alive, and rests until somebody sends it SIGCONT."""
    look = os.WSTOPPED | os.WCONTINUED | os.WNOHANG | os.WNOWAIT
    try:
        found = os.waitid(os.P_PID, process.pid, look)
    except (AttributeError, ChildProcessError):  # macOS cannot tell; and who is dead does not rest
        return False
    return found is not None and found.si_code == os.CLD_STOPPED


def _rank(code: int) -> int:
    """Which exit codes rather are causes than consequences: JAX aborts where a peer is gone, or
    fails, by which this program leaves as one that lost another.
    """
    if code in (LOST, -signal.SIGABRT):
        return 3
    if code < 0:
        return 0
    return 1 if code == MENDABLE else 2


def environment(number: int, port: int, chosen: Launch) -> dict[str, str]:
    """What a process needs to know of itself: see distributed/processes.py."""
    told = {
        "BAHDANAU_COORDINATOR": f"127.0.0.1:{port}",
        "BAHDANAU_PROCESSES": str(chosen.processes),
        "BAHDANAU_PROCESS_ID": str(number),
    }
    if each := chosen.devices_per_process:
        mine = range(number * each, (number + 1) * each)
        told["JAX_NUM_CPU_DEVICES"] = str(each)
        told["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, mine))  # of the machine's GPUs
    return told


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _die_with_parent() -> None:
    """In the child: a launcher that is killed leaves nothing behind."""
    _LIBC.prctl(DIES_WITH_PARENT, signal.SIGKILL)


def _copy(source: IO[bytes], to: TextIO | None, prefix: str) -> None:
    """Lines of a process's output. Its stdout, which only the first one writes to, needs no prefix;
    what Gloo, the carrier of messages between CPUs, prints there is no result.

    Where a line cannot be written, the rest is read all the same: the process would wait for it.
    """
    with source:
        for line in source:
            if to is not None and GLOO not in line:
                with contextlib.suppress(OSError, ValueError):
                    to.write(prefix + line.decode("utf-8", "replace"))
                    to.flush()
