"""What checkpoints a folder holds, whether they are whole, and which of them may go."""

import datetime
import shutil
from dataclasses import dataclass
from pathlib import Path

from bahdanau_jax.training.checkpoint import DAMAGED, Checkpointer
from bahdanau_jax.training.damage import Damaged
from bahdanau_jax.training.preservation import best

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
        states = {step: _state(checkpoints, step, verify) for step in checkpoints.steps()}
        scores = checkpoints.scores()
    finally:
        checkpoints.close()
    top = best({step: score for step, score in scores.items() if states[step] in (UNCHECKED, GOOD)})
    found = [
        _entry(folder / str(step), step, scores.get(step), state, step == top)
        for step, state in sorted(states.items())
    ]
    aside = sorted(folder.glob(f"{DAMAGED}*"))
    named = [(path, path.name.removeprefix(DAMAGED)) for path in aside]
    return found + [
        _entry(path, int(step), None, "damaged, set aside", False)
        for path, step in named
        if step.isdigit()
    ]


def _state(checkpoints: Checkpointer, step: int, verify: bool) -> str:
    try:
        checkpoints.progress(step)
        if verify:
            checkpoints.arrays(step)
    except Damaged as error:
        return f"damaged: {error}"
    return GOOD if verify else UNCHECKED


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
