"""The runs that a command reads: a folder, DIR, or one of its checkpoints, DIR@STEP."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bahdanau_jax import run_folder
from bahdanau_jax.cli import import_from_here

if TYPE_CHECKING:
    from bahdanau_jax.trained import Run


def check_runs(runs: Sequence[Path]) -> None:
    """Raise FileNotFoundError where a folder holds no run; a fast check before JAX is imported."""
    for folder, _ in map(run_folder.split, runs):
        run_folder.check_run(folder)


def load(runs: Sequence[Path], trust_code: bool) -> list["Run"]:
    """Load each DIR or DIR@STEP. Raises as `trained.load`."""
    if trust_code:
        import_from_here()
    from bahdanau_jax import trained

    return [
        trained.load(folder, checkpoint=checkpoint, trust_code=trust_code)
        for folder, checkpoint in map(run_folder.split, runs)
    ]
