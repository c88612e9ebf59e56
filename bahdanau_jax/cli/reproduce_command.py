"""bahdanau reproduce SUITE --workdir DIR"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from bahdanau_jax.cli import manual, options, progress
from bahdanau_jax.cli.choices import SUITES as DESCRIBED
from bahdanau_jax.cli.sweep_command import finish
from bahdanau_jax.names import choose
from bahdanau_jax.suite_request import Request


@dataclass(frozen=True)
class Reproduce:
    """Run a suite of experiments and report on it: Markdown, an HTML page, figures and JSON.

    Each run has an ordinary run folder, WORKDIR/CELL/seed-N. The same command continues a suite
    that was stopped.
    """

    suite: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SUITE")]  # one of the suites
    workdir: Path  # the folder of the suite, which is created, or whose suite is resumed
    settings: Annotated[Request, tyro.conf.arg(name="")] = Request()

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
        from bahdanau_jax.experiments import SUITES, reproduce

        suite = choose(SUITES, chosen.suite, "suite")
        text, failed = reproduce(suite, chosen.workdir, chosen.settings, reporter)
    return finish(text, failed)
