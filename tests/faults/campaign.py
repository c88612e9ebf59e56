"""The fault campaign: python -m tests.faults.campaign [--kills N] [--damages N] [--seed N]

Kills, damaged files, full disks and the rest, against a run that nothing happened to. After each:
no step is lost beyond the last checkpoint, what is restored is what was saved, the final state is
the undisturbed one's bit for bit, and what a user can mend is told without a traceback.
Prints what was done and what came of it; exit code 1 where anything went wrong.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from bahdanau_jax import training
from tests import small
from tests.faults.machine import Machine, Process, mounted

# A line and a checkpoint often enough that every moment of a run has its kill.
SETTINGS = (
    *("--training.steps", "24", "--training.log-every", "1"),
    *("--training.evaluate-every", "8", "--training.checkpoint-every", "3"),
    *("--training.keep-checkpoints", "4"),
    *("--data.dev", "builtin:en-fr/dev?pairs=5&max=6", "--data.test", "", "--data.processes", "1"),
)
STEPS, EVALUATE = 24, 8
# Compiled once for all runs, and quickly: what is tested is not their speed.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
ROUND = 6  # faults in a row before a run may finish


def finished(folder: Path) -> list[int]:
    """Steps of the checkpoints that are complete."""
    found = (folder / "checkpoints").glob("*") if (folder / "checkpoints").is_dir() else ()
    return sorted(int(path.name) for path in found if path.name.isdigit())


def lines(folder: Path) -> list[dict]:
    """metrics.jsonl without times."""
    text = (folder / training.METRICS).read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k not in training.TIMES} for x in text]


def starts_of(folder: Path) -> list[int]:
    """The steps at which the run began and went on."""
    path = folder / training.RECORD
    return [entry["step"] for entry in json.loads(path.read_text())] if path.exists() else []


def reached(folder: Path, step: int) -> Callable[[], bool]:
    path, wanted = folder / training.METRICS, f'{{"step": {step},'
    return lambda: path.exists() and wanted in path.read_text(errors="replace")


def saving(folder: Path) -> Callable[[], bool]:
    return lambda: any(not path.name.isdigit() for path in (folder / "checkpoints").glob("*"))


def evaluating(folder: Path, step: int) -> Callable[[], bool]:
    """The line of an update that an evaluation follows is there, and its own is not."""
    return lambda: reached(folder, step)() and '"dev_loss"' not in _of(folder, step)


def _of(folder: Path, step: int) -> str:
    text = (folder / training.METRICS).read_text(errors="replace").splitlines()
    return "".join(line for line in text if line.startswith(f'{{"step": {step},'))


class Campaign:
    """One folder after the other is disturbed and compared with the undisturbed one."""

    def __init__(self, scratch: Path, seed: int):
        self.scratch, self.rng = scratch, random.Random(seed)
        self.machine = Machine(scratch)
        self.counts: dict[str, int] = collections.Counter()
        self.faults: list[str] = []
        self.undisturbed = scratch / "undisturbed"
        self._names = 0

    def begin(self) -> None:
        code, said = self.machine.run(*self.train(self.undisturbed))
        if code:
            raise RuntimeError(f"the undisturbed run failed: {said}")

    def train(self, folder: Path) -> list[str]:
        return small.train(folder, *SETTINGS)

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
        """A copy of the undisturbed run, cut back to before its end, with several checkpoints."""
        self._names += 1
        folder = self.scratch / f"run-{self._names}"
        shutil.copytree(self.undisturbed, folder)
        shutil.rmtree(folder / "checkpoints" / str(STEPS))
        return folder

    def go_on(self, folder: Path, what: str, expected: int | None = None) -> str:
        """Let the run finish, from the checkpoint `expected`, and compare; returns its stderr."""
        expected = max(finished(folder), default=0) if expected is None else expected
        code, said = self.machine.run(*self.train(folder))
        self.check(code == 0 and "Traceback" not in said, f"{what}: exit {code}: {said}")
        if code == 0:
            started = starts_of(folder)[-1]
            self.check(started >= expected, f"{what}: went on at {started}, not at {expected}")
            self.same(folder, what)
        return said

    def same(self, folder: Path, what: str) -> None:
        ours, theirs = (state(where) for where in (folder, self.undisturbed))
        self.check(ours == theirs, f"{what}: another final state")
        self.check(lines(folder) == lines(self.undisturbed), f"{what}: other metrics")

    # Kills

    def kill(self, folder: Path, how: str) -> bool:
        """One SIGKILL while the run of `folder` does something; False where it had finished."""
        done, starts = max(finished(folder), default=0), starts_of(folder)
        process = self.machine.start(*self.train(folder))
        hit = process.wait(self._moment(folder, how, done))
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

    def _moment(self, folder: Path, how: str, done: int) -> Callable[[], bool]:
        if how == "saving":
            return saving(folder)
        if how == "evaluating":
            return evaluating(folder, min(STEPS, done // EVALUATE * EVALUATE + EVALUATE))
        if how == "starting":
            end = time.monotonic() + self.rng.uniform(0, 1.0)
            return lambda: time.monotonic() > end
        return reached(folder, self.rng.randint(done + 1, min(STEPS, done + 5)))

    def kills(self, wanted: int) -> None:
        ways = ["training", "saving", "evaluating", "training", "saving", "starting"]
        made = 0
        while made < wanted:
            folder = self.fresh()
            for _ in range(min(ROUND, wanted - made)):
                if not self.kill(folder, ways[made % len(ways)]):
                    break
                made += 1
            self.go_on(folder, f"after {made} kills")

    # Damaged files

    def damage(self, how: str) -> None:
        folder = self.trained()
        steps = finished(folder)
        newest = folder / "checkpoints" / str(steps[-1])
        files = sorted(path for path in newest.rglob("*") if path.is_file() and path.stat().st_size)
        path = self.rng.choice(files)
        DAMAGES[how](self.rng, path)
        what = f"{how} {path.relative_to(folder)}"
        verified, said = self.machine.run("checkpoints", "--run", folder, "--verify")
        self.check("Traceback" not in said, f"{what}: {said}")
        said = self.go_on(folder, what, expected=steps[-2])
        named = f"{newest} is damaged" in said
        self.check(named == (verified == 2), f"{what}: verified {verified}, but said {said}")
        self.counts[f"{how}, {'named and passed over' if named else 'without effect'}"] += 1

    def damages(self, wanted: int) -> None:
        for number in range(wanted):
            self.damage(list(DAMAGES)[number % len(DAMAGES)])

    # Disks, signals, and two at once

    def told(self, what: str, code: int, said: str) -> None:
        """What a user can mend: exit code 2 and a line, no traceback."""
        last = said.strip().splitlines()[-1:] or [""]
        fine = code == 2 and last[0].startswith("bahdanau: ") and "Traceback" not in said
        self.check(fine, f"{what}: exit {code}: {said}")
        self.counts[what] += 1

    def full_disk(self) -> None:
        """A disk that is full after the first checkpoints; and one where space was found since."""
        with mounted(self.scratch / f"disk-{self._names}", 0.9) as real:
            folder = self.scratch / f"disk-{self._names}" / "run"
            shutil.copytree(self.fresh(), folder)
            limit = 0 if real else 40_000
            code, said = self.machine.run(*self.train(folder), limit=limit)
            self.told(
                f"disk full ({'small file system' if real else 'limit on files'})", code, said
            )
            rescued = self.scratch / f"rescued-{self._names}"
            shutil.copytree(folder, rescued)
        self.go_on(rescued, "disk full, then not")

    def read_only(self) -> None:
        with mounted(self.scratch / f"disk-{self._names}", 20) as real:
            folder = self.scratch / f"disk-{self._names}" / "run"
            shutil.copytree(self.trained(), folder)
            if real:
                os.system(f"mount -o remount,ro '{folder.parent}'")
            elif os.getuid():
                for path in (*folder.rglob("*"), folder):
                    path.chmod(0o555 if path.is_dir() else 0o444)
            else:
                return  # root may write everywhere
            code, said = self.machine.run(*self.train(folder))
            self.told("read-only folder", code, said)
            rescued = self.scratch / f"rescued-{self._names}"
            shutil.copytree(folder, rescued)
            for path in (rescued, *rescued.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
        self.go_on(rescued, "read-only, then not")

    def terminate(self) -> None:
        folder, at = self.fresh(), self.rng.randint(1, STEPS - 4)
        process = self.machine.start(*self.train(folder))
        process.wait(reached(folder, at))
        process.send(signal.SIGTERM)
        code, said = process.end()
        self.check(code == 0 and "Traceback" not in said, f"SIGTERM: exit {code}: {said}")
        self.check(max(finished(folder), default=0) >= at, "SIGTERM: steps were lost")
        self.counts["SIGTERM"] += 1
        self.go_on(folder, "SIGTERM")

    def stop_and_continue(self) -> None:
        folder = self.fresh()
        process = self.machine.start(*self.train(folder))
        process.wait(reached(folder, self.rng.randint(1, STEPS - 4)))
        process.send(signal.SIGSTOP)
        time.sleep(0.5)
        process.send(signal.SIGCONT)
        code, said = process.end()
        self.check(code == 0 and "Traceback" not in said, f"SIGSTOP: exit {code}: {said}")
        self.counts["SIGSTOP, SIGCONT"] += 1
        self.same(folder, "SIGSTOP")

    def two_trainers(self) -> None:
        folder = self.fresh()
        first: Process = self.machine.start(*self.train(folder))
        first.wait(reached(folder, 1))
        first.send(signal.SIGSTOP)  # so that it holds the folder while the second comes
        code, said = self.machine.run(*self.train(folder))
        self.told("second trainer refused", code, said)
        self.check("is in use by another training run" in said, f"second trainer: {said}")
        first.send(signal.SIGKILL)
        first.end()
        self.go_on(folder, "no stale lock after a kill")


def _truncate(rng: random.Random, path: Path) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def _flip(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


DAMAGES: Mapping[str, Callable[[random.Random, Path], None]] = MappingProxyType(
    {"bit flipped": _flip, "truncated": _truncate, "deleted": lambda rng, path: path.unlink()}
)


def state(folder: Path) -> dict[str, bytes]:
    """All arrays of the newest checkpoint, verified, bit for bit."""
    checkpoints = training.Checkpointer(folder / "checkpoints")
    try:
        found = checkpoints.arrays(checkpoints.steps()[-1])
    finally:
        checkpoints.close()
    return {name: array.tobytes() for name, array in found.items()}


def campaign(scratch: Path, kills: int, damages: int, others: int, seed: int) -> Campaign:
    """All of it; `others` counts each fault that is neither a kill nor a damaged file."""
    made = Campaign(scratch, seed)
    made.begin()
    made.kills(kills)
    made.damages(damages)
    for _ in range(others):
        made.full_disk()
        made.read_only()
        made.terminate()
        made.stop_and_continue()
        made.two_trainers()
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--damages", type=int, default=20)
    parser.add_argument("--others", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", f"{scratch}/cache")
        os.environ.setdefault("XLA_FLAGS", QUICK)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        made = campaign(Path(scratch), asked.kills, asked.damages, asked.others, asked.seed)
    for what, count in sorted(made.counts.items()):
        print(f"{count:>4}  {what}")
    print(f"{len(made.faults):>4}  faults of the program ({time.monotonic() - begun:.0f} s)")
    return 1 if made.faults else 0


if __name__ == "__main__":
    sys.exit(main())
