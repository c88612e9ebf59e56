"""The scores of a sweep, their table, and paired tests of its cells."""

from typing import Any, NamedTuple

from bahdanau_jax.experiments import statistics
from bahdanau_jax.report import NOTHING, Section, Table, number

# Scores of text that are shown where a run has them, with their decimals; then those of tasks.
TEXT = {"BLEU": 1, "chrF": 1, "AER": 3, "AER-share": 3, "perplexity": 2}
TASKS = {"exact": 3, "PSA": 3, "LCSR": 3, "GeoMean": 3}


class Results(NamedTuple):
    """The scores of a sweep; runs that failed have an error instead."""

    scores: dict[str, dict[int, dict[str, Any]]]  # cell -> seed -> scores of the test pairs
    failed: dict[str, str]  # "CELL/seed-N" -> the error

    def values(self, cell: str, metric: str) -> dict[int, float]:
        """The seeds of a cell that have this score, and its values."""
        values = ((seed, scores.get(metric)) for seed, scores in self.scores[cell].items())
        return {seed: float(x) for seed, x in values if isinstance(x, int | float)}

    def summary(self, cell: str, metric: str) -> statistics.Summary | None:
        """A score over the seeds of a cell; None where no seed has it."""
        values = [*self.values(cell, metric).values()]
        return statistics.summarize(values) if values else None

    def compare(self, first: str, second: str, metric: str) -> statistics.Paired | None:
        """Compare two cells by the seeds that both have; None where there are none."""
        ours, theirs = self.values(first, metric), self.values(second, metric)
        seeds = sorted(set(ours) & set(theirs))
        if not seeds:
            return None
        return statistics.compare([ours[s] for s in seeds], [theirs[s] for s in seeds])

    def to_json(self) -> dict[str, Any]:
        return {"scores": self.scores, "failed": self.failed}


def usual_metrics(results: Results, is_task: bool) -> dict[str, int]:
    """The scores to show and their decimals: those of TASKS or TEXT that any run has."""
    known = {name for runs in results.scores.values() for run in runs.values() for name in run}
    return {name: form for name, form in (TASKS if is_task else TEXT).items() if name in known}


def sections(results: Results, metrics: dict[str, int]) -> list[Section]:
    """The parts of a report: the scores of the cells, their paired tests, and what failed."""
    parts = [
        Section(
            "Scores",
            "Each cell: mean ± standard deviation over the seeds (95% interval of the mean, by "
            "Student's t).",
            (table(results, metrics),),
        )
    ]
    if len(results.scores) > 1 and metrics:
        first = next(iter(results.scores))
        parts.append(
            Section(
                f"Differences from {first}",
                f"The mean of a cell's scores minus those of {first} with the same seeds (95% "
                "interval, by Student's t), and the p-value of the permutation test of signs, "
                "without a correction for several comparisons.",
                (comparisons(results, first, metrics),),
            )
        )
    if results.failed:
        rows = [*results.failed.items()]
        parts.append(Section("Failed", "", (Table(("run", "error"), rows),)))
    return parts


def table(results: Results, metrics: dict[str, int]) -> Table:
    """A row for each cell, and a column for each score."""
    rows = []
    for cell, runs in results.scores.items():
        columns = (_summary(results.summary(cell, name), form) for name, form in metrics.items())
        rows.append((cell, str(len(runs)), *columns))
    return Table(("cell", "seeds", *metrics), rows)


def comparisons(results: Results, first: str, metrics: dict[str, int]) -> Table:
    """A row for each cell but the first, with its differences and their p-values."""
    rows = []
    for cell in list(results.scores)[1:]:
        columns = [
            _paired(results.compare(cell, first, name), form) for name, form in metrics.items()
        ]
        rows.append((cell, *columns))
    return Table(("cell", *metrics), rows)


def _summary(summary: statistics.Summary | None, decimals: int) -> str:
    if summary is None:
        return NOTHING
    form = f".{decimals}f"
    if summary.seeds == 1:
        return number(summary.mean, form)
    low, high = number(summary.low, form), number(summary.high, form)
    return f"{summary.mean:{form}} ± {summary.spread:{form}} ({low} to {high})"


def _paired(paired: statistics.Paired | None, decimals: int) -> str:
    if paired is None:
        return NOTHING
    form = f"+.{decimals}f"
    if paired.seeds == 1:
        return number(paired.difference, form)
    low, high = number(paired.low, form), number(paired.high, form)
    return f"{paired.difference:{form}} ({low} to {high}), p = {paired.p:.2g}"
