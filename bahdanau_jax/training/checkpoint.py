"""Checkpoints: the newest few and the best, and the newest good one back, whatever died or broke.

Beside every checkpoint stand the name, type, shape and SHA-256 of each of its arrays: Orbax itself
restores a flipped bit without a word, and casts a wrong type in silence.
"""

import logging
import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from orbax.checkpoint import v1 as orbax

from bahdanau_jax.training.damage import Damaged, hush, quiet, reading
from bahdanau_jax.training.digest import (
    abstract,
    difference,
    digests,
    flatten,
    seal,
    signature,
    unflatten,
)

log = logging.getLogger(__name__)

State = TypeVar("State")
ITEM = "state"  # the one item of an Orbax checkpoint: a flat dict, name -> array


def _best(scores: dict[int, float]) -> int | None:
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
        kept = {*sorted(steps)[-self.keep :], _best(present)}
        return [step in kept for step in steps]


class Checkpointer:
    """The checkpoints of one run folder: `keep` newest ones, and beside them the best by score.

    With keep=None the folder is read and never changed, so a run may be read while it trains.

    >>> checkpoints = Checkpointer(workdir / "checkpoints", keep=2)
    >>> state = checkpoints.restore(state) or state
    """

    def __init__(self, folder: Path, keep: int | None = None):
        self.folder, self._keep, self._pending = Path(folder).absolute(), keep, None
        if keep is None and not self.folder.is_dir():
            raise FileNotFoundError(f"{folder} holds no checkpoints: train a model there first")
        self._scores: dict[int, float] = {}
        options = orbax.Context()
        options.pytree.loading.partial_load = True
        policy: Any = NewestAndBest(keep or 1, self._scores)
        hush()
        with self._disk():
            if keep is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
            self._orbax = orbax.training.Checkpointer(
                str(self.folder),
                context=options,
                cleanup_tmp_directories=keep is not None,
                preservation_policy=policy,
            )
        self._read_scores()

    def _read_scores(self) -> None:
        self._scores.clear()
        for step in self.steps():
            with suppress(Damaged):
                if (score := self._note(step)["score"]) is not None:
                    self._scores[step] = score

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Whatever goes wrong while writing is told in one line."""
        try:
            with quiet():
                yield
        except (OSError, ValueError, RuntimeError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise OSError(
                f"cannot keep checkpoints in {self.folder}: {reason}; "
                "free some space or choose another folder"
            ) from error

    def save(
        self, step: int, state: Any, score: float | None = None, progress: dict | None = None
    ) -> None:
        """Start to save; returns as soon as `state` may be donated to the next step.

        A checkpoint of the same step is replaced. A score of None, NaN or infinity is
        never the best. `progress` is any JSON that the training loop needs to go on.
        Raises OSError where this save, or the one before it, cannot be written.
        """
        flat = flatten(state)
        note = {
            "leaves": {name: signature(leaf) for name, leaf in flat.items()},
            "digests": digests(flat),
            "score": score if score is not None and math.isfinite(score) else None,
            "progress": progress or {},
        }
        self.wait()
        self._scores.pop(step, None)
        if note["score"] is not None:
            self._scores[step] = note["score"]
        with self._disk():
            self._pending = self._orbax.save_checkpointables_async(
                step,
                {ITEM: flat},
                force=True,
                overwrite=step in self.steps(),
                custom_metadata={"note": note, "seal": seal(note)},
            )

    def _finish(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
        self._orbax.wait()

    def wait(self) -> None:
        """Until the last save is on disk. Raises OSError where it could not be written."""
        with self._disk():
            self._finish()

    def close(self) -> None:
        """Likewise, and for good."""
        with self._disk():
            try:
                self._finish()
            finally:
                self._orbax.close()

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, oldest first."""
        return [checkpoint.step for checkpoint in self._orbax.checkpoints]

    def scores(self) -> dict[int, float]:
        """Step -> score, where one was given."""
        present = self.steps()
        return {step: score for step, score in self._scores.items() if step in present}

    def progress(self, step: int) -> dict:
        """What was saved with that step's state; {} for a step without a checkpoint."""
        return self._note(step)["progress"] if step in self.steps() else {}

    def restore(self, template: State) -> State | None:
        """The newest checkpoint that is whole, or None where there is none at all.

        `template` gives names, shapes, types and devices. One that is a dict may name a part of
        the state, {"params": params}, and only that part is read. Damaged checkpoints are passed
        with a warning, and a training run sets them aside as damaged-STEP.
        Raises ValueError where the checkpoint is of another model, OSError where all are damaged.
        """
        return self._first_good(self._newest_first(), template)

    def restore_best(self, template: State) -> State | None:
        """Likewise, the one with the highest score; then the next best, then the newest."""
        return self._first_good(self._best_first(), template)

    def _newest_first(self) -> list[int]:
        return list(reversed(self.steps()))

    def _best_first(self) -> list[int]:
        scores = self.scores()
        ranked = sorted(scores, key=lambda step: (scores[step], step), reverse=True)
        return ranked + [step for step in self._newest_first() if step not in scores]

    def restore_several(self, template: State, choice: str, count: int) -> list[State]:
        """The first `count` whole checkpoints by `choice`, `best` or `newest`; [] if there is none.

        Raises ValueError for another choice, or where there are fewer.
        """
        orders = {"best": self._best_first, "newest": self._newest_first}
        if choice not in orders:
            raise ValueError(f"no checkpoint {choice!r}; known: {', '.join(orders)}")
        if count < 1:
            raise ValueError(f"{count} checkpoints cannot be averaged: at least 1")
        found = self._whole(orders[choice](), template, count)
        if 0 < len(found) < count:
            raise ValueError(
                f"{self.folder} holds {len(found)} checkpoints, not {count}: ask for fewer, or "
                f"train with training.keep_checkpoints {count}"
            )
        return found

    def _first_good(self, steps: Sequence[int], template: State) -> State | None:
        return next(iter(self._whole(steps, template, 1)), None)

    def _whole(self, steps: Sequence[int], template: State, count: int) -> list[State]:
        """The first `count` of these that are whole."""
        damaged, found = [], []
        for step in steps:
            if len(found) == count:
                break
            try:
                found.append(self._load(step, template))
            except Damaged as error:
                log.warning("checkpoint %s is damaged: %s", self.folder / str(step), error)
                damaged.append(step)
        if damaged and not found:
            raise OSError(
                f"every checkpoint in {self.folder} is damaged: restore the folder from a copy, "
                "or remove it to start again"
            )
        self._set_aside(damaged)
        return found

    def _set_aside(self, steps: list[int]) -> None:
        """Out of the way of the saves to come, but not lost."""
        if self._keep is None or not steps:
            return
        with self._disk():
            for step in steps:
                aside = self.folder / f"damaged-{step}"
                shutil.rmtree(aside, ignore_errors=True)
                (self.folder / str(step)).rename(aside)
            self._orbax.reload()
        self._read_scores()

    def _note(self, step: int) -> dict:
        def read() -> tuple[dict, str]:
            metadata: Any = self._orbax.checkpointables_metadata(step).custom_metadata
            return metadata["note"], metadata["seal"]

        note, sealed = reading("its metadata", read)
        if seal(note) != sealed:
            raise Damaged("its metadata do not match their digest")
        return note

    def _load(self, step: int, template: State) -> State:
        note, wanted = self._note(step), flatten(template)
        saved = note["leaves"]
        if isinstance(template, dict):  # a part of the state
            saved = {n: v for n, v in saved.items() if n.split("/")[0] in template}
        expected = {name: signature(leaf) for name, leaf in wanted.items()}
        if fault := difference(expected, saved):
            raise ValueError(
                f"{self.folder / str(step)} is of another model: {fault}; use the "
                "configuration it was trained with, or another folder"
            )

        def read() -> tuple[dict, dict]:
            leaves = {name: abstract(leaf) for name, leaf in wanted.items()}
            flat = self._orbax.load_checkpointables(step, {ITEM: leaves})[ITEM]
            return flat, digests(flat)

        flat, found = reading("it", read)
        for name in wanted:
            if found[name] != note["digests"][name]:
                raise Damaged(f"{name} does not match its digest")
        return unflatten(template, flat)
