"""What checkpoints a folder holds, whether they are whole, and which of them may go."""

import datetime
import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bahdanau_jax.checkpoints.checkpointer import DAMAGED, Checkpointer
from bahdanau_jax.checkpoints.orbax_errors import Damaged
from bahdanau_jax.checkpoints.preservation import best
from bahdanau_jax.checkpoints.selection import Chosen, Records, candidates

UNCHECKED, GOOD = "unchecked", "good"
PRUNED = "pruned-"  # before the step, in the name of a folder that is being removed


@dataclass(frozen=True)
class Entry:
    """One checkpoint, or what was set aside of one."""

    step: int
    score: float | None  # of the dev pairs; None where there is none
    size: int  # bytes on disk
    saved: datetime.datetime
    state: str  # unchecked, good, or what is wrong
    best: bool  # the highest score
    folder: Path

    @property
    def damaged(self) -> bool:
        return self.state not in (UNCHECKED, GOOD)


def inventory(folder: Path, verify: bool = False) -> list[Entry]:
    """All checkpoints, oldest first, then those set aside as damaged.

    Every one's metadata are checked; `verify` reads all arrays too and compares their digests.
    Raises FileNotFoundError where there is no such folder.
    """
    checkpoints = Checkpointer(folder)
    try:
        scores, faults = checkpoints.survey()
        for step in scores if verify else ():
            try:
                checkpoints.arrays(step)
            except Damaged as error:
                faults[step] = str(error)
    finally:
        checkpoints.close()
    good = {step: score for step, score in scores.items() if step not in faults}
    top = best({step: score for step, score in good.items() if score is not None})
    found = []
    for step in sorted(scores.keys() | faults.keys()):
        state = f"damaged: {faults[step]}" if step in faults else (GOOD if verify else UNCHECKED)
        found.append(_entry(folder / str(step), step, scores.get(step), state, step == top))
    aside = sorted(folder.glob(f"{DAMAGED}*"))
    named = [(path, path.name.removeprefix(DAMAGED)) for path in aside]
    return found + [
        _entry(path, int(step), None, "damaged, set aside", False)
        for path, step in named
        if step.isdigit()
    ]


def better(workdir: Path, entries: Sequence[Entry]) -> Chosen:
    """The best checkpoint of `entries`, and damaged or missing ones that would come before it."""
    own = [entry for entry in entries if not entry.folder.name.startswith(DAMAGED)]
    records = Records.of(workdir)
    found = candidates(
        {entry.step: entry.score for entry in own if not entry.damaged},
        {entry.step: entry.state.removeprefix("damaged: ") for entry in own if entry.damaged},
        records,
        "best",
        1,
    )
    passed = tuple(itertools.takewhile(lambda one: one.fault, found))
    return Chosen("best", tuple(found[len(passed) : len(passed) + 1]), passed)


def _entry(folder: Path, step: int, score: float | None, state: str, top: bool) -> Entry:
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    newest = max((file.st_mtime for file in files), default=folder.stat().st_mtime)
    saved = datetime.datetime.fromtimestamp(newest).replace(microsecond=0)
    return Entry(step, score, sum(file.st_size for file in files), saved, state, top, folder)


def prune(folder: Path, keep: int) -> tuple[list[int], list[Entry]]:
    """Remove all good checkpoints but the newest `keep` and the best; returns (removed, left).

    All are verified first. Damaged ones neither count nor go: whoever wants their space can see
    them in the list. Raises ValueError where `keep` is below 1.
    """
    if keep < 1:
        raise ValueError(f"{keep} checkpoints cannot be kept: keep at least 1")
    for half_gone in folder.glob(f"{PRUNED}*"):
        shutil.rmtree(half_gone, ignore_errors=True)
    entries = inventory(folder, verify=True)
    good = [entry for entry in entries if not entry.damaged]
    removed = [entry for entry in good[:-keep] if not entry.best]
    for entry in removed:
        gone = folder / f"{PRUNED}{entry.step}"
        entry.folder.rename(gone)  # in one move, so that no half of a checkpoint is ever seen
        shutil.rmtree(gone)
    return [entry.step for entry in removed], [e for e in entries if e not in removed]
