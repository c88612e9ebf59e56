"""The fault campaign: python -m tests.faults.campaign [--kills N] [--damages N] [--seed N]

It kills runs, damages their files and fills their disks, and compares them with an undisturbed run.
After each fault: only updates since the last checkpoint are lost, the restored state is the saved
one, the final state equals the undisturbed one bit for bit, and errors of the user are reported
without a traceback. It prints the faults and their outcomes; exit code 1 where any went wrong.
"""

import argparse
import collections
import functools
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from tests import quick
from tests.faults.forked_runs import Machine
from tests.faults.rounds import DAMAGES, KILLED, Round, undisturbed

# Neither a kill nor a damaged file.
OTHERS = (
    *("two_trainers", "full_disk", "filling_disk", "read_only"),
    *("terminate", "stop_and_continue"),
)
LANES = 2  # rounds at a time: a small run keeps one core busy


class Result(NamedTuple):
    """The faults that were caused, their numbers, and their failures."""

    counts: dict[str, int]
    faults: list[str]


def rounds(kills: int, damages: int, others: int) -> Iterator[tuple[str, tuple]]:
    """(a method of Round, its arguments), the longest first; `others` counts each fault that is
    neither a kill nor a damaged file."""
    yield "stop_peers", (others,)
    for made in range(0, kills, len(KILLED)):
        yield "kills", (min(len(KILLED), kills - made),)
    for _ in range(others):
        for what in OTHERS:
            yield what, ()
    for number in range(damages):
        yield "damage", (list(DAMAGES)[number % len(DAMAGES)],)


@functools.cache
def _machine(scratch: Path) -> Machine:
    """The machine that all rounds of a process share."""
    folder = scratch / f"machine-{os.getpid()}"
    folder.mkdir()
    return Machine(folder)


def _undisturbed(scratch: Path) -> Path:
    return undisturbed(_machine(scratch), scratch / "undisturbed")


def _made(scratch: Path, reference: Path, number: int, seed: int, what: str, given: tuple):
    folder = scratch / f"round-{number}"
    folder.mkdir()
    made = Round(_machine(scratch), folder, reference, f"{seed}-{number}")
    try:
        getattr(made, what)(*given)
    except Exception:
        made.faults.append(f"{what}{given}: {traceback.format_exc()}")
    return Result(dict(made.counts), made.faults)


def campaign(scratch: Path, kills: int, damages: int, others: int, seed: int) -> Result:
    """Run the whole campaign."""
    counts, faults = collections.Counter(), []
    with ProcessPoolExecutor(LANES, multiprocessing.get_context("spawn")) as pool:
        reference = pool.submit(_undisturbed, scratch).result()
        begun = [
            pool.submit(_made, scratch, reference, number, seed, *chosen)
            for number, chosen in enumerate(rounds(kills, damages, others))
        ]
        for done in as_completed(begun):
            counts.update(done.result().counts)
            faults += done.result().faults
            for fault in done.result().faults:
                print(f"FAULT: {fault}", flush=True)
    return Result(dict(counts), faults)


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
        os.environ.setdefault("XLA_FLAGS", quick.XLA_FLAGS)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        made = campaign(Path(scratch), asked.kills, asked.damages, asked.others, asked.seed)
    for what, count in sorted(made.counts.items()):
        print(f"{count:>4}  {what}")
    print(f"{len(made.faults):>4}  faults of the program ({time.monotonic() - begun:.0f} s)")
    return 1 if made.faults else 0


if __name__ == "__main__":
    sys.exit(main())
