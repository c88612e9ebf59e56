"""bahdanau train CONFIG --workdir DIR"""

import logging
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bahdanau_jax import run_folder
from bahdanau_jax.cli import BEGAN, PROGRAM, experiment, progress
from bahdanau_jax.config import Config
from bahdanau_jax.configurations import configuration, locate, shipped
from bahdanau_jax.reporting import SILENT, Reporter, say

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Train(experiment.Experiment):
    """Train a model, then score it on the test pairs and draw its attention.

    If the folder holds a run, its training is resumed from the last checkpoint. Any field of the
    configuration can be set here, for example --training.steps 500. Ctrl-C saves and exits.

    One run may have several processes, on one or several hosts. SLURM, Kubernetes,
    Cloud TPU and Open MPI up to version 4 connect them automatically; elsewhere each process needs
    the last three options.
    """

    dry_run: bool = False  # only predict parameters, shapes, memory and time of this training
    profile: str = ""  # FIRST:LAST; 10:15 traces updates 11 to 15 into WORKDIR/profile
    coordinator: str = ""  # HOST:PORT of process 0; or BAHDANAU_COORDINATOR
    processes: int = 0  # the number of processes; or BAHDANAU_PROCESSES
    process_id: int = -1  # the number of this process, from 0; or BAHDANAU_PROCESS_ID

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
    chosen = experiment.parse(Train, arguments, "bahdanau train")
    with progress.reporter() as reporter:
        if reporter.live:
            reporter.stage("starting")
        from bahdanau_jax import distributed, run, training

        run.check(chosen.settings)
        if chosen.dry_run and chosen.profile:
            raise ValueError("--dry-run trains nothing that --profile could trace: leave one out")
        if chosen.dry_run and distributed.is_one_of_several(
            chosen.coordinator, chosen.processes, chosen.process_id, os.environ
        ):
            raise ValueError(
                "--dry-run predicts the cost of one process: leave out the options and variables "
                "of several, and bahdanau launch"
            )
        if chosen.dry_run:
            return _predict(chosen, reporter)
        with distributed.connected(chosen.coordinator, chosen.processes, chosen.process_id):
            is_main, is_distributed = distributed.is_main_process(), distributed.is_distributed()
            _remark(chosen)
            reporter = reporter if is_main else SILENT
            try:
                trained = run.train(
                    chosen.settings, chosen.workdir, chosen.profile, BEGAN, reporter
                )
            except training.Interrupted as interrupted:
                if is_main:
                    say(f"bahdanau: {interrupted}")
                return 128 + signal.SIGTERM  # exit code 0 would mean that training is complete
        if is_distributed:
            summary = None
        else:
            from bahdanau_jax.report import report

            summary = report.write(trained, reporter)
    if is_distributed and is_main:
        _report_in_one_process(arguments)
    if summary is not None:
        print(summary)
        sys.stdout.flush()  # the summary comes before the next line also through a buffer
        say(_next_command(chosen))


def _remark(chosen: Train) -> None:
    """Warn about the user's own settings of a new run that have no effect with its other settings.

    These are the settings that differ from those of a shipped CONFIG, or from the defaults where
    CONFIG is another file.
    """
    from bahdanau_jax import distributed
    from bahdanau_jax.variants import changed_without_effect

    if distributed.is_main_process() and not (chosen.workdir / run_folder.CONFIG).exists():
        is_shipped = locate(chosen.config) in shipped().values()
        base = configuration(chosen.config) if is_shipped else Config()
        if lines := changed_without_effect(chosen.settings, base):
            log.warning("settings without effect: %s", "; ".join(lines))


def _predict(chosen: Train, reporter: Reporter) -> None:
    """Print what the training will cost. The data are those of the run folder, if it has them."""
    from bahdanau_jax import cost, data
    from bahdanau_jax.report import cost_report

    run_folder.check(chosen.workdir)
    with tempfile.TemporaryDirectory() as empty:
        has_run = (chosen.workdir / run_folder.CONFIG).exists()
        own = has_run or data.has_vocabulary(chosen.settings.data, chosen.workdir)
        predicted = cost.estimate(chosen.settings, chosen.workdir if own else Path(empty), reporter)
    print("\n".join(cost_report.lines(predicted)))


def _next_command(chosen: Train) -> str:
    """A command that translates with the run, to copy."""
    built_in = chosen.settings.data.train.startswith("builtin:en-fr")
    line = "The man saw a white house ." if built_in else "..."
    run = shlex.quote(str(chosen.workdir))
    return f"next: echo '{line}' | bahdanau translate --run {run}"


def _report_in_one_process(arguments: Sequence[str]) -> None:
    """Replace this process by one that is not distributed and writes the report of the run.

    This frees the devices and the memory of training. In a distributed process, reading a
    checkpoint would wait for the other processes.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    command = ["train", *arguments, "--processes", "1", "--profile", ""]
    os.execv(sys.executable, [*PROGRAM, *command])
