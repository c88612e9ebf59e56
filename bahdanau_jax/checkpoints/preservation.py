"""Which checkpoints are kept. Orbax keeps all: it would show readers half of one it removes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bahdanau_jax.checkpoints import replacement
from bahdanau_jax.checkpoints.selection import best


def remove_old(
    folder: Path, steps: Sequence[int], newest: int, scores: Mapping[int, float]
) -> list[int]:
    """Remove checkpoints but the `newest` last ones and the one with the best score, if any.

    Returns the steps of those that are removed. A process that is killed may leave more.
    """
    kept = {*sorted(steps)[-newest:], best({n: scores[n] for n in steps if n in scores})}
    old = [step for step in steps if step not in kept]
    for step in old:
        replacement.remove(folder / str(step))
    return old
