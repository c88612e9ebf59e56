"""Which checkpoints stay."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


def best(scores: dict[int, float]) -> int | None:
    """The step with the highest score; of equal ones the last, which has learned for longer."""
    return max(scores, key=lambda step: (scores[step], step), default=None)


@dataclass(frozen=True)
class NewestAndBest:
    """Orbax's protocol of a preservation policy: the newest `keep`, and the best.

    Orbax's own BestN needs its metrics files, and one damaged metrics file shuts the whole folder.
    """

    keep: int
    scores: dict[int, float]

    def should_preserve(self, checkpoints: Sequence, *, context: Any) -> list[bool]:
        steps = [checkpoint.step for checkpoint in checkpoints]
        present = {step: self.scores[step] for step in steps if step in self.scores}
        kept = {*sorted(steps)[-self.keep :], best(present)}
        return [step in kept for step in steps]
