"""Trains and scores every cell of a sweep with several seeds.

DIR/sweep.json           the configuration of every cell, the seeds and the data order
DIR/data/KEY/            the prepared data of cells with the same data settings
DIR/CELL/seed-N/         an ordinary run folder for every run
DIR/results.json         the scores of all runs
"""

import contextlib
import dataclasses
import gc
import itertools
from collections.abc import Container, Generator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax

from bahdanau_jax import data, run, run_folder, training
from bahdanau_jax.atomic import write_text
from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.experiments import cell_processes
from bahdanau_jax.experiments.cell_runs import CellOutcome, CellRuns
from bahdanau_jax.experiments.results import Results
from bahdanau_jax.experiments.sweep_cells import RESULTS, Cells, check_name, checked_seeds
from bahdanau_jax.experiments.sweep_definition import Before, define, with_dtypes
from bahdanau_jax.experiments.sweep_texts import checked_texts, record_texts
from bahdanau_jax.names import choose
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.report import DEFAULTS, Settings, as_json, run_scores
from bahdanau_jax.reporting import PLAIN, Reporter
from bahdanau_jax.training import OWN, SHARED

NOT_SHARED = "the data order shared is for seeds that train vmapped; in turn, each has its own"


def sweep(
    cells: Cells,
    workdir: Path,
    seeds: Sequence[int],
    vmapped: bool | None = None,
    order: str | None = None,
    settings: Settings = DEFAULTS,
    tests: Mapping[str, str] = MappingProxyType({}),
    processes: int = 1,
    reporter: Reporter = PLAIN,
) -> Results:
    """Train and score every cell with every seed, or continue where an earlier call ended.

    A run that fails is reported, and the others continue. The next call tries it again, except one
    that diverged. Cells of earlier calls stay in the folder, but not in the results.

    Args:
        cells: the configurations by the names of their folders.
        workdir: the folder of the sweep.
        seeds: the values of training.seed.
        vmapped: whether the seeds of a cell train vmapped. With None, those of small models do
            whose `training.patience`, `parallel` and `shard` have their defaults.
        order: the data order of seeds that train vmapped, a key of `training.DATA_ORDERS`. With
            None, they share one. Seeds that train in turn have their own, and refuse "shared".
        settings: those of the scores.
        tests: addresses of further test pairs by name; their scores are under "tests".
        processes: on a CPU, cells that train at the same time, each in a process with a share of
            the cores. They get the environment variables of this process, and not its jax.config.
        reporter: shows the stages and the progress.

    Raises ValueError for faults of any configuration, of its data or of `settings` before any
    training, and where the folder holds another sweep. Raises `training.Interrupted` after Ctrl-C.

    >>> results = sweep(product(config, {"model.order": ["paper", "luong"]}), "orders", [1, 2])
    >>> results.summary("order=paper", "BLEU").mean
    """
    seeds = checked_seeds(seeds)
    shared_only, order = order == SHARED, _data_order(order, vmapped)
    _check(cells, seeds, vmapped, settings, tests)
    _check_processes(processes)
    workdir = Path(workdir)
    cells = with_dtypes(cells, workdir)
    with run_folder.lock(workdir):
        before = Before.of(workdir)
        _stored(workdir / RESULTS)
        groups = define(workdir, cells, seeds, vmapped, order)
        results = Results({}, {})
        all_runs = {
            name: CellRuns(workdir, name, config, groups, order, settings, tests, reporter)
            for name, config in cells.items()
        }
        try:
            texts = checked_texts(workdir, cells)
            _prepare(all_runs, vmapped, shared_only and len(seeds) > 1)
            record_texts(workdir, texts)
        except BaseException:  # also Ctrl-C
            before.restore(workdir, cells)
            raise
        if processes == 1:
            ended = _in_turn(all_runs, vmapped, reporter)
        else:
            ended = cell_processes.outcomes(all_runs, vmapped, processes, workdir, reporter)
        done: dict[str, CellOutcome] = {}
        with contextlib.closing(ended):
            for name, outcome in ended:
                done[name] = outcome
                results = _results([(cell, done[cell]) for cell in cells if cell in done])
                _write(workdir / RESULTS, results, before.cells)
    return results


def _prepare(cells: Mapping[str, CellRuns], vmapped: bool | None, shared_only: bool) -> None:
    """Prepare the data of all cells. Where only a shared order is wanted, all train vmapped."""
    for name, runs in cells.items():
        runs.prepare()
        if shared_only and runs.trains_vmapped(vmapped) is False:
            raise ValueError(f"cell {name}: {NOT_SHARED}")


