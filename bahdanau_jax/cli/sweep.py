"""bahdanau sweep CONFIG --workdir DIR --seeds N --vary FIELD=A,B ..."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import tyro

from bahdanau_jax.cli import experiment, progress
from bahdanau_jax.reporting import say


@dataclass(frozen=True)
class Sweep(experiment.Experiment):
    """Train every combination of settings with several seeds, and compare their test scores.

    Each run has an ordinary run folder, WORKDIR/CELL/seed-N. The same command continues a sweep
    that was stopped. It also accepts more values and more seeds.
    """

    vary: tyro.conf.UseAppendAction[tuple[str, ...]] = ()  # FIELD=VALUE,VALUE; may be repeated
    seeds: int = 10  # seeds of each cell, from --training.seed on
    together: str = "auto"  # whether all seeds of a cell train in one program
    order: str = "alone"  # the order of the training data of seeds that train in one program
    metrics: str = ""  # scores of the table, separated by commas; default: those of the corpus

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau sweep primes --workdir sweeps/cell --vary model.cell=gru,tanh",
        "bahdanau sweep quickstart --workdir sweeps/both --seeds 5 \\\n"
        "    --vary model.order=paper,luong --vary model.attention=additive,dot",
    )
    COMMON: ClassVar[Sequence[str]] = (
        "--data.train",
        "--model.hidden-size",
        "--training.steps",
        "--training.seed",
    )


def main(arguments: Sequence[str]) -> int | None:
    asked = experiment.parse(Sweep, arguments, "bahdanau sweep")
    with progress.reporter() as reporter:
        from bahdanau_jax.experiments import product, sweep, write_report
        from bahdanau_jax.names import choose

        together = choose(TOGETHER, asked.together, "--together")
        first = asked.settings.training.seed
        varied = product(asked.settings, _fields(asked.vary))
        seeds = range(first, first + asked.seeds)
        results = sweep(varied, asked.workdir, seeds, together, asked.order, reporter=reporter)
        names = [name for name in asked.metrics.split(",") if name]
        text = write_report(asked.workdir, results, varied, names)
    print(text)
    for run, error in results.failed.items():
        say(f"bahdanau: {run} failed: {error}")
    return 2 if results.failed else None


TOGETHER = {"auto": None, "True": True, "False": False}


def _fields(vary: Sequence[str]) -> dict[str, list[str]]:
    """FIELD -> its values. Raises ValueError for text without "=" and for repeated fields."""
    fields: dict[str, list[str]] = {}
    for text in vary:
        field, equals, values = text.partition("=")
        if not equals or not field:
            raise ValueError(
                f"--vary {text}: expected FIELD=VALUE,VALUE, as model.order=paper,luong"
            )
        if field in fields:
            raise ValueError(f"--vary {field} is given twice: write its values with commas")
        fields[field] = [value for value in values.split(",") if value]
    return fields
