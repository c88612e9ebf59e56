"""Chooses a checkpoint, and reports better ones that are damaged or missing.

The scores of checkpoints that cannot be read come from the metrics of their run.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Self

from bahdanau_jax.distributed import is_main_process
from bahdanau_jax.names import choose
from bahdanau_jax.parsing import finite, parse_json
from bahdanau_jax.run_folder import DEV_SCORE, METRICS, is_locked

log = logging.getLogger(__name__)


def best(scores: dict[int, float]) -> int | None:
    """The step with the highest score; the last of several with an equal score."""
    return max(scores, key=lambda step: (scores[step], step), default=None)


# Order -> (scores, step) -> a key. The checkpoint with the largest key is read first.
READING_ORDERS: Mapping[str, Callable[[Mapping[int, float], int], tuple[float, int]]] = (
    MappingProxyType(
        {
            "best": lambda scores, step: (scores.get(step, -math.inf), step),
            "newest": lambda scores, step: (0, step),
        }
    )
)


def ordered(
    steps: Sequence[int], scores: Mapping[int, float], choice: str, count: int
) -> list[int]:
    """The steps in the order of `choice`, of which `count` are to be read.

    A step as the `choice`, such as "750", is the only one. Raises ValueError for an unknown order,
    a step that is not there, or a `count` that does not fit.
    """
    if count < 1:
        raise ValueError(f"{count} checkpoints cannot be averaged: at least 1")
    if choice.isdecimal():
        if int(choice) not in steps:
            raise ValueError(
                f"there is no checkpoint of step {choice}; there are those of "
                f"{', '.join(map(str, sorted(steps))) or 'no step'}"
            )
        if count > 1:
            raise ValueError(f"{count} checkpoints cannot be averaged: step {choice} is one")
        return [int(choice)]
    key = choose(READING_ORDERS, choice, "checkpoint")
    return sorted(steps, key=lambda step: key(scores, step), reverse=True)


@dataclass(frozen=True)
class Records:
    """What the other files of a run folder say about its checkpoints."""

    scores: Mapping[int, float] = field(default_factory=dict)  # step -> dev score
    last: int = -1  # the step of the last line of metrics.jsonl; -1: there is none
    training: bool = False  # whether a process trains in the folder now

    @classmethod
    def of(cls, workdir: Path) -> Self:
        """Read metrics.jsonl and the lock. Lines that cannot be parsed are skipped."""
        training = is_locked(workdir)
        try:
            lines = (workdir / METRICS).read_bytes().splitlines()
        except OSError:
            lines = []
        scores, last = {}, -1
        for line in filter(None, map(_line, lines)):
            last = max(last, line["step"])
            if _is_score(line.get(DEV_SCORE)):
                scores[line["step"]] = line[DEV_SCORE]
        return cls(scores, last, training)


NONE = Records()


def _line(text: bytes) -> dict | None:
    try:
        line = parse_json(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and type(line.get("step")) is int else None


def _is_score(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < math.inf  # pyright: ignore


@dataclass(frozen=True)
class Candidate:
    """A checkpoint that can be chosen, or a damaged or missing one."""

    step: int  # the update after which it was saved
    score: float | None  # of the dev pairs; None: it has none; inf: unknown
    fault: str = ""  # "is missing" or "is damaged: ..."; "": no fault is known

    def complaint(self, choice: str) -> str:
        """Its fault, and the reason why it would have been chosen."""
        if choice == "newest":
            return f"{self.fault}; it is newer"
        if self.score is None:
            return f"{self.fault}; it has no dev score"
        if not math.isfinite(self.score):
            return f"{self.fault}; its dev score is unknown"
        return f"{self.fault}; its dev score was {self.score:.4g}"

    def __str__(self) -> str:
        score = finite(self.score)
        return f"step {self.step}" + ("" if score is None else f" (dev score {score:.4g})")


@dataclass(frozen=True)
class Chosen:
    """The checkpoints that were read, and unreadable ones that precede them in the order."""

    choice: str  # a key of READING_ORDERS, or a step
    used: tuple[Candidate, ...]  # those that were read, in the order of the choice
    passed: tuple[Candidate, ...]  # unreadable ones before the last that was read

    def warnings(self, folder: Path) -> list[str]:
        """A line for each checkpoint that was skipped; `folder` is that of the checkpoints."""
        used = ", and ".join(map(str, self.used))
        instead = f"; used instead: {used}" if used else ""
        return [
            f"checkpoint {folder / str(skipped.step)} {skipped.complaint(self.choice)}{instead}"
            for skipped in self.passed
        ]

    def report(self, folder: Path, faults: Mapping[int, str], records: Records) -> None:
        """Log a warning for each skipped checkpoint, and for the other damaged ones in `faults`."""
        lines = self.warnings(folder)
        for step in sorted(faults.keys() - {skipped.step for skipped in self.passed}):
            complaint = damaged(step, faults[step], records).complaint("best")
            lines.append(f"checkpoint {folder / str(step)} {complaint}")
        for line in lines if is_main_process() else ():
            log.warning("%s", line)

    def to_json(self) -> dict:
        """The `steps` that were read with their dev `scores`, and the skipped ones, `passed`."""
        return {
            "choice": self.choice,
            "steps": [used.step for used in self.used],
            "scores": [finite(used.score) for used in self.used],
            "passed": [
                {"step": skipped.step, "score": finite(skipped.score), "fault": skipped.fault}
                for skipped in self.passed
            ],
        }


def candidates(
    scores: Mapping[int, float | None],
    faults: Mapping[int, str],
    records: Records,
    choice: str,
    count: int,
) -> list[Candidate]:
    """The checkpoints in the order of `choice`. The order `best` includes a missing best one.

    `scores` are those of checkpoints with readable metadata; `faults` are those of the others.
    Raises ValueError as `ordered`.
    """
    by_step = {step: Candidate(step, score) for step, score in scores.items()}
    for step, fault in faults.items():
        by_step[step] = damaged(step, fault, records)
    missing = _missing(scores, faults, records) if choice == "best" else None
    if missing is not None:
        by_step[missing] = Candidate(missing, records.scores[missing], "is missing")
    ranks = {step: each.score for step, each in by_step.items() if each.score is not None}
    return [by_step[step] for step in ordered(list(by_step), ranks, choice, count)]


def damaged(step: int, fault: str, records: Records, score: float | None = None) -> Candidate:
    """A candidate that cannot be read. Where `score` is None, it comes from the `records`."""
    if score is None:
        score = records.scores.get(step, None if records.last >= step else math.inf)
    return Candidate(step, score, f"is damaged: {fault}")


def _missing(
    scores: Mapping[int, float | None], faults: Mapping[int, str], records: Records
) -> int | None:
    """The step with the best dev score if its checkpoint is missing, or else None.

    A running training writes the dev score before the checkpoint, which then does not count as
    missing.
    """
    present = scores.keys() | faults.keys()
    newest = max(present, default=-1)
    every = {
        step: score
        for step, score in records.scores.items()
        if step <= newest or not records.training
    }
    every |= {step: score for step, score in scores.items() if score is not None}
    top = best(every)
    return None if top in present else top
