"""bahdanau sweep CONFIG --workdir DIR --seeds N --vary FIELD=A,B ..."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import tyro

from bahdanau_jax.cli import experiment, progress
from bahdanau_jax.cli.choices import CHOICES
from bahdanau_jax.names import choose
from bahdanau_jax.reporting import say

ADDRESSES = ("data.train", "data.dev", "data.test")  # the fields whose values may have commas
SEVERAL = re.compile(
    rf",\s*({'|'.join(kind.partition(':')[0] for kind in CHOICES['data.train'])}):"
)


@dataclass(frozen=True)
class Sweep(experiment.Experiment):
    """Train every combination of settings with several seeds, and compare their test scores.

    Each run has an ordinary run folder, WORKDIR/CELL/seed-N. The same command continues a sweep
    that was stopped. It also accepts more values and more seeds.
    """

    workdir: Path  # the folder of the sweep, which is created, or whose sweep is resumed
    # FIELD=VALUE,VALUE; may be repeated, also for more values of a field. An address of data.train,
    # data.dev or data.test is one value with its commas: repeat --vary for the next address
    vary: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    seeds: int = 10  # seeds of each cell, from --training.seed on
    vmapped: Literal["auto", "yes", "no"] = "auto"  # train the seeds of a cell by vmapped updates
    # the order of the batches: shared by the seeds of a cell, or each seed's own; auto: shared by
    # seeds that train vmapped
    order: Literal["auto", "shared", "own"] = "auto"
    processes: int = 1  # cells that train at the same time on a CPU, with a share of the cores each
    # scores of the table, separated by commas; default: those that are usual for the corpus
    metrics: str = ""

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
    metrics = [name.strip() for name in chosen.metrics.split(",") if name.strip()]
    for name in metrics:
        choose(CHOICES["sweep.metrics"], name, "score")
    with progress.reporter() as reporter:
        from bahdanau_jax.experiments import product, seed_range, sweep, with_dtypes, write_report

        first = chosen.settings.training.seed
        varied = product(chosen.settings, varied_fields(chosen.vary))
        varied = with_dtypes(varied, chosen.workdir)
        seeds = seed_range(first, chosen.seeds)
        vmapped = VMAPPED[chosen.vmapped]
        results = sweep(
            varied,
            chosen.workdir,
            seeds,
            vmapped,
            None if chosen.order == "auto" else chosen.order,
            processes=chosen.processes,
            reporter=reporter,
        )
        runs = [run for seeds in results.scores.values() for run in seeds.values()]
        missing = [name for name in metrics if not any(name in run for run in runs)]
        shown = [name for name in metrics if name not in missing]
        text = write_report(chosen.workdir, results, varied, shown)
    for name in missing:
        say(f"bahdanau: no run has the score {name}")
    return finish(text, results.failed)


VMAPPED = {"auto": None, "yes": True, "no": False}


def varied_fields(vary: Sequence[str]) -> dict[str, list[str]]:
    """The values of each field, from texts FIELD=VALUE,VALUE.

    Several texts may give values of one field. A text for a field in ADDRESSES has one value.
    Raises ValueError for text without "=", and for several addresses in one text.

    >>> varied_fields(["model.hidden-size=8,9", "model.hidden_size=16"])
    {'model.hidden_size': ['8', '9', '16']}
    """
    fields: dict[str, list[str]] = {}
    for text in vary:
        field, equals, written = text.partition("=")
        if not equals or not field:
            raise ValueError(
                f"--vary {text}: expected FIELD=VALUE,VALUE, as model.order=paper,luong"
            )
        field = field.replace("-", "_")
        if field in ADDRESSES and SEVERAL.search(written):
            raise ValueError(
                f"--vary {text}: commas belong to an address; repeat --vary {field}=ADDRESS for "
                "each address"
            )
        values = [written] if field in ADDRESSES else written.split(",")
        fields.setdefault(field, []).extend(value for value in values if value)
    return fields


def finish(text: str, failed: Mapping[str, str]) -> int | None:
    """Print the table of a sweep and the errors of its failed runs; return the exit code.

    >>> finish(text, {"order=paper/seed-2": "out of memory"})
    2
    """
    print(text)
    for run, error in failed.items():
        say(f"bahdanau: {run} failed: {error}")
    return 2 if failed else None
