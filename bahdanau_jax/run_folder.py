"""The names of what a run folder holds, and whether a folder holds a run at all."""

from pathlib import Path

CONFIG = "config.json"
CHECKPOINTS = "checkpoints"


def require(folder: Path) -> None:
    """Raise FileNotFoundError where a folder holds no run. Commands ask before they import JAX."""
    if not (folder / CONFIG).exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {CONFIG} in it")
