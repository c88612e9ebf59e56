"""Which checkpoint is used, and which better ones are damaged or missing.

The score of a checkpoint that cannot be read is looked up in the other records of its run.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bahdanau_jax.checkpoints.preservation import best, ordered
from bahdanau_jax.distributed import is_main_process
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.run_folder import METRICS, is_locked

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Records:
    """What a run folder says of its checkpoints outside of them."""

    scores: Mapping[int, float] = field(default_factory=dict)  # step -> dev score
    last: int = -1  # step of the last line of metrics.jsonl; -1: there is none
    training: bool = False  # a process trains there now

    @classmethod
    def of(cls, workdir: Path) -> Self:
        """From metrics.jsonl and the lock. Lines that cannot be read are left out."""
        training = is_locked(workdir)
        try:
            lines = (workdir / METRICS).read_bytes().splitlines()
        except OSError:
            lines = []
        scores, last = {}, -1
        for line in filter(None, map(_line, lines)):
            last = max(last, line["step"])
            if _is_score(line.get("dev_score")):
                scores[line["step"]] = line["dev_score"]
        return cls(scores, last, training)


NONE = Records()


def _line(text: bytes) -> dict | None:
    try:
        line = parse_json(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and type(line.get("step")) is int else None


def _is_score(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # pyright: ignore


@dataclass(frozen=True)
class Candidate:
    """A checkpoint that may be chosen, or could have been."""

    step: int
    score: float | None  # of the dev pairs; None: it has none; inf: nobody knows it
    fault: str = ""  # "is missing" or "is damaged: ..."; "": nothing is known to be wrong

    def told(self, choice: str) -> str:
        """What is wrong with it, and what speaks for it."""
        if choice == "newest" or self.score is None:
            return f"{self.fault}; it is newer"
        if not math.isfinite(self.score):
            return f"{self.fault}; its dev score is not known"
        return f"{self.fault}; its dev score was {self.score:.4g}"

    def __str__(self) -> str:
        score = finite(self.score)
        return f"step {self.step}" + ("" if score is None else f" (dev score {score:.4g})")


def finite(score: float | None) -> float | None:
    return score if score is not None and math.isfinite(score) else None


@dataclass(frozen=True)
class Chosen:
    """The checkpoints that were read, and those before them in the order that cannot be read."""

    choice: str  # an order of ORDERS
    used: tuple[Candidate, ...]
    passed: tuple[Candidate, ...]

    def warnings(self, folder: Path) -> list[str]:
        """A line for each that was passed over; `folder` holds the checkpoints."""
        used = ", and ".join(map(str, self.used))
        instead = f"; used instead: {used}" if used else ""
        return [
            f"checkpoint {folder / str(one.step)} {one.told(self.choice)}{instead}"
            for one in self.passed
        ]

    def report(self, folder: Path, faults: Mapping[int, str], records: Records) -> None:
        """Log a warning for each that was passed over, and for other damaged ones: `faults`."""
        lines = self.warnings(folder)
        for step in sorted(faults.keys() - {one.step for one in self.passed}):
            told = damaged(step, faults[step], records).told("best")
            lines.append(f"checkpoint {folder / str(step)} {told}")
        for line in lines if is_main_process() else ():
            log.warning("%s", line)

    def to_json(self) -> dict:
        """The `steps` that were read with their dev `scores`, and what was passed over."""
        return {
            "choice": self.choice,
            "steps": [one.step for one in self.used],
            "scores": [finite(one.score) for one in self.used],
            "passed": [
                {"step": one.step, "score": finite(one.score), "fault": one.fault}
                for one in self.passed
            ],
        }


def candidates(
    scores: Mapping[int, float | None],
    faults: Mapping[int, str],
    records: Records,
    choice: str,
    count: int,
) -> list[Candidate]:
    """The checkpoints in the order of `choice`; the best one also where it is missing.

    `scores` are those of the checkpoints whose metadata can be read, `faults` say what is wrong
    with the others. Raises ValueError as `ordered`.
    """
    found = {step: Candidate(step, score) for step, score in scores.items()}
    for step, fault in faults.items():
        found[step] = damaged(step, fault, records)
    lost = _missing(scores, faults, records) if choice == "best" else None
    if lost is not None:
        found[lost] = Candidate(lost, records.scores[lost], "is missing")
    known = {step: one.score for step, one in found.items() if one.score is not None}
    return [found[step] for step in ordered(list(found), known, choice, count)]


def damaged(step: int, fault: str, records: Records, score: float | None = None) -> Candidate:
    """One that cannot be read. Where its own score cannot either, `records` say what it was."""
    if score is None:
        score = records.scores.get(step, None if records.last >= step else math.inf)
    return Candidate(step, score, f"is damaged: {fault}")


def _missing(
    scores: Mapping[int, float | None], faults: Mapping[int, str], records: Records
) -> int | None:
    """The best step of the run where it has no checkpoint; of others it need not have one.

    A run that trains writes a dev score before the checkpoint, which is then not missing.
    """
    present = scores.keys() | faults.keys()
    newest = max(present, default=-1)
    known = {
        step: score
        for step, score in records.scores.items()
        if step <= newest or not records.training
    }
    known |= {step: score for step, score in scores.items() if score is not None}
    top = best(known)
    return None if top in present else top
