"""The report on a sweep: Markdown, an HTML page and JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax.experiments.results import Results, sections, table, usual_metrics
from bahdanau_jax.experiments.sweep_cells import Cells, seed_folder
from bahdanau_jax.names import choose
from bahdanau_jax.report import Section, Table, commit, duration, publish
from bahdanau_jax.resuming import TRAINED_ON
from bahdanau_jax.run_folder import STORE
from bahdanau_jax.training import read_metrics, read_record

REPORT = "report"  # the folder of the report in that of a sweep
SEQUENCES = ("builtin:primes", "builtin:reverse")  # corpora that are scored by positions


def write(
    workdir: Path,
    results: Results,
    cells: Cells,
    metrics: Sequence[str] | Mapping[str, int] = (),
    title: str = "",
    before: Sequence[Section] = (),
) -> str:
    """Write WORKDIR/report and return the table of scores as text.

    `metrics` are the scores of the table, with or without their decimals; by default, those that
    are usual for the corpus. The sections `before` come first. Raises ValueError for a score that
    no run has.
    """
    first = next(iter(cells.values()))
    usual = usual_metrics(results, first.data.test.startswith(SEQUENCES))
    if isinstance(metrics, Mapping):
        chosen = dict(metrics)
    else:
        runs = [scores for own in results.scores.values() for scores in own.values()]
        known = {name: 3 for scores in runs for name in scores}
        chosen = {name: usual.get(name, choose(known, name, "score")) for name in metrics} or usual
    parts = [*before, *sections(results, chosen), _settings(cells), made(workdir, results)]
    title = title or f"Sweep {workdir.resolve().name}"
    publish.publish(workdir / REPORT, title, _subtitle(results), results.to_json(), parts)
    lines = [
        *publish.rows(table(results, chosen)),
        "",
        f"Report: {workdir / REPORT / 'index.html'}",
    ]
    return "\n".join(lines)


def _subtitle(results: Results) -> str:
    runs = sum(map(len, results.scores.values()))
    return f"{len(results.scores)} cells, {runs} runs"


def _settings(cells: Cells) -> Section:
    """The settings in which the cells differ; sweep.json has all of them."""
    flat = {name: dict(_flat(json.loads(config.to_json()))) for name, config in cells.items()}
    first = next(iter(flat.values()))
    differ = [key for key in first if len({str(each[key]) for each in flat.values()}) > 1]
    rows = [(name, *(str(each[key]) for key in differ)) for name, each in flat.items()]
    text = "The settings in which the cells differ. All settings of every cell are in sweep.json."
    return Section("Cells", text, (Table(("cell", *differ), rows),) if differ else ())


def _flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def made(workdir: Path, results: Results) -> Section:
    """The section on how the runs were made: seeds, versions, hardware, data and hours."""
    runs = [(cell, seed) for cell, seeds in results.scores.items() for seed in seeds]
    folders = [seed_folder(workdir, *run) for run in runs]
    rows = [("seeds", ", ".join(map(str, sorted({seed for _, seed in runs}))))]
    starts = [start for folder in folders for start in read_record(folder)[:1]]
    if starts:
        versions, devices = starts[0].get("versions", {}), starts[0].get("devices", {})
        rows += [
            ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
            (
                "hardware",
                f"{devices.get('count')} x {devices.get('kind')}, {starts[0].get('platform')}",
            ),
            ("commit", ", ".join(sorted({commit(start) for start in starts}))),
        ]
    rows.append(("training data", ", ".join(sorted({_digest(folder) for folder in folders}))))
    rows.append(("time of training", duration(sum(map(_seconds, folders)))))
    return Section("How this was made", "", (Table(("field", "value"), rows),))


def _digest(folder: Path) -> str:
    try:
        return (folder / STORE / TRAINED_ON).read_text(encoding="utf-8")[:12]
    except OSError:
        return "unknown"


def _seconds(folder: Path) -> float:
    lines = read_metrics(folder)
    return float(lines[-1]["seconds"]) if lines else 0.0
