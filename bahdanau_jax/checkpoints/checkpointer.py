"""Checkpoints: saves the newest few and the best, verifies them, and restores intact ones.

The metadata of every checkpoint hold the name, type, shape and digest of each of its arrays. Orbax
itself restores a flipped bit without an error, and casts a wrong type without a warning.
"""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from orbax.checkpoint import v1 as orbax

from bahdanau_jax.checkpoints import replacement
from bahdanau_jax.checkpoints.orbax_errors import Damaged, all_damaged, hush, on_disk, reading
from bahdanau_jax.checkpoints.orbax_reading import ReadableSteps, load, read_by_all
from bahdanau_jax.checkpoints.preservation import remove_old
from bahdanau_jax.checkpoints.selection import NONE, Chosen, Records, candidates, damaged
from bahdanau_jax.checkpoints.state_digest import (
    Flat,
    abstract,
    change,
    difference,
    digests,
    flatten,
    seal,
    signature,
    unflatten,
)
from bahdanau_jax.distributed import holds_everywhere, owned
from bahdanau_jax.run_folder import steps_in

State = TypeVar("State")
ITEM = "state"  # the one item of an Orbax checkpoint: a flat dict, name -> array
DAMAGED = "damaged-"  # the prefix of the step in the name of a folder that is set aside


