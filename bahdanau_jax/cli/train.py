"""bahdanau train CONFIG --workdir DIR"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bahdanau_jax.cli import BEGAN, experiment


@dataclass(frozen=True)
class Train(experiment.Experiment):
    """Train a model, then score it on the test pairs and draw what it looks at.

    On a folder that holds a run already, training goes on from its last checkpoint. Any field of
    the configuration can be set here, for example --training.steps 500. Ctrl-C saves and leaves.
    """

    profile: str = ""  # FIRST:LAST, such as 10:15: trace these updates into WORKDIR/profile


def main(arguments: Sequence[str]) -> None:
    options = experiment.parse(Train, arguments, "train")
    from bahdanau_jax import run, training
    from bahdanau_jax.experiments import report

    run.check(options.settings)
    try:
        run.train(options.settings, options.workdir, options.profile, BEGAN)
    except training.Interrupted as interrupted:  # whoever stopped it waits for no report
        print(f"bahdanau: {interrupted}", file=sys.stderr)
        return
    print(report.write(options.workdir))
