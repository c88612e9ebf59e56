"""The measured scores of the checkpoint that is exported, from the files of its run."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bahdanau_jax.export.front_matter import DEV_METRICS, TEST_METRICS
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.run_folder import METRICS, REPORT, SCORES
from bahdanau_jax.trained import Run
from bahdanau_jax.training import read_metrics


class Measured(NamedTuple):
    """Scores of one model on one set of pairs."""

    split: str  # "test", "dev", or "" where nothing was measured
    scores: dict[str, float]  # by their names in scores.json or in metrics.jsonl
    source: str  # the file of the run that has them, and the number of sentences, in words


NOTHING_MEASURED = Measured("", {}, "")


def measured(run: Run) -> Measured:
    """Return the scores of the run's report, or else those of the dev pairs in metrics.jsonl.

    A report on another checkpoint, on other pairs or with another search does not count, nor does
    an evaluation at another update. Both are of the moving average where the run has one.

    >>> measured(load("runs/quickstart")).scores["BLEU"]
    """
    if run.config.optimizer.ema and run.part == "params":
        return NOTHING_MEASURED
    steps = [used.step for used in run.chosen.used] if run.chosen else []
    report = _report(run)
    if scores := _numbers(report, TEST_METRICS) if _is_of_test(report, run, steps) else {}:
        return Measured(
            "test", scores, f"`{REPORT}/{SCORES}`, {report.get('sentences', 'all')} sentences"
        )
    lines = [line for line in read_metrics(run.folder) if [line["step"]] == steps]
    for line in reversed(lines):
        if scores := _numbers(line, DEV_METRICS):
            return Measured("dev", scores, f"`{METRICS}`, update {line['step']:,}")
    return NOTHING_MEASURED


def _report(run: Run) -> Mapping[str, Any]:
    """The scores of report/, or {} where there is no report on test pairs, or a damaged one."""
    try:
        report = parse_json((run.folder / REPORT / SCORES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return report if isinstance(report, Mapping) else {}


def _is_of_test(report: Mapping[str, Any], run: Run, steps: Sequence[int]) -> bool:
    """Whether a report is of these checkpoints, the run's test pairs and its own search."""
    checkpoint = report.get("checkpoint")
    return (
        isinstance(checkpoint, Mapping)
        and checkpoint.get("steps") == steps
        and report.get("pairs") == run.config.data.test
        and report.get("search") == dataclasses.asdict(run.config.decoding)
    )


def _numbers(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, float]:
    numbers = {name: values.get(name) for name in fields}
    return {
        name: value
        for name, value in numbers.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
