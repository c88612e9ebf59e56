"""bahdanau reproduce SUITE --workdir DIR"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from bahdanau_jax.cli import manual, options, progress
from bahdanau_jax.cli.choices import SUITES as DESCRIBED


@dataclass(frozen=True)
class Reproduce:
    """Run a suite of experiments and report on it: Markdown, an HTML page, figures and JSON.

    Each run has an ordinary run folder, WORKDIR/CELL/seed-N. The same command continues a suite
    that was stopped.
    """

    suite: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SUITE")]  # see below
    workdir: Path  # the folder of the suite
    quick: bool = False  # small models and few updates: it runs in minutes and proves nothing
    seeds: int = 0  # seeds of each cell; 0: as many as the suite has by default
    first_seed: int = 1  # the first of these seeds
    steps: int = 0  # updates of each run; 0: as many as the suite has by default
    train: str = ""  # paper: the address of the training pairs
    dev: str = ""  # paper: dev pairs, which choose checkpoints and are scored
    test: str = ""  # paper: further test pairs
    longer_train: str = ""  # paper: training pairs of a longer run of RNNsearch-50; "": train
    longer_steps: int = 0  # paper: the updates of that run; 0: there is no such run
    root: str = ""  # paper: the folder of relative files
    paper_size: bool = False  # paper: its sizes and its recipe, for an accelerator
    compute_dtype: Literal["bfloat16", "float32"] = "bfloat16"  # paper: that of the smaller models

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau reproduce ablations --workdir runs/ablations",
        "bahdanau reproduce lengths --workdir runs/lengths --quick True",
        "bahdanau reproduce paper --workdir runs/p --train text:a.en,a.fr --dev text:d.en,d.fr",
    )

    @staticmethod
    def listing() -> str:
        """The suites, for the help."""
        return manual.table("suites:", DESCRIBED)


def main(arguments: Sequence[str]) -> int | None:
    chosen = options.parse(Reproduce, arguments, "bahdanau reproduce")
    with progress.reporter() as reporter:
        from bahdanau_jax.experiments import SUITES, Request, reproduce
        from bahdanau_jax.names import choose

        suite = choose(SUITES, chosen.suite, "suite")
        fields = [field.name for field in dataclasses.fields(Request)]
        request = Request(**{name: getattr(chosen, name) for name in fields})
        text = reproduce(suite, chosen.workdir, request, reporter)
    print(text)
