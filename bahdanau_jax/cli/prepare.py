"""bahdanau prepare CONFIG --workdir DIR"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bahdanau_jax.cli import experiment


@dataclass(frozen=True)
class Prepare(experiment.Experiment):
    """Fetch and tokenise the text, build the vocabularies, and print what was found as JSON.

    `bahdanau train` with the same folder then starts at once.
    """


def main(arguments: Sequence[str]) -> None:
    options = experiment.parse(Prepare, arguments, "prepare")
    from bahdanau_jax import run

    run.check(options.settings)
    statistics = run.prepare(options.settings, options.workdir)
    print(json.dumps(statistics, indent=2, ensure_ascii=False))
