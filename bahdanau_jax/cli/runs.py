"""The runs that a command reads: a folder, DIR, or one of its checkpoints, DIR@STEP."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bahdanau_jax import run_folder
from bahdanau_jax.cli import import_from_here

if TYPE_CHECKING:
    from bahdanau_jax.trained import Run

BEST = "best"  # the checkpoint of DIR without @


def check_runs(runs: Sequence[Path], checkpoint: str = BEST) -> None:
    """Raise FileNotFoundError where a folder holds no run; a fast check before JAX is imported.

    Raises ValueError where both `checkpoint`, the option of a command, and DIR@STEP name one.
    """
    for given in runs:
        folder, own = run_folder.split(given)
        run_folder.check_run(folder)
        if BEST not in (own, checkpoint):
            raise ValueError(
                f"{given} and --checkpoint {checkpoint} both name a checkpoint: leave one out"
            )


def load(
    runs: Sequence[Path],
    trust_code: bool,
    checkpoint: str = BEST,
    average: int = 1,
    weights: str = "",
) -> list["Run"]:
    """Load each DIR or DIR@STEP, whose STEP comes before `checkpoint`. Raises as `trained.load`."""
    if trust_code:
        import_from_here()
    from bahdanau_jax import trained

    return [
        trained.load(
            folder,
            checkpoint=checkpoint if own == BEST else own,
            average=average,
            weights=weights,
            trust_code=trust_code,
        )
        for folder, own in map(run_folder.split, runs)
    ]
