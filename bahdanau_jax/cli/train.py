"""bahdanau train CONFIG --workdir DIR"""

from collections.abc import Sequence
from dataclasses import dataclass

from bahdanau_jax.cli import experiment


@dataclass(frozen=True)
class Train(experiment.Experiment):
    """Train a model, then score it on the test pairs and draw what it looks at.

    On a folder that holds a run already, training goes on from its last checkpoint. Any field of
    the configuration can be set here, for example --training.steps 500.
    """


def main(arguments: Sequence[str]) -> None:
    options = experiment.parse(Train, arguments, "train")
    from bahdanau_jax import run
    from bahdanau_jax.experiments import report

    run.check(options.settings)
    run.train(options.settings, options.workdir)
    print(report.write(options.workdir))
