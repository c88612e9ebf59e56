"""The report on a sweep: Markdown, an HTML page and JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax import data
from bahdanau_jax.experiments.cell_runs import SCORES, group_of, was_vmapped
from bahdanau_jax.experiments.results import Pairs, Results, sections, table, usual_metrics
from bahdanau_jax.experiments.sweep_cells import Cells, seed_folder
from bahdanau_jax.names import choose
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.report import Section, Table, commit, hardware, platform, publish
from bahdanau_jax.reported_scores import SCORES as REPORTED
from bahdanau_jax.reporting import duration
from bahdanau_jax.resuming import TRAINED_ON
from bahdanau_jax.run_folder import REPORT, STORE, SWEEP
from bahdanau_jax.training import SHARED, read_metrics, read_record

LONGEST_VALUE = 80  # characters of a setting that are shown; scores.json has all
# Corpora that are scored by positions.
SEQUENCES = tuple(f"builtin:{task}" for task in data.INTEGER_TASKS)


def write(
    workdir: Path,
    results: Results,
    cells: Cells,
    metrics: Sequence[str] = (),
    title: str = "",
    before: Sequence[Section] = (),
    pairs: Pairs | None = None,
) -> str:
    """Write WORKDIR/report and return the table of scores as text.

    `metrics` are the scores of the table; by default, those that are usual for the corpus. The
    sections `before` come first. `pairs` are the cells of the paired tests; None: each cell with
    the first one. Raises ValueError for an unknown score that no run has.
    """
    kinds = {config.data.test.startswith(SEQUENCES) for config in cells.values()}
    runs = [scores for own in results.scores.values() for scores in own.values()]
    known = dict.fromkeys([*REPORTED, *(name for scores in runs for name in scores)])
    for name in metrics:
        choose(known, name, "score")
    chosen = metrics or usual_metrics(results, kinds)
    differing, shared = _settings(cells)
    scores = sections(results, chosen, pairs, _order(workdir, results))
    parts = [*before, *scores, differing, made(workdir, results), shared]
    title = title or f"Sweep {workdir.resolve().name}"
    configs = {name: json.loads(config.to_json()) for name, config in cells.items()}
    whole = results.to_json() | {"configurations": configs}
    publish.publish(workdir / REPORT, title, _subtitle(results), whole, parts)
    lines = [
        *publish.rows(table(results, chosen)),
        "",
        f"Report: {workdir / REPORT / 'index.html'}",
    ]
    return "\n".join(lines)


def _subtitle(results: Results) -> str:
    runs = sum(map(len, results.scores.values()))
    return f"{len(results.scores)} cells, {runs} runs"


def _order(workdir: Path, results: Results) -> str:
    """A note on what the seeds of a cell share, so that a reader knows what an interval covers."""
    if not results.have_intervals:
        return ""
    try:
        definition = parse_json((workdir / SWEEP).read_text(encoding="utf-8"))
        order, first = definition["order"], definition["seeds"][0][0]
    except (OSError, ValueError, LookupError):
        return ""
    runs = [(cell, seed) for cell, seeds in results.scores.items() for seed in seeds]
    vmapped = {run: was_vmapped(seed_folder(workdir, *run)) for run in runs}
    if any(vmapped.values()) and order == SHARED:
        # The shared order is that of the first seed, even if it trained alone.
        others = [own for (_, seed), own in vmapped.items() if seed != first]
        alone = "" if all(others) else " A seed that trained alone has an order of its own."
        return (
            "Seeds of a cell that train vmapped read the same batches in the same order: the "
            "intervals cover the initial weights (and dropout), not the order of the data." + alone
        )
    return "Every seed has initial weights and an order of the training data of its own."


def _settings(cells: Cells) -> tuple[Section, Section]:
    """The settings in which the cells differ, and those that they share."""
    fields = {name: dict(flat(json.loads(config.to_json()))) for name, config in cells.items()}
    first = next(iter(fields.values()))
    differ = [key for key in first if len({str(each[key]) for each in fields.values()}) > 1]
    rows = [
        (name, *(abbreviated(str(each[key])) for key in differ)) for name, each in fields.items()
    ]
    text = "The settings in which the cells differ; those that they share are at the end."
    table = Table(("cell", *differ), rows)
    shared = [(key, str(value)) for key, value in first.items() if key not in differ]
    text_of_shared = (
        "training.seed is that of the folder seed-N, and a vocabulary of 0 has the size that the "
        "text gives: config.json in a run folder has both. The complete configuration of each cell "
        "is in scores.json."
    )
    return (
        Section(
            "Cells", text if differ else "There is one configuration.", (table,) if differ else ()
        ),
        Section("Settings of all cells", text_of_shared, (Table(("field", "value"), shared),)),
    )


def abbreviated(text: str) -> str:
    """The text, or its beginning.

    >>> abbreviated("text:a.en,a.fr")
    'text:a.en,a.fr'
    """
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted names of the fields of a configuration, and their values."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def made(workdir: Path, results: Results) -> Section:
    """The section on how the runs were made: seeds, versions, hardware, data and hours."""
    runs = [(cell, seed) for cell, seeds in results.scores.items() for seed in seeds]
    folders = [seed_folder(workdir, *run) for run in runs]
    rows = [("seeds", ", ".join(map(str, sorted({seed for _, seed in runs}))))]
    starts = [start for folder in folders for start in read_record(folder)]
    if starts:
        rows += [
            *(("versions", each) for each in _distinct(map(_versions, starts))),
            *(("hardware", each) for each in _distinct(map(hardware, starts))),
            *(("platform", each) for each in _distinct(map(platform, starts))),
            ("commit", ", ".join(_distinct(map(commit, starts)))),
        ]
    rows.append(("training data", ", ".join(_distinct(map(_digest, folders)))))
    tests = {each for folder in folders for each in _test_digests(folder)}
    rows.append(("test data", ", ".join(sorted(tests)) or "unknown"))
    seconds = (_seconds(workdir, cell, results.scores[cell]) for cell in results.scores)
    rows.append(("time of training", duration(sum(seconds))))
    text = (
        "Seeds that train vmapped count once in the time of training. Cells that trained at the "
        "same time, each in a process, count one after the other, and the hardware has the cores "
        "of one process."
    )
    return Section("How this was made", text, (Table(("field", "value"), rows),))


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted(set(values))


def _versions(start: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in start.get("versions", {}).items())


def _seconds(workdir: Path, cell: str, seeds: Iterable[int]) -> float:
    """The time of training of a cell's runs; those that trained together count once."""
    groups: dict[tuple[int, ...], float] = {}
    for seed in seeds:
        folder = seed_folder(workdir, cell, seed)
        group, lines = group_of(folder, seed), read_metrics(folder)
        seconds = float(lines[-1]["seconds"]) if lines else 0.0
        groups[group] = max(groups.get(group, 0.0), seconds)
    return sum(groups.values())


def _digest(folder: Path) -> str:
    try:
        return (folder / STORE / TRAINED_ON).read_text(encoding="utf-8")[:12]
    except OSError:
        return "unknown"


def _test_digests(folder: Path) -> Iterator[str]:
    """The digests of the pairs that a run was scored on."""
    try:
        scored = parse_json((folder / SCORES).read_text(encoding="utf-8"))
        yield from (digest[:12] for digest in scored["settings"]["digests"].values())
    except (OSError, ValueError, KeyError):  # a folder that somebody changed since
        return
