"""bahdanau train CONFIG --workdir DIR"""

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bahdanau_jax.cli import BEGAN, experiment, progress
from bahdanau_jax.reporting import SILENT, say


@dataclass(frozen=True)
class Train(experiment.Experiment):
    """Train a model, then score it on the test pairs and draw what it looks at.

    On a folder that holds a run already, training goes on from its last checkpoint. Any field of
    the configuration can be set here, for example --training.steps 500. Ctrl-C saves and leaves.

    One run may have several processes, on one or several hosts. Those that SLURM, Open MPI,
    Kubernetes or Cloud TPU started find each other; elsewhere each is told by three options.
    """

    profile: str = ""  # FIRST:LAST, such as 10:15: trace these updates into WORKDIR/profile
    coordinator: str = ""  # HOST:PORT where process 0 listens; or BAHDANAU_COORDINATOR
    processes: int = 0  # how many there are, 1: no others; or BAHDANAU_PROCESSES
    process_id: int = -1  # which of them this is, from 0; or BAHDANAU_PROCESS_ID

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau train quickstart --workdir runs/quickstart",
        "bahdanau train quickstart --workdir runs/dot --model.attention dot",
        "bahdanau train my_config.py --workdir runs/mine --data.train tsv:pairs.tsv",
    )
    COMMON: ClassVar[Sequence[str]] = (
        "--data.train",
        "--data.dev",
        "--data.test",
        "--data.vocabulary",
        "--data.batch-size",
        "--model.attention",
        "--model.hidden-size",
        "--optimizer.learning-rate",
        "--training.steps",
        "--training.seed",
    )


def main(arguments: Sequence[str]) -> int | None:
    options = experiment.parse(Train, arguments, "bahdanau train")
    with progress.reporter() as reporter:
        if reporter.live:
            reporter.stage("starting")
        from bahdanau_jax import distributed, run, training

        run.check(options.settings)
        with distributed.connected(options.coordinator, options.processes, options.process_id):
            is_main, is_distributed = distributed.is_main_process(), distributed.is_distributed()
            reporter = reporter if is_main else SILENT
            try:
                trained = run.train(
                    options.settings, options.workdir, options.profile, BEGAN, reporter
                )
            except training.Interrupted as interrupted:  # whoever stopped it waits for no report
                if is_main:
                    say(f"bahdanau: {interrupted}")
                return 128 + signal.SIGTERM  # whoever counts 0 as done would not go on
        if is_distributed or not is_main:
            found = None
        else:
            from bahdanau_jax.report import report

            found = report.write(trained, reporter)
    if is_distributed and is_main:
        _go_on_alone(arguments)
    if found is not None:
        print(found)
        sys.stdout.flush()  # shown before what comes next, also where it goes through a buffer
        say(_next_command(options))


def _next_command(options: Train) -> str:
    """What a user may do with the run, to copy."""
    built_in = options.settings.data.train.startswith("builtin:en-fr")
    line = "The man saw a white house ." if built_in else "..."
    run = shlex.quote(str(options.workdir))
    return f"next: echo '{line}' | bahdanau translate --run {run}"


def _go_on_alone(arguments: Sequence[str]) -> None:
    """Become a process without others, whose finished run is then reported on.

    The devices and the memory of the training process are free for it, and reading a checkpoint
    would otherwise wait for the others.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    alone = ["train", *arguments, "--processes", "1"]
    os.execv(sys.executable, [sys.executable, "-m", "bahdanau_jax.cli.main", *alone])