class Checkpointer:
    """The checkpoints of one run folder: the `keep` newest ones, and the one with the best score.

    With keep=None the folder is never changed, so a run can be read while it trains. `records` hold
    the dev scores of checkpoints that cannot be read.

    >>> checkpoints = Checkpointer(workdir / "checkpoints", keep=2)
    >>> state = checkpoints.restore(state) or state
    """

    def __init__(self, folder: Path, keep: int | None = None, records: Records = NONE):
        self.folder, self._keep, self._pending = Path(folder).absolute(), keep, None
        self._records = records
        if keep is None and not self.folder.is_dir():
            raise FileNotFoundError(f"{folder} holds no checkpoints: train a model there first")
        self._scores: dict[int, float] = {}
        hush()
        with self._disk():
            if keep is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
                replacement.bring_back(self.folder)
            self._orbax = orbax.training.Checkpointer(
                str(self.folder),
                cleanup_tmp_directories=keep is not None,
                step_name_format=ReadableSteps(),  # pyright: ignore[reportArgumentType]
            )
        if keep is not None:
            self._read_scores()

    def _read_scores(self) -> None:
        """Update the scores by which `remove_old` finds the best checkpoint."""
        self._scores.clear()
        for step in self.steps():
            with suppress(Damaged):
                if (score := self._note(step)["score"]) is not None:
                    self._scores[step] = score

    def _disk(self) -> AbstractContextManager[None]:
        return on_disk(self.folder, "read the" if self._keep is None else "keep")

    def save(
        self, step: int, state: Any, score: float | None = None, progress: dict | None = None
    ) -> None:
        """Start to save in the background; return when `state` may be donated to the next step.

        A checkpoint of the same step is removed after the new one is complete. A score of None, NaN
        or infinity is never the best. `progress` is the JSON that the training loop needs to
        resume. Raises OSError where this save, or the one before it, cannot be written.
        """
        flat = flatten(state)
        note = {
            "leaves": {name: signature(leaf) for name, leaf in flat.items()},
            "digests": digests(flat),
            "score": score if score is not None and math.isfinite(score) else None,
            "progress": progress or {},
        }
        self.wait()
        replacement.check_space(self.folder, flat)
        self._scores.pop(step, None)
        if note["score"] is not None:
            self._scores[step] = note["score"]
        with self._disk():
            if step in self.steps():
                self._rename(str(step), f"{replacement.REPLACED}{step}")
            self._pending = self._orbax.save_checkpointables_async(
                step,
                {ITEM: flat},
                force=True,
                custom_metadata={"note": note, "seal": seal(note)},
            )

    def _rename(self, name: str, new: str) -> None:
        replacement.rename(self.folder / name, self.folder / new)
        self._orbax.reload()

    def check(self) -> None:
        """Raise OSError if the save in the background has failed by now. It does not wait."""
        try:
            if self._pending is not None:
                self._pending.result(timeout=0)
        except Exception as error:
            if isinstance(error, TimeoutError) and error.errno is None:  # the save still runs
                return
            self.wait()
            raise

    def _finish(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
            self._orbax.wait()
            replacement.forget(self.folder)
            if remove_old(self.folder, self.steps(), self._keep or 1, self._scores):
                self._orbax.reload()

    def wait(self) -> None:
        """Wait until the last save is on disk. Raises OSError where it could not be written."""
        with self._disk():
            self._finish()

    def close(self) -> None:
        """Wait as `wait` does, then close the folder."""
        with self._disk():
            try:
                self._finish()
            finally:
                self._orbax.close()

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        return [checkpoint.step for checkpoint in self._orbax.checkpoints]

    def progress(self, step: int) -> dict:
        """The `progress` that was saved at a step; {} for a step without a checkpoint."""
        return self._note(step)["progress"] if step in self.steps() else {}

    def restore(self, template: State) -> State | None:
        """Restore the newest checkpoint that is intact; None where there are no checkpoints.

        `template` gives names, shapes, types and devices. A dict may name a part of the state, such
        as {"params": params}, and only this part is read. Damaged checkpoints are reported, and a
        training run renames them to damaged-STEP. Raises ValueError for the checkpoint of another
        model, OSError where all are damaged.
        """
        return next(iter(self.choose(template, "newest", 1)[0]), None)

    def restore_at(self, template: State, step: int) -> State:
        """Restore the checkpoint of a step as `restore` does. Raises Damaged."""
        return self._load(step, template, self._note(step))

    def choose(self, template: State, choice: str, count: int) -> tuple[list[State], Chosen]:
        """Restore the first `count` intact checkpoints in the order `choice`.

        `choice` is a key of READING_ORDERS, or a step. Returns their states, fewer where there are
        no more, and the record of the choice. Raises as `restore`, and ValueError as `ordered`.
        """
        notes, scores, faults = self._notes()
        states, used, passed = [], [], []
        for candidate in candidates(scores, faults, self._records, choice, count):
            if len(states) == count:
                break
            step = candidate.step
            try:
                if not candidate.fault:
                    states.append(self._load(step, template, notes[step]))
            except Damaged as error:
                if self._removed(step):
                    return self.choose(template, choice, count)
                faults[step] = str(error)
                candidate = damaged(step, str(error), self._records, candidate.score)
            (passed if candidate.fault else used).append(candidate)
        chosen = Chosen(choice, tuple(used), tuple(passed))
        if states or (self._keep and not faults):  # else the error below reports them
            chosen.report(self.folder, faults if self._keep else {}, self._records)
        if passed and choice.isdecimal():
            raise OSError(f"{self.folder / choice} {passed[0].fault}: choose another checkpoint")
        if faults and not states:
            raise all_damaged(self.folder)
        self._set_aside(list(faults))
        return states, chosen

    def report_damaged(self, faults: Mapping[int, str]) -> None:
        """Report and rename those with these faults."""
        Chosen("newest", (), ()).report(self.folder, faults, self._records)
        self._set_aside(list(faults))

    def remove_after(self, step: int) -> None:
        """Remove those of later steps, which would be kept as the newest ones."""
        with self._disk():
            for later in (each for each in self.steps() if each > step):
                replacement.remove(self.folder / str(later))
            self._orbax.reload()
        self._read_scores()

    def survey(self) -> tuple[dict[int, float | None], dict[int, str]]:
        """(step -> dev score of readable metadata, step -> the fault of unreadable ones)."""
        return self._notes()[1:]

    def _notes(self) -> tuple[dict[int, dict], dict[int, float | None], dict[int, str]]:
        notes, faults = {}, {}
        self._orbax.reload()  # a trainer may have saved others since
        for step in steps_in(self.folder):
            try:
                notes[step] = read_by_all(lambda step=step: self._note(step))
            except Damaged as error:
                if not self._removed(step):
                    faults[step] = str(error)
        return notes, {step: note["score"] for step, note in notes.items()}, faults

    def _removed(self, step: int) -> bool:
        return holds_everywhere(not (self.folder / str(step)).exists())  # a trainer removed it

    def _set_aside(self, steps: list[int]) -> None:
        """Rename damaged checkpoints, so that later saves do not overwrite them."""
        if self._keep is None or not steps:
            return
        with self._disk():
            for step in steps:
                self._rename(str(step), replacement.unused(self.folder, f"{DAMAGED}{step}"))
        self._read_scores()

    def _note(self, step: int) -> dict:
        def read() -> tuple[dict, str]:
            metadata: Any = self._orbax.checkpointables_metadata(step).custom_metadata
            return metadata["note"], metadata["seal"]

        note, sealed = reading("its metadata", read, self.folder / str(step))
        if seal(note) != sealed:
            raise Damaged("its metadata do not match their digest")
        return note

    def _load(self, step: int, template: State, note: dict) -> State:
        saved, wanted = note["leaves"], flatten(template)
        if isinstance(template, dict):  # a part of the state
            saved = {n: v for n, v in saved.items() if n.split("/")[0] in template}
        expected = {name: signature(leaf) for name, leaf in wanted.items()}
        if fault := difference(expected, saved):
            raise ValueError(
                f"{self.folder / str(step)} is of another model: {fault}; use the "
                "configuration it was trained with, or another folder"
            )
        return unflatten(template, owned(self._read(step, note, wanted)))  # Orbax returns views

    def _read(self, step: int, note: dict, wanted: Flat) -> Flat:
        """Read the `wanted` arrays and verify them. Raises Damaged on all processes or on none."""
        leaves = {name: abstract(leaf) for name, leaf in wanted.items()}
        folder = self.folder / str(step)
        flat = read_by_all(
            lambda: reading("it", lambda: load(folder, {ITEM: leaves})[ITEM], folder)
        )
        if fault := change(flat, note["digests"]):
            raise Damaged(fault)
        return flat

    def arrays(self, step: int) -> dict[str, np.ndarray]:
        """Read the saved arrays by name, without a template.

        Raises Damaged where they differ from what was written.

        >>> checkpoints.arrays(200)["params/source_embedding/E"].shape
        (30001, 620)
        """
        note = self._note(step)
        leaves = {
            name: jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
            for name, (dtype, shape) in note["leaves"].items()
        }
        with jax.enable_x64(any(leaf.dtype.itemsize == 8 for leaf in leaves.values())):
            return {n: np.asarray(a) for n, a in self._read(step, note, leaves).items()}
