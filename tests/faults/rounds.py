"""The faults of the campaign: each disturbs a run, lets it finish, and compares the results."""

import collections
import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tests import small
from tests.faults.folder import Event, Watched, finished, lines, starts_of, state
from tests.faults.forked_runs import Machine, Process, children, mounted

# A line and a checkpoint often enough that every moment of a run has its kill.
SETTINGS = (
    *("--training.steps", "24", "--training.log-every", "1"),
    *("--training.evaluate-every", "8", "--training.checkpoint-every", "3"),
    *("--training.keep-checkpoints", "4", "--model.init", "glorot"),
    *("--data.dev", "builtin:en-fr/dev?pairs=5&max=6", "--data.test", "", "--data.processes", "1"),
)
STEPS, EVALUATE = 24, 8
IMPOSSIBLE = ", not possible here"  # the end of the name of a fault that this user cannot cause
KILLED = ("training", "saving", "evaluating", "training", "saving", "starting")


def train(folder: Path) -> list[str]:
    """The command line that begins a run and resumes it."""
    return small.train(folder, *SETTINGS)


def undisturbed(machine: Machine, folder: Path, *before: str) -> Path:
    """An undisturbed run."""
    code, said = machine.run(*before, *train(folder))
    if code:
        raise RuntimeError(f"the undisturbed run failed: {said}")
    return folder


