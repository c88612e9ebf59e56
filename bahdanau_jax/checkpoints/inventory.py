"""Lists the checkpoints of a folder, verifies them, and removes old ones."""

import contextlib
import datetime
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bahdanau_jax.checkpoints import replacement
from bahdanau_jax.checkpoints.checkpointer import DAMAGED, Checkpointer
from bahdanau_jax.checkpoints.orbax_errors import Damaged
from bahdanau_jax.checkpoints.selection import Chosen, Records, best, candidates

UNCHECKED, GOOD = "unchecked", "good"
SET_ASIDE = re.compile(rf"{DAMAGED}(\d+)(-\d+)?")  # the name of a damaged one; its step


@dataclass(frozen=True)
class Entry:
    """One checkpoint, or a damaged one that was set aside."""

    step: int
    score: float | None  # of the dev pairs; None where there is none
    size: int  # bytes on disk
    saved: datetime.datetime
    state: str  # unchecked, good, or the fault
    best: bool  # whether it has the highest score
    folder: Path

    @property
    def damaged(self) -> bool:
        return self.state not in (UNCHECKED, GOOD)


def inventory(folder: Path, verify: bool = False) -> list[Entry]:
    """List all checkpoints, oldest first, then the damaged ones that were set aside.

    The metadata of all are checked. `verify` also reads all arrays and compares their digests.
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
    entries = []
    for step in sorted(scores.keys() | faults.keys()):
        state = f"damaged: {faults[step]}" if step in faults else (GOOD if verify else UNCHECKED)
        with contextlib.suppress(FileNotFoundError):  # a trainer has just removed it
            entries.append(_entry(folder / str(step), step, scores.get(step), state, step == top))
    aside = sorted(folder.glob(f"{DAMAGED}*"))
    named = [(path, SET_ASIDE.fullmatch(path.name)) for path in aside]
    return entries + [
        _entry(path, int(step[1]), None, "damaged, set aside", False)
        for path, step in named
        if step
    ]


def better(workdir: Path, entries: Sequence[Entry]) -> Chosen:
    """Choose the best checkpoint of `entries`, and list better ones that are damaged or missing."""
    own = [entry for entry in entries if not entry.folder.name.startswith(DAMAGED)]
    records = Records.of(workdir)
    ranked = candidates(
        {entry.step: entry.score for entry in own if not entry.damaged},
        {entry.step: entry.state.removeprefix("damaged: ") for entry in own if entry.damaged},
        records,
        "best",
        1,
    )
    passed = tuple(itertools.takewhile(lambda candidate: candidate.fault, ranked))
    return Chosen("best", tuple(ranked[len(passed) : len(passed) + 1]), passed)


def _entry(folder: Path, step: int, score: float | None, state: str, top: bool) -> Entry:
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    newest = max((file.st_mtime for file in files), default=folder.stat().st_mtime)
    saved = datetime.datetime.fromtimestamp(newest).replace(microsecond=0)
    return Entry(step, score, sum(file.st_size for file in files), saved, state, top, folder)


def prune(folder: Path, keep: int) -> tuple[list[int], list[Entry]]:
    """Remove all good checkpoints but the newest `keep` and the best; return (removed, left).

    All are verified first. Damaged ones do not count, and are not removed. Raises ValueError where
    `keep` is below 1.
    """
    if keep < 1:
        raise ValueError(f"{keep} checkpoints cannot be kept: keep at least 1")
    replacement.remove_unfinished(folder)
    entries = inventory(folder, verify=True)
    good = [entry for entry in entries if not entry.damaged]
    removed = [entry for entry in good[:-keep] if not entry.best]
    for entry in removed:
        replacement.remove(entry.folder)
    return [entry.step for entry in removed], [e for e in entries if e not in removed]
