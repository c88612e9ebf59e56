"""Trains and scores every cell of a sweep with several seeds.

DIR/sweep.json           the configuration of every cell, the seeds and the data order
DIR/data/KEY/            the prepared data of cells with the same data settings
DIR/CELL/seed-N/         an ordinary run folder for every run
DIR/results.json         the scores of all runs
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bahdanau_jax import data, run, run_folder, training
from bahdanau_jax.atomic import write_text
from bahdanau_jax.experiments.cell_runs import CellRuns
from bahdanau_jax.experiments.results import Results
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.names import choose
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.report import DEFAULTS, Settings, as_json
from bahdanau_jax.reporting import PLAIN, Reporter
from bahdanau_jax.training import SHARED

DEFINITION, RESULTS = "sweep.json", "results.json"


def sweep(
    cells: Cells,
    workdir: Path,
    seeds: Sequence[int],
    vmapped: bool | None = None,
    order: str = SHARED,
    settings: Settings = DEFAULTS,
    tests: Mapping[str, str] = MappingProxyType({}),
    reporter: Reporter = PLAIN,
) -> Results:
    """Train and score every cell with every seed, or continue where an earlier call ended.

    A run that fails is reported, and the others continue. The next call tries it again.

    Args:
        cells: the configurations by the names of their folders.
        workdir: the folder of the sweep.
        seeds: the values of training.seed.
        vmapped: whether the seeds of a cell train vmapped; None: those of small models do, without
            `training.patience`.
        order: the data order of seeds that train vmapped, a key of `training.DATA_ORDERS`.
        settings: those of the scores.
        tests: addresses of further test pairs by name; their scores are under "tests".
        reporter: shows the stages and the progress.

    Raises ValueError for faults of any configuration, before any work, and where the folder holds
    another sweep. Raises `training.Interrupted` after Ctrl-C.

    >>> results = sweep(product(config, {"model.order": ["paper", "luong"]}), "orders", [1, 2])
    >>> results.summary("order=paper", "BLEU").mean
    """
    _check(cells, seeds, order, tests)
    workdir = Path(workdir)
    with run_folder.lock(workdir):
        groups = _define(workdir, cells, seeds, order)
        results = Results({}, {})
        for index, (name, config) in enumerate(cells.items(), start=1):
            reporter.note(f"cell {index} of {len(cells)}: {name}")
            runs = CellRuns(workdir, name, config, groups, order, settings, tests, reporter)
            runs.train(vmapped)
            results.scores[name] = runs.score()
            results.failed.update(runs.failed)
            write_text(workdir / RESULTS, as_json(results.to_json()))
    return results


def _check(cells: Cells, seeds: Sequence[int], order: str, tests: Mapping[str, str]) -> None:
    if not cells or not seeds:
        raise ValueError("a sweep needs at least one cell and one seed")
    if len(set(seeds)) < len(seeds):
        raise ValueError("the seeds of a sweep should all be different")
    choose(training.DATA_ORDERS, order, "data order")
    opened = set()
    for name, config in cells.items():
        try:
            run.check(config)
            if not config.data.test:
                raise ValueError("data.test is empty, but a sweep scores every run on test pairs")
            settings = config.data
            for address in (settings.train, settings.dev, settings.test, *tests.values()):
                if address and (address, settings.root) not in opened:
                    next(iter(data.pairs(address, settings)), None)  # raises errors of its files
                    opened.add((address, settings.root))
        except (ValueError, OSError) as error:
            raise ValueError(f"cell {name}: {error}") from error


def _define(workdir: Path, cells: Cells, seeds: Sequence[int], order: str) -> list[list[int]]:
    """Write the definition of the sweep, or compare it with that in the folder.

    A later call may add cells and seeds; its new seeds form a group. Returns the groups of seeds.
    """
    path = workdir / DEFINITION
    now: dict[str, Any] = {
        "cells": {name: json.loads(config.to_json()) for name, config in cells.items()},
        "seeds": [list(seeds)],
        "order": order,
    }
    if path.exists():
        before = parse_json(path.read_text(encoding="utf-8"))
        if fault := _difference(before, now):
            raise ValueError(f"{workdir} holds another sweep: {fault}; choose another folder")
        known = {seed for group in before["seeds"] for seed in group}
        new = [seed for seed in seeds if seed not in known]
        now["seeds"] = [*before["seeds"], new] if new else before["seeds"]
        now["cells"] = before["cells"] | now["cells"]
    elif any(each.is_dir() for each in workdir.iterdir()):
        raise ValueError(f"{workdir} holds other folders: choose an empty one for a sweep")
    write_text(path, json.dumps(now, indent=2, ensure_ascii=False) + "\n")
    return now["seeds"]


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The reason why the new call cannot continue the earlier sweep; None where it can."""
    same = set(before["cells"]) & set(now["cells"])
    if not same:
        return f"its cells are {', '.join(before['cells'])}"
    for name in same:
        if before["cells"][name] != now["cells"][name]:
            return f"its cell {name} has other settings"
    if before["order"] != now["order"]:
        return f"its data order is {before['order']}"
    missing = {seed for group in before["seeds"] for seed in group} - set(now["seeds"][0])
    if missing:
        return f"it also has the seeds {', '.join(map(str, sorted(missing)))}"
    return None