def _results(outcomes: Sequence[tuple[str, CellOutcome]]) -> Results:
    scores = {name: dict(outcome.scores) for name, outcome in outcomes}
    return Results(scores, {run: e for _, each in outcomes for run, e in each.failed.items()})


def _in_turn(
    cells: Mapping[str, CellRuns], vmapped: bool | None, reporter: Reporter
) -> Generator[tuple[str, CellOutcome], None, None]:
    """Train and score one cell after the other."""
    for index, (name, runs) in enumerate(cells.items(), start=1):
        reporter.note(f"cell {index} of {len(cells)}: {name}")
        runs.train(vmapped)
        yield name, CellOutcome(runs.score(), runs.failed)
        _forget_programs()


def _forget_programs() -> None:
    """Release the compiled programs of a cell, which the next one does not use.

    A process may map only so many pieces of memory (Linux: 65,530), and each program takes some.
    """
    gc.collect()  # programs in cycles of references
    jax.clear_caches()


def _data_order(order: str | None, vmapped: bool | None) -> str:
    """The order named, or the usual one. Raises ValueError for a shared one of seeds in turn."""
    if order is None:
        return OWN if vmapped is False else SHARED
    choose(training.DATA_ORDERS, order, "data order")
    if vmapped is False and order != OWN:
        raise ValueError(NOT_SHARED)
    return order


def _check(
    cells: Cells,
    seeds: Sequence[int],
    vmapped: bool | None,
    scoring: Settings,
    tests: Mapping[str, str],
) -> None:
    if not len(cells) or not seeds:
        raise ValueError("a sweep needs at least one cell and one seed")
    for name in cells:
        check_name(name)
    if "" in tests.values():
        raise ValueError("the address of further test pairs is empty")
    run_scores.check([""], [""], scoring)
    opened: set[tuple[str, str]] = set()
    for name, config in cells.items():
        try:
            search = dataclasses.replace(config.decoding, **scoring.search())
            run.check(dataclasses.replace(config, decoding=search))
            settings = config.data
            for address in (settings.train, settings.dev, settings.test, *tests.values()):
                if address and (address, settings.root) not in opened:
                    _read(address, settings, 1 if address == settings.train else None)
                    opened.add((address, settings.root))
            _check_settings(config, vmapped)
        except (ValueError, OSError) as error:
            raise ValueError(f"cell {name}: {error}") from error


def _check_processes(processes: int) -> None:
    if type(processes) is not int or processes < 1:
        raise ValueError(f"processes={processes!r}, but an integer of at least 1 was expected")
    if processes > 1 and (platform := jax.default_backend()) != "cpu":
        raise ValueError(
            f"cells train in several processes on a CPU only, but JAX uses the {platform}: set "
            "JAX_PLATFORMS=cpu, or let one process use all devices"
        )


def _check_settings(config: Config, vmapped: bool | None) -> None:
    if lines := data.remarks.on_other_corpora(config.data):
        raise ValueError(lines[0])
    if not config.data.test:
        raise ValueError("data.test is empty, but a sweep scores every run on test pairs")
    if vmapped and (why := training.why_not_vmapped(config.training)):
        raise ValueError(why)


def _read(address: str, settings: DataConfig, most: int | None) -> None:
    """Read the first pairs of an address, by default all; it raises the errors of its files."""
    for _ in itertools.islice(data.pairs(address, settings), most):
        pass


def _write(path: Path, results: Results, before: Container[str]) -> None:
    """Write the scores, beside those of the cells of earlier calls, named in `before`."""
    stored = _stored(path)
    others = ((n, runs) for n, runs in stored["scores"].items() if n not in results.scores)
    older = {name: runs for name, runs in others if name in before}
    failed = {
        run: error for run, error in stored["failed"].items() if run.rpartition("/")[0] in older
    }
    write_text(path, as_json(Results(older | results.scores, failed | results.failed).to_json()))


def _stored(path: Path) -> dict[str, dict[str, Any]]:
    """The scores and failures of earlier calls. Raises ValueError for a damaged file."""
    if not path.exists():
        return {"scores": {}, "failed": {}}
    try:
        stored = parse_json(path.read_text(encoding="utf-8"))
        return {name: dict(stored[name]) for name in ("scores", "failed")}
    except (ValueError, KeyError, TypeError) as error:
        text = "remove it: each run folder has its own scores"
        raise ValueError(f"{path} is damaged; {text}") from error
