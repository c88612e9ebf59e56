"""Which checkpoints are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bahdanau_jax.checkpoints.selection import best


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
