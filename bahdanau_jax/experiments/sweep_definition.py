"""sweep.json, the definition of the sweep in a folder: its cells, seeds and data order."""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax import model
from bahdanau_jax.atomic import write_text
from bahdanau_jax.config import Config
from bahdanau_jax.experiments.sweep_cells import DATA, Cells
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.run_folder import REPORT, SWEEP

# Fields that change no score, so that a sweep may go on with other values.
FREE = (
    *("data.root", "data.processes"),
    *("training.log_every", "training.checkpoint_every", "training.keep_checkpoints"),
    "training.seed",  # each run has a seed of its own
)


def with_dtypes(cells: Cells, workdir: Path) -> dict[str, Config]:
    """The cells with named compute dtypes in place of "auto".

    The dtype is that of an earlier call of the sweep in this folder, or this machine's fastest. A
    new cell has that of the first cell there, so that cells can be compared.
    """
    path, stored = Path(workdir) / SWEEP, {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        cells_before = parse_json(path.read_text(encoding="utf-8"))["cells"]
        stored = {name: each["model"]["compute_dtype"] for name, each in cells_before.items()}
    found = {}
    for name, config in cells.items():
        settings = model.with_named_dtype(config.model)
        if config.model.compute_dtype == model.AUTO and stored:
            dtype = stored.get(name, next(iter(stored.values())))
            settings = dataclasses.replace(settings, compute_dtype=dtype)
        found[name] = dataclasses.replace(config, model=settings)
    return found


class Before(NamedTuple):
    """The folder of a sweep before a call."""

    definition: str | None  # the text of its definition; None where there is none
    folders: frozenset[Path]  # of cells, of their runs, and of prepared data

    @classmethod
    def of(cls, workdir: Path) -> "Before":
        path, text = workdir / SWEEP, None
        if path.exists():  # `define` refuses what is no UTF-8
            text = path.read_text(encoding="utf-8", errors="replace")
        return cls(text, _folders(workdir))

    @property
    def cells(self) -> frozenset[str]:
        """The names of the cells. The definition has to be one that `define` accepts."""
        return frozenset(parse_json(self.definition)["cells"] if self.definition else ())

    def restore(self, workdir: Path, cells: Cells) -> None:
        """Forget new cells of which none has been trained: other settings may use the folder."""
        for folder in _folders(workdir) - self.folders:
            if folder.relative_to(workdir).parts[0] in (DATA, *cells):
                shutil.rmtree(folder, ignore_errors=True)
        # Last, so that a process that is killed before leaves what the same call can continue.
        if self.definition is None:
            (workdir / SWEEP).unlink()
        else:
            write_text(workdir / SWEEP, self.definition)


def _folders(workdir: Path) -> frozenset[Path]:
    found = (path for pattern in ("*", "*/*") for path in workdir.glob(pattern))
    return frozenset(path for path in found if path.is_dir())


def define(
    workdir: Path, cells: Cells, seeds: Sequence[int], vmapped: bool | None, order: str
) -> list[list[int]]:
    """Write the definition of the sweep, or compare it with that in the folder.

    A later call may add cells and seeds; its new seeds form a group. Returns the groups of seeds.
    """
    path = workdir / SWEEP
    now: dict[str, Any] = {
        "cells": {name: json.loads(config.to_json()) for name, config in cells.items()},
        "seeds": [list(seeds)],
        "order": order,
        "vmapped": vmapped,
    }
    if path.exists():
        before = _definition(path)
        if fault := _difference(before, now):
            raise ValueError(f"{workdir} holds another sweep: {fault}; choose another folder")
        known = {seed for group in before["seeds"] for seed in group}
        new = [seed for seed in seeds if seed not in known]
        now["seeds"] = [*before["seeds"], new] if new else before["seeds"]
        now["cells"] = before["cells"] | now["cells"]
    elif (workdir / REPORT).is_file():
        raise ValueError(f"{workdir / REPORT} is a file where the report goes: move it away")
    elif any(each.is_dir() for each in workdir.iterdir()):
        raise ValueError(f"{workdir} holds other folders: choose an empty one for a sweep")
    write_text(path, json.dumps(now, indent=2, ensure_ascii=False) + "\n")
    return now["seeds"]


def _definition(path: Path) -> dict[str, Any]:
    """The definition of an earlier call. Raises ValueError for a damaged file."""
    try:
        before = parse_json(path.read_text(encoding="utf-8"))
        cells, seeds = before["cells"].values(), [*before["seeds"]]
        sound = all(isinstance(part, dict) for cell in cells for part in cell.values())
        sound &= all(isinstance(seed, int) for group in seeds for seed in group)
        sound &= {"order", "vmapped"} <= before.keys()
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise ValueError(f"{path} is damaged: restore it, or choose another folder")
    return before


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The reason why the new call cannot continue the earlier sweep; None where it can."""
    same = [name for name in now["cells"] if name in before["cells"]]
    if not same:
        return f"its cells are {', '.join(before['cells'])}"
    defaults = json.loads(Config().to_json())  # of fields that did not exist when it was written
    for name in same:
        was, is_now = before["cells"][name], now["cells"][name]
        for section, fields in is_now.items():
            for field, value in fields.items():
                old = was.get(section, {}).get(field, defaults[section][field])
                if old != value and f"{section}.{field}" not in FREE:
                    return f"{section}.{field} of its cell {name} is {old!r}, not {value!r}"
    for field in ("vmapped", "order"):
        if before[field] != now[field]:
            return f"its {field} is {before[field]!r}, not {now[field]!r}"
    missing = {seed for group in before["seeds"] for seed in group} - set(now["seeds"][0])
    if missing:
        return f"it also has the seeds {', '.join(map(str, sorted(missing)))}"
    return None
