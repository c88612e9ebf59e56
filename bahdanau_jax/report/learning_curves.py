"""Compares training runs: reads their metrics, and makes a table of them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax import run_folder
from bahdanau_jax.names import choose
from bahdanau_jax.report.document import Table, number
from bahdanau_jax.training import read_metrics

Runs = Mapping[str, Sequence[Mapping[str, Any]]]  # by name: the lines of metrics.jsonl


def read(folders: Iterable[Path]) -> Runs:
    """Read the metrics of runs by name, the shortest end of each path that is unique.

    Raises ValueError where a folder is given twice or has no metrics.
    """
    paths = [folder.resolve() for folder in folders]
    if len(set(paths)) < max(len(paths), 1):
        raise ValueError("name the folder of one run or of several, each of them once")
    names = run_folder.names(paths)
    runs = {name: read_metrics(path) for name, path in zip(names, paths, strict=True)}
    for path, metrics in zip(paths, runs.values(), strict=True):
        if not metrics:
            raise ValueError(f"{path} holds no metrics of a training: name the folder of a run")
    return runs


def known(runs: Runs) -> Mapping[str, None]:
    """The names of all fields of the lines."""
    return dict.fromkeys(key for lines in runs.values() for line in lines for key in line)


def chosen(runs: Runs, scores: Sequence[str]) -> Runs:
    """The lines with only these scores. Raises ValueError for a score that no line has."""
    fields = {"step", *scores}
    for score in scores:
        choose(known(runs), score, "score")
    return {
        run: [{key: value for key, value in line.items() if key in fields} for line in lines]
        for run, lines in runs.items()
    }


def table(runs: Runs, scores: Sequence[str]) -> Table:
    """The newest value of each score at every evaluation, and at the end of each run."""
    columns = {f"{run}: {score}": _values(runs[run], score) for score in scores for run in runs}
    evaluated = {
        line["step"]
        for lines in runs.values()
        for line in lines
        if line is lines[-1] or any(key.startswith("dev") for key in line)
    }
    rows = [
        (f"{step:,}", *(number(_newest(column, step), ".3f") for column in columns.values()))
        for step in sorted(evaluated)
    ]
    return Table(("updates", *columns), rows)


def _newest(column: Mapping[int, float | None], step: int) -> float | None:
    """The last value up to a step; None before the first and after the last line of the run."""
    last = max((at for at in column if at <= step), default=None)
    return None if last is None or step > max(column) else column[last]


def _values(lines: Sequence[Mapping[str, Any]], score: str) -> dict[int, float | None]:
    """Step -> the last value of the score up to this step of a run."""
    newest, values = None, {}
    for line in lines:
        newest = line.get(score, newest)
        values[line["step"]] = newest
    return values
