"""bahdanau sweep CONFIG --workdir DIR --seeds N --vary FIELD=A,B ..."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

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
    vmapped: Literal["auto", "yes", "no"] = "auto"  # train the seeds of a cell by vmapped updates
    order: Literal["shared", "own"] = "shared"  # the batches of seeds that train vmapped
    metrics: str = ""  # scores of the table, separated by commas; default: those of the corpus

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau sweep primes --workdir sweeps/cell --vary model.cell=gru,tanh",
        "bahdanau sweep quickstart --workdir sweeps/a --seeds 3 --vary model.order=paper,luong",
    )
    COMMON: ClassVar[Sequence[str]] = (
        "--data.train",
        "--model.hidden-size",
        "--training.steps",
        "--training.seed",
    )


def main(arguments: Sequence[str]) -> int | None:
    chosen = experiment.parse(Sweep, arguments, "bahdanau sweep")
    with progress.reporter() as reporter:
        from bahdanau_jax.experiments import product, sweep, write_report

        first = chosen.settings.training.seed
        varied = product(chosen.settings, _fields(chosen.vary))
        seeds = range(first, first + chosen.seeds)
        vmapped = VMAPPED[chosen.vmapped]
        results = sweep(varied, chosen.workdir, seeds, vmapped, chosen.order, reporter=reporter)
        names = [name for name in chosen.metrics.split(",") if name]
        text = write_report(chosen.workdir, results, varied, names)
    print(text)
    for run, error in results.failed.items():
        say(f"bahdanau: {run} failed: {error}")
    return 2 if results.failed else None


VMAPPED = {"auto": None, "yes": True, "no": False}


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
