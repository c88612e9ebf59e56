"""bahdanau prepare CONFIG --workdir DIR"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bahdanau_jax.cli import experiment, options, progress
from bahdanau_jax.reporting import say


@dataclass(frozen=True)
class Prepare(experiment.Experiment):
    """Fetch and tokenise the text, learn the vocabularies, and print statistics.

    stderr gets a table, stdout JSON. `bahdanau train` with the same folder then starts at once.
    """

    export: Path | None = None  # a folder for the corpora as text, with their gold alignments
    tfds: Path | None = None  # a folder for the corpora as a TFDS dataset, TFDS/NAME/1.0.0
    name: str = "tfds_writer"  # the name of the TFDS dataset

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau prepare quickstart --workdir runs/quickstart",
        "bahdanau prepare quickstart --workdir runs/quickstart --export text",
    )
    COMMON: ClassVar[Sequence[str]] = (
        "--data.train",
        "--data.dev",
        "--data.test",
        "--data.vocabulary",
        "--data.max-tokens",
        "--data.lowercase",
    )


def main(arguments: Sequence[str]) -> None:
    chosen = experiment.parse(Prepare, arguments, "bahdanau prepare")
    options.require(chosen, "name", "tfds")
    from bahdanau_jax import data, run
    from bahdanau_jax.report import corpus_report

    with progress.reporter() as reporter:
        statistics = run.prepare(chosen.settings, chosen.workdir, reporter.stage)
    say(corpus_report.write(statistics, chosen.workdir))
    if chosen.export is not None:
        for path in corpus_report.export(chosen.settings.data, chosen.export):
            say(f"written: {path}")
    if chosen.tfds is not None:
        folder = data.write_tfds(chosen.settings.data, chosen.tfds, chosen.name)
        say(f"written: {folder}")
    del statistics["lengths"]  # they are long; the picture and the store have them
    print(json.dumps(statistics, indent=2))
