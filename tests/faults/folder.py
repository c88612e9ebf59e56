"""The contents of a run folder, during the run and at its end."""

import json
from collections.abc import Callable
from pathlib import Path

from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.run_folder import METRICS, RECORD
from bahdanau_jax.training import monitor

Event = Callable[[], bool]


def finished(folder: Path) -> list[int]:
    """Steps of the checkpoints that are complete."""
    return sorted(int(path.name) for path in _checkpoints(folder) if path.name.isdigit())


def lines(folder: Path) -> list[dict]:
    """metrics.jsonl without times."""
    text = (folder / METRICS).read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k not in monitor.TIMES} for x in text]


def starts_of(folder: Path) -> list[int]:
    """The steps at which the run began and was resumed."""
    path = folder / RECORD
    return [entry["step"] for entry in json.loads(path.read_text())] if path.exists() else []


def state(folder: Path) -> dict[str, bytes]:
    """All arrays of the newest checkpoint, verified, bit for bit."""
    checkpoints = Checkpointer(folder / "checkpoints")
    try:
        found = checkpoints.arrays(checkpoints.steps()[-1])
    finally:
        checkpoints.close()
    return {name: array.tobytes() for name, array in found.items()}


class Watched:
    """Events of the next start of a run; files of earlier starts do not count.

    A run that starts puts a new metrics.jsonl into the place of the old one.
    """

    def __init__(self, folder: Path):
        self._folder, self._metrics = folder, folder / METRICS
        self._before = {0, _file(self._metrics), *map(_file, _checkpoints(folder))}

    def reached(self, step: int) -> Event:
        return lambda: bool(self._of(step))

    def evaluating(self, step: int) -> Event:
        """metrics.jsonl has the line of an update, but not yet that of the evaluation after it."""
        return lambda: bool(found := self._of(step)) and '"dev_loss"' not in found

    def saving(self) -> Event:
        """A checkpoint that is not complete."""
        return lambda: any(
            not path.name.isdigit() and _file(path) not in self._before
            for path in _checkpoints(self._folder)
        )

    def _of(self, step: int) -> str:
        """Lines of a step, written since."""
        if _file(self._metrics) in self._before:
            return ""
        text = self._metrics.read_text(errors="replace").splitlines()
        return "".join(line for line in text if line.startswith(f'{{"step": {step},'))


def _checkpoints(folder: Path) -> list[Path]:
    return list((folder / "checkpoints").glob("*"))


def _file(path: Path) -> int:
    """The inode of a file, 0 where there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
