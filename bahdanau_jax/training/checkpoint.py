"""Checkpoints: the newest few and the best, and the newest good one back, whatever died or broke.

Beside every checkpoint stand the name, type, shape and SHA-256 of each of its arrays: Orbax itself
restores a flipped bit without a word, and casts a wrong type in silence.
"""

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from orbax.checkpoint import v1 as orbax

log = logging.getLogger(__name__)

State = TypeVar("State")
ITEM = "state"  # the one item of an Orbax checkpoint: a flat dict, name -> array


class Damaged(Exception):
    """A checkpoint that cannot be read back as it was written; the message says what is wrong."""


def _name(path) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_key(leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _flatten(tree) -> dict[str, Any]:
    """name -> array, as saved: random keys as their data, empty arrays left out."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        _name(path): jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for path, leaf in leaves
        if leaf.size
    }


def _unflatten(template: State, flat: dict[str, Any]) -> State:
    def leaf(path, like):
        if not like.size:
            return jnp.zeros(like.shape, like.dtype)
        value = flat[_name(path)]
        if _is_key(like):
            return jax.random.wrap_key_data(value, impl=jax.random.key_impl(like))
        return value

    return jax.tree_util.tree_map_with_path(leaf, template)


def _signature(array) -> list:
    return [str(array.dtype), list(array.shape)]


def _digest(array) -> str:
    host = np.ascontiguousarray(array).reshape(-1)
    return hashlib.sha256(host.view(np.uint8)).hexdigest()


def digests(flat: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of the bytes of each array, several at a time."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(flat, pool.map(_digest, flat.values()), strict=True))


def _seal(note: dict) -> str:
    return hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()


def _difference(expected: dict, saved: dict) -> str | None:
    """The first leaf in which this program's state and the saved one differ, in words."""
    for name in sorted(expected.keys() | saved.keys()):
        ours, theirs = expected.get(name), saved.get(name)
        if ours != theirs:
            shown = [f"{x[0]}{x[1]}" if x else "nothing" for x in (theirs, ours)]
            return f"{name} is {shown[0]} there, but this configuration has {shown[1]}"
    return None


def _rank(metrics: dict) -> tuple[float, int]:
    """Orders checkpoints by score; of equal ones the first is the best, as in early stopping."""
    return metrics["score"], -metrics["step"]


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
        policies = orbax.training.preservation_policies
        best = policies.BestN(get_metric_fn=_rank, n=1, keep_checkpoints_without_metrics=False)
        options = orbax.Context()
        options.pytree.loading.partial_load = True
        with self._disk():
            self._orbax = orbax.training.Checkpointer(
                self.folder,
                context=options,
                cleanup_tmp_directories=keep is not None,
                lightweight_initialize=False,
                preservation_policy=policies.AnyPreservationPolicy(
                    [policies.LatestN(keep or 1), best]
                ),
            )

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Whatever goes wrong while writing is told in one line."""
        try:
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
        flat = _flatten(state)
        note = {
            "leaves": {name: _signature(leaf) for name, leaf in flat.items()},
            "digests": digests(flat),
            "progress": progress or {},
        }
        scored = score is not None and math.isfinite(score)
        metrics = {"score": score, "step": step} if scored else None
        self.wait()
        with self._disk():
            self._pending = self._orbax.save_checkpointables_async(
                step,
                {ITEM: flat},
                force=True,
                overwrite=step in self.steps(),
                metrics=metrics,
                custom_metadata={"note": note, "seal": _seal(note)},
            )

    def wait(self) -> None:
        """Until the last save is on disk. Raises OSError where it could not be written."""
        pending, self._pending = self._pending, None
        with self._disk():
            if pending is not None:
                pending.result()
            self._orbax.wait()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._orbax.close()

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, oldest first."""
        return [checkpoint.step for checkpoint in self._orbax.checkpoints]

    def scores(self) -> dict[int, float]:
        """Step -> score, where one was given."""
        found: dict[int, Any] = {c.step: c.metrics for c in self._orbax.checkpoints}
        return {step: metrics["score"] for step, metrics in found.items() if metrics}

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
        return self._first_good(list(reversed(self.steps())), template)

    def restore_best(self, template: State) -> State | None:
        """Likewise, the one with the highest score; then the next best, then the newest."""
        scores, newest = self.scores(), list(reversed(self.steps()))
        ranked = sorted(scores, key=lambda step: (-scores[step], step))
        rest = [step for step in newest if step not in scores]
        return self._first_good(ranked + rest, template)

    def _first_good(self, steps: Iterable[int], template: State) -> State | None:
        damaged = []
        for step in steps:
            try:
                state = self._load(step, template)
            except Damaged as error:
                log.warning("checkpoint %s is damaged: %s", self.folder / str(step), error)
                damaged.append(step)
                continue
            self._set_aside(damaged)
            return state
        if damaged:
            raise OSError(
                f"every checkpoint in {self.folder} is damaged: restore the folder from a copy, "
                "or remove it to start again"
            )
        return None

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

    def _note(self, step: int) -> dict:
        try:
            metadata: Any = self._orbax.checkpointables_metadata(step).custom_metadata
            note, seal = metadata["note"], metadata["seal"]
        except Exception as error:  # by the kind of damage, Orbax raises almost anything
            raise Damaged(f"its metadata cannot be read ({type(error).__name__})") from error
        if _seal(note) != seal:
            raise Damaged("its metadata do not match their digest")
        return note

    def _load(self, step: int, template: State) -> State:
        note, wanted = self._note(step), _flatten(template)
        saved = note["leaves"]
        if isinstance(template, dict):  # a part of the state
            saved = {n: v for n, v in saved.items() if n.split("/")[0] in template}
        expected = {name: _signature(leaf) for name, leaf in wanted.items()}
        if difference := _difference(expected, saved):
            raise ValueError(
                f"{self.folder / str(step)} is of another model: {difference}; use the "
                "configuration it was trained with, or another folder"
            )
        try:
            abstract = {name: _abstract(leaf) for name, leaf in wanted.items()}
            flat = self._orbax.load_checkpointables(step, {ITEM: abstract})[ITEM]
            found = digests(flat)
        except Exception as error:
            raise Damaged(f"it cannot be read ({type(error).__name__})") from error
        for name in wanted:
            if found[name] != note["digests"][name]:
                raise Damaged(f"{name} does not match its digest")
        return _unflatten(template, flat)


def _abstract(leaf) -> jax.ShapeDtypeStruct:
    sharding = getattr(leaf, "sharding", None)
    if sharding is None:
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
