"""bahdanau prepare CONFIG --workdir DIR"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bahdanau_jax.cli import experiment


@dataclass(frozen=True)
class Prepare(experiment.Experiment):
    """Fetch and tokenise the text, build the vocabularies, and say what was found.

    A table goes to stderr and JSON to stdout. `bahdanau train` with the same folder then starts at
    once.
    """


def main(arguments: Sequence[str]) -> None:
    options = experiment.parse(Prepare, arguments, "prepare")
    from bahdanau_jax import run
    from bahdanau_jax.experiments import corpus

    statistics = run.prepare(options.settings, options.workdir)
    print(corpus.write(statistics, options.workdir), file=sys.stderr)
    del statistics["lengths"]  # long; the picture shows them, and the store keeps them
    print(json.dumps(statistics, indent=2, ensure_ascii=False))
