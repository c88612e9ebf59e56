"""The scores of a sweep, their table, and paired tests of its cells."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from bahdanau_jax.experiments import statistics
from bahdanau_jax.report import NOTHING, Section, Table, number
from bahdanau_jax.reported_scores import decimals

# Scores of text that are shown where a run has them; then those of tasks.
TEXT = ("BLEU", "chrF", "AER", "AER-share", "perplexity")
TASKS = ("exact", "PSA", "LCSR", "GeoMean")


Pairs = Sequence[tuple[str, str]]  # the cells of each comparison: the first minus the second


class Results(NamedTuple):
    """The scores of a sweep; runs that failed have an error instead."""

    scores: dict[str, dict[int, dict[str, Any]]]  # cell -> seed -> scores of the test pairs
    failed: dict[str, str]  # "CELL/seed-N" -> the error

    def values(self, cell: str, metric: str) -> dict[int, float]:
        """The seeds of a cell that have this score, and its values.

        >>> results.values("order=paper", "BLEU")
        {1: 91.8, 2: 92.1}
        """
        values = ((seed, scores.get(metric)) for seed, scores in self.scores[cell].items())
        return {seed: float(x) for seed, x in values if isinstance(x, int | float)}

    @property
    def seeds(self) -> str:
        """The number of seeds of a cell that has any; the fewest and the most where some failed."""
        counts = [len(runs) for runs in self.scores.values() if runs] or [0]
        low, high = min(counts), max(counts)
        return f"{low}" if low == high else f"{low} to {high}"

    @property
    def have_intervals(self) -> bool:
        """Whether any cell has two seeds, whose scores give an interval."""
        return any(len(runs) > 1 for runs in self.scores.values())

    def summary(self, cell: str, metric: str) -> statistics.Summary | None:
        """A score over the seeds of a cell; None where no seed has it.

        >>> results.summary("order=paper", "BLEU").mean
        91.95
        """
        values = [*self.values(cell, metric).values()]
        return statistics.summarize(values) if values else None

    def compare(self, first: str, second: str, metric: str) -> statistics.Paired | None:
        """Compare two cells by the seeds that both have; None where there are none.

        >>> results.compare("order=luong", "order=paper", "BLEU").difference
        0.4
        """
        ours, theirs = self.values(first, metric), self.values(second, metric)
        return statistics.compare_seeds(ours, theirs)

    def to_json(self) -> dict[str, Any]:
        """Return the results as a JSON object."""
        return {"scores": self.scores, "failed": self.failed}


def usual_metrics(results: Results, kinds: Collection[bool]) -> list[str]:
    """The scores to show: those that any run has.

    `kinds` says of each corpus whether it is a task on sequences (TASKS) or text (TEXT).
    """
    known = {name for runs in results.scores.values() for run in runs.values() for name in run}
    usual = (TASKS if True in kinds else ()) + (TEXT if False in kinds else ())
    return [name for name in usual if name in known]


def sections(
    results: Results, metrics: Sequence[str], pairs: Pairs | None = None, note: str = ""
) -> list[Section]:
    """The parts of a report: the scores of the cells, their paired tests, and what failed.

    `pairs` are the cells to compare; None: each cell with the first one. `note` follows the text
    on the scores.
    """
    parts = [Section("Scores", _of_scores(results, note), (table(results, metrics),))]
    if pairs is None:
        first, *others = results.scores
        pairs = [(cell, first) for cell in others]
    if pairs and metrics:
        text = (
            "The mean of the first cell's scores minus those of the second with the same seeds "
            "(95% interval, by Student's t), and the p-value of the permutation test of signs, "
            "without a correction for several comparisons. The test is exact for independent "
            "seeds, whether or not runs with the same seed have anything in common. Where the "
            "seeds of a cell share one order of the data, the test is about this order alone. "
            f"{_smallest_p(results, pairs)}"
        )
        compared = comparisons(results, pairs, metrics)
        parts.append(Section("Differences", text.strip(), (compared,)))
    if results.failed:
        rows = [*results.failed.items()]
        parts.append(Section("Failed", "", (Table(("run", "error"), rows),)))
    return parts


def _of_scores(results: Results, note: str) -> str:
    """The text on the scores of the cells, with a note on the intervals, if there are any."""
    if not results.have_intervals:
        return "No cell has the scores of two seeds, so that there are no intervals."
    text = (
        "Each cell: mean ± standard deviation over the seeds (95% interval of the mean, by "
        "Student's t, which can reach beyond the scale of a score). The intervals cover the seeds, "
        f"not the choice of the test pairs. {note}"
    )
    return text.strip()


def _smallest_p(results: Results, pairs: Pairs) -> str:
    """The smallest p-value that the paired tests can reach."""
    seeds = [len({*results.scores[a]} & {*results.scores[b]}) for a, b in pairs]
    most = max(seeds, default=0)
    if not most:
        return "No seed has scores in both cells, so that nothing is compared."
    if most < 2:
        return "One seed gives no interval and no p-value."
    smallest = statistics.smallest_p(most)
    text = f"With {most} seeds, the smallest possible p is {smallest:.2g}"
    return f"{text}, so that none is shown." if smallest > statistics.LARGEST_P else f"{text}."


def table(results: Results, metrics: Sequence[str]) -> Table:
    """A row for each cell, and a column for each score."""
    rows = []
    for cell, runs in results.scores.items():
        columns = (
            summary(results.summary(cell, name), decimals(name), len(runs)) for name in metrics
        )
        rows.append((cell, str(len(runs)), *columns))
    return Table(("cell", "seeds", *metrics), rows)


def comparisons(results: Results, pairs: Pairs, metrics: Sequence[str]) -> Table:
    """A row for each pair of cells, with its differences and their p-values."""
    rows = []
    for first, second in pairs:
        seeds = len({*results.scores[first]} & {*results.scores[second]})
        columns = (
            paired(results.compare(first, second, name), decimals(name), seeds) for name in metrics
        )
        rows.append((f"{first} minus {second}", *columns))
    return Table(("cells", *metrics), rows)


def summary(scores: statistics.Summary | None, decimals: int, seeds: int = 0) -> str:
    """A mean with its spread and interval, as text; it says if some of the `seeds` have no score.

    >>> summary(statistics.summarize([1.0]), 1, seeds=2)
    '1.0 (1 of 2 seeds)'
    """
    if scores is None:
        return NOTHING
    form = f".{decimals}f"
    part = f" ({scores.seeds} of {seeds} seeds)" if scores.seeds < seeds else ""
    if scores.seeds == 1:
        return f"{number(scores.mean, form)}{part}"
    low, high = number(scores.low, form), number(scores.high, form)
    return f"{scores.mean:{form}} ± {scores.spread:{form}} ({low} to {high}){part}"


def paired(compared: statistics.Paired | None, decimals: int, seeds: int = 0) -> str:
    """A difference with its interval and, where the seeds are enough for one, its p-value.

    It says if some of the `seeds` of both cells have no score.
    """
    if compared is None:
        return NOTHING
    form = f"+.{decimals}f"
    part = f" ({compared.seeds} of {seeds} seeds)" if compared.seeds < seeds else ""
    if compared.seeds == 1:
        return f"{number(compared.difference, form)}{part}"
    low, high = number(compared.low, form), number(compared.high, form)
    text = f"{compared.difference:{form}} ({low} to {high})"
    says = statistics.smallest_p(compared.seeds) <= statistics.LARGEST_P
    return f"{text}, p = {compared.p:.2g}{part}" if says else f"{text}{part}"