class Round:
    """Folders of one scratch folder are disturbed and compared with an undisturbed one."""

    def __init__(self, machine: Machine, scratch: Path, undisturbed: Path, seed: str):
        self.machine, self.scratch, self.rng = machine, scratch, random.Random(seed)
        self.undisturbed = undisturbed
        self.counts: dict[str, int] = collections.Counter()
        self.faults: list[str] = []
        self._names = 0

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.faults.append(what)
            print(f"FAULT: {what}", flush=True)

    def fresh(self) -> Path:
        """A folder whose data are prepared, as they were for the undisturbed run."""
        self._names += 1
        folder = self.scratch / f"run-{self._names}"
        for part in ("vocabulary", "store"):
            shutil.copytree(self.undisturbed / part, folder / part)
        (folder / "store" / "trained_on").unlink()
        return folder

    def trained(self) -> Path:
        """A copy of the undisturbed run without its last checkpoint, but with several others."""
        self._names += 1
        folder = self.scratch / f"run-{self._names}"
        shutil.copytree(self.undisturbed, folder)
        shutil.rmtree(folder / "checkpoints" / str(STEPS))
        return folder

    def go_on(self, folder: Path, what: str, expected: int | None = None) -> str:
        """Let the run finish, from the checkpoint `expected`, and compare; returns its stderr."""
        expected = max(finished(folder), default=0) if expected is None else expected
        code, said = self.machine.run(*train(folder))
        self.check(code == 0 and "Traceback" not in said, f"{what}: exit {code}: {said}")
        if code == 0:
            started = starts_of(folder)[-1]
            self.check(started >= expected, f"{what}: went on at {started}, not at {expected}")
            self.same(folder, what)
        return said

    def same(self, folder: Path, what: str, other: Path | None = None) -> None:
        other = other or self.undisturbed
        self.check(state(folder) == state(other), f"{what}: another final state")
        self.check(lines(folder) == lines(other), f"{what}: other metrics")

    # Kills

    def kill(self, folder: Path, how: str) -> bool:
        """Kill the run of `folder` at an event; return False where it had finished."""
        done, starts = max(finished(folder), default=0), starts_of(folder)
        moment = self._moment(Watched(folder), how, done)
        process = self.machine.start(*train(folder))
        hit = process.wait(moment)
        time.sleep(self.rng.uniform(0, 0.03))
        process.send(signal.SIGKILL)
        code, said = process.end()
        self.check(not hit or code in (-9, 0), f"killed while {how}: exit {code}: {said}")
        self.check(max(finished(folder), default=0) >= done, f"killed while {how}: a step was lost")
        if len(now := starts_of(folder)) > len(starts):
            self.check(now[-1] >= done, f"killed while {how}: went on at {now[-1]}, not {done}")
        if code == -9:
            self.counts[f"SIGKILL while {how}"] += 1
        return code == -9

    def _moment(self, watched: Watched, how: str, done: int) -> Event:
        if how == "saving":
            return watched.saving()
        if how == "evaluating":
            return watched.evaluating(min(STEPS, done // EVALUATE * EVALUATE + EVALUATE))
        if how == "starting":
            end = time.monotonic() + self.rng.uniform(0, 1.0)
            return lambda: time.monotonic() > end
        return watched.reached(self.rng.randint(done + 1, min(STEPS, done + 5)))

    def kills(self, wanted: int) -> None:
        """Kill the run of a folder at many events; once it has finished, begin a new folder."""
        made = 0
        while made < wanted and not self.faults:
            folder, before = self.fresh(), made
            while made < wanted and self.kill(folder, KILLED[made % len(KILLED)]):
                made += 1
            self.go_on(folder, f"after {made - before} kills")

    # Damaged files

    def damage(self, how: str) -> None:
        folder = self.trained()
        steps = finished(folder)
        newest = folder / "checkpoints" / str(steps[-1])
        files = sorted(path for path in newest.rglob("*") if path.is_file() and path.stat().st_size)
        path = self.rng.choices(files, [file.stat().st_size for file in files])[0]
        DAMAGES[how](self.rng, path)
        what = f"{how} {path.relative_to(folder)}"
        verified, said = self.machine.run("checkpoints", "--run", folder, "--verify")
        self.check("Traceback" not in said, f"{what}: {said}")
        said = self.go_on(folder, what, expected=steps[-2])
        named = f"{newest} is damaged" in said
        self.check(named == (verified == 2), f"{what}: verified {verified}, but said {said}")
        self.counts[f"{how}, {'named and passed over' if named else 'without effect'}"] += 1

    # Disks, signals, and two at once

    def told(self, what: str, code: int, said: str) -> None:
        """An error that a user can correct: exit code 2 and one line, without a traceback."""
        last = said.strip().splitlines()[-1:] or [""]
        fine = code == 2 and last[0].startswith("bahdanau: ") and "Traceback" not in said
        self.check(fine, f"{what}: exit {code}: {said}")
        self.counts[what] += 1

    def full_disk(self) -> None:
        """The disk is full after the first checkpoints; then the user frees some space."""
        with mounted(self.scratch / f"disk-{self._names}", 3) as real:  # of 1.2 MB each
            folder = self.scratch / f"disk-{self._names}" / "run"
            shutil.copytree(self.fresh(), folder)
            limit = 0 if real else 40_000
            code, said = self.machine.run(*train(folder), limit=limit)
            self.told(
                f"disk full ({'small file system' if real else 'limit on files'})", code, said
            )
            if real:
                self.check(bool(finished(folder)), "disk full: no checkpoint was saved before")
            rescued = self.scratch / f"rescued-{self._names}"
            shutil.copytree(folder, rescued)
        self.go_on(rescued, "disk full, then not")

    def filling_disk(self) -> None:
        """Another program fills the disk between two saves; the next write is a line of metrics."""
        disk, what = self.scratch / f"disk-{self._names}", "disk filled between two saves"
        with mounted(disk, 20) as real:
            if not real:
                self.counts[what + IMPOSSIBLE] += 1
                return
            folder = disk / "run"
            shutil.copytree(self.fresh(), folder)
            event = Watched(folder).reached(self.rng.randint(4, STEPS - 4))
            process = self.machine.start(*train(folder))
            process.wait(event)
            process.send(signal.SIGSTOP)
            with contextlib.suppress(OSError), (disk / "another").open("wb", 0) as another:
                while another.write(bytes(4096)):
                    pass
            process.send(signal.SIGCONT)
            self.told(what, *process.end(120))
            rescued = self.scratch / f"rescued-{self._names}"
            shutil.copytree(folder, rescued)
        self.go_on(rescued, "disk filled, then not")

    def read_only(self) -> None:
        what = "read-only folder"
        with mounted(self.scratch / f"disk-{self._names}", 20) as real:
            folder = self.scratch / f"disk-{self._names}" / "run"
            shutil.copytree(self.trained(), folder)
            if real:
                os.system(f"mount -o remount,ro '{folder.parent}'")
            elif os.getuid():
                for path in (*folder.rglob("*"), folder):
                    path.chmod(0o555 if path.is_dir() else 0o444)
            else:  # root may write everywhere
                self.counts[what + IMPOSSIBLE] += 1
                return
            code, said = self.machine.run(*train(folder))
            self.told(what, code, said)
            rescued = self.scratch / f"rescued-{self._names}"
            shutil.copytree(folder, rescued)
            for path in (rescued, *rescued.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
        self.go_on(rescued, "read-only, then not")

    def terminate(self) -> None:
        folder, at = self.fresh(), self.rng.randint(1, STEPS - 4)
        event = Watched(folder).reached(at)
        process = self.machine.start(*train(folder))
        process.wait(event)
        process.send(signal.SIGTERM)
        code, said = process.end()
        self.check(code == 143 and "Traceback" not in said, f"SIGTERM: exit {code}: {said}")
        self.check(max(finished(folder), default=0) >= at, "SIGTERM: steps were lost")
        self.counts["SIGTERM"] += 1
        self.go_on(folder, "SIGTERM")

    def stop_and_continue(self) -> None:
        folder = self.fresh()
        event = Watched(folder).reached(self.rng.randint(1, STEPS - 4))
        process = self.machine.start(*train(folder))
        process.wait(event)
        process.send(signal.SIGSTOP)
        time.sleep(0.5)
        process.send(signal.SIGCONT)
        code, said = process.end()
        self.check(code == 0 and "Traceback" not in said, f"SIGSTOP: exit {code}: {said}")
        self.counts["SIGSTOP, SIGCONT"] += 1
        self.same(folder, "SIGSTOP")

    def two_trainers(self) -> None:
        folder = self.fresh()
        event = Watched(folder).reached(1)
        first: Process = self.machine.start(*train(folder))
        first.wait(event)
        first.send(signal.SIGSTOP)  # so that it holds the folder while the second comes
        code, said = self.machine.run(*train(folder))
        self.told("second trainer refused", code, said)
        self.check("is in use by another training run" in said, f"second trainer: {said}")
        first.send(signal.SIGKILL)
        first.end()
        self.go_on(folder, "no stale lock after a kill")

    # One of two processes

    def stop_peers(self, wanted: int) -> None:
        """Each of two processes in turn is suspended, continued, and suspended for good."""
        launch = ("launch", "--processes", "2", "--devices-per-process", "1", "--")
        pair = undisturbed(self.machine, self.fresh(), *launch) if wanted else None
        for victim in range(wanted):
            folder = self.fresh()
            watched, at = Watched(folder), self.rng.randint(2, EVALUATE)
            process = self.machine.start(*launch, *train(folder))
            process.wait(watched.reached(at))
            stopped = children(process)[victim % 2]
            os.kill(stopped, signal.SIGSTOP)
            time.sleep(1.0)
            os.kill(stopped, signal.SIGCONT)
            process.wait(watched.reached(at + 4))
            os.kill(stopped, signal.SIGSTOP)
            time.sleep(0.3)  # what was being saved
            done = finished(folder)[-1]
            code, said = process.end(300)
            what = f"SIGSTOP of process {victim % 2} of 2"
            self.check(code == 0 and "Traceback" not in said, f"{what}: exit {code}: {said}")
            told = f"process {victim % 2} was stopped and did not answer: starting all 2 again"
            self.check(told in said, f"{what}: not told: {said}")
            self.check(starts_of(folder)[-1] >= done, f"{what}: steps were lost")
            self.same(folder, what, pair)
            self.counts[f"{what}, SIGCONT"] += 1
            self.counts[f"{what} for good"] += 1


def _truncate(rng: random.Random, path: Path) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def _flip(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


DAMAGES: Mapping[str, Callable[[random.Random, Path], None]] = MappingProxyType(
    {"bit flipped": _flip, "truncated": _truncate, "deleted": lambda rng, path: path.unlink()}
)
