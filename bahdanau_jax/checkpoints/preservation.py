"""Which checkpoints are kept, and the order in which they are read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


def best(scores: dict[int, float]) -> int | None:
    """The step with the highest score; the last of several with an equal score."""
    return max(scores, key=lambda step: (scores[step], step), default=None)


# Order -> (scores, step) -> a key. The checkpoint with the largest key is read first.
ORDERS: Mapping[str, Callable[[Mapping[int, float], int], tuple[float, int]]] = MappingProxyType(
    {
        "best": lambda scores, step: (scores.get(step, -math.inf), step),
        "newest": lambda scores, step: (0, step),
    }
)


def ordered(
    steps: Sequence[int], scores: Mapping[int, float], choice: str, count: int
) -> list[int]:
    """The steps in the order of `choice`, of which `count` are to be read.

    Raises ValueError for an unknown order or a `count` below 1.
    """
    if choice not in ORDERS:
        raise ValueError(f"no checkpoint {choice!r}; known: {', '.join(ORDERS)}")
    if count < 1:
        raise ValueError(f"{count} checkpoints cannot be averaged: at least 1")
    return sorted(steps, key=lambda step: ORDERS[choice](scores, step), reverse=True)


@dataclass(frozen=True)
class NewestAndBest:
    """A preservation policy of Orbax: keep the newest `keep` checkpoints and the best one.

    Orbax's own BestN needs its metrics files, and one damaged file makes the folder unreadable.
    """

    keep: int
    scores: dict[int, float]

    def should_preserve(self, checkpoints: Sequence, *, context: Any) -> list[bool]:
        steps = [checkpoint.step for checkpoint in checkpoints]
        present = {step: self.scores[step] for step in steps if step in self.scores}
        kept = {*sorted(steps)[-self.keep :], best(present)}
        return [step in kept for step in steps]
