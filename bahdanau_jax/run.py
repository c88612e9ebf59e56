"""Composition: a configuration and a folder become a trained model.

The run folder contains the whole model: config.json, vocabulary/, checkpoints/, metrics.jsonl. All
code with side effects is called from here.
"""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from bahdanau_jax import data, dev_scores, distributed, model, run_folder, training, variants
from bahdanau_jax.batch import SIDES
from bahdanau_jax.config import Config
from bahdanau_jax.data import Plan, Prepared
from bahdanau_jax.reporting import PLAIN, SILENT, Reporter
from bahdanau_jax.resuming import check_experiment, check_or_record_data
from bahdanau_jax.run_folder import CONFIG, PROFILE
from bahdanau_jax.trained import Run, load
from bahdanau_jax.user_code import is_code

log = logging.getLogger(__name__)


def check(config: Config) -> None:
    """Raise ValueError with all faults of the settings, one in each line.

    The user's own code is imported, and traced where there is no other fault.
    """
    variants.check_types(config)
    if faults := [*variants.faults(config), *training.faults(config)]:
        raise ValueError("\n".join(faults))
    model.check_score(config.model)
    if is_code(config.optimizer.name):
        shapes = model.shapes(config.model)
        training.check_optimizer(config.optimizer, config.training.steps, shapes)


def prepare(
    config: Config, workdir: Path, stage: Callable[[str], object] = SILENT.stage
) -> dict[str, Any]:
    """Learn the vocabulary and encode the training pairs; return statistics of the corpus.

    `data.Prepared.statistics` are those of all kept pairs. Others are of an epoch, which corpus
    weights and `data.limit_words` change: `epoch` has its pairs and tokens, `steps` is the number
    of its batches, `shapes` are their padded shapes (S, T), and `padding` is the share of padded
    positions of both sides. `stage` is called with the name of each stage.

    Raises ValueError or OSError for faults of the settings, the text or the folder.

    >>> prepare(bj.configuration("quickstart"), Path("runs/quickstart"))["padding"]
    """
    check(config)
    workdir = Path(workdir)
    with run_folder.lock(workdir):
        check_experiment(with_named_dtype(config, workdir), workdir)
        _refuse_other_corpora(config, workdir)
        prepared = with_data(config, workdir, stage)[1]
        _remark(config, workdir)
        plan = Plan.of(prepared.train, config.data, config.training.seed)
        tokens = (prepared.train.lengths[plan.rows()] - 1).sum(0).tolist()  # without EOS
        of_sides = dict(zip(SIDES, tokens, strict=True))
        epoch = {"pairs": len(plan.rows()), "tokens": of_sides}
        batches = {"steps": plan.steps(), "shapes": plan.shapes, "padding": plan.padding()}
        return prepared.statistics | {"epoch": epoch} | batches


def train(
    config: Config,
    workdir: Path,
    profile: str = "",
    began: float | None = None,
    reporter: Reporter = PLAIN,
    evaluators: Sequence[training.Evaluator] = (),
) -> Run:
    """Train in `workdir`, or resume there, until the configured steps; return the best model.

    Ctrl-C and SIGTERM save the run and raise training.Interrupted. Raises training.Diverged where
    `optimizer.max_nonfinite` gradients in a row were not finite, or weights at a save. Raises
    ValueError or OSError for wrong settings or data, and for a folder of another experiment or one
    in use by a trainer.

    Args:
        profile: "10:15" traces the five updates after the tenth into `workdir`/profile.
        began: the time to the first step counts from this value of time.perf_counter; by default,
            from this call.
        reporter: shows the stages and the progress.
        evaluators: run together with the dev scores.
    """
    began = time.perf_counter() if began is None else began
    check(config)
    training.dispatch_updates(config)
    jax.local_devices()  # where there is none, this is an error before the data is prepared
    workdir = Path(workdir)
    config = with_named_dtype(config, workdir)
    steps = config.training.steps
    traced = training.Profile.parse(profile, workdir / PROFILE, steps) if profile else None
    with run_folder.lock(workdir) if distributed.is_main_process() else contextlib.nullcontext():
        outcome = training.Outcome.FINISHED
        made = int(distributed.broadcast({"updates": run_folder.updates_made(workdir)})["updates"])
        if made > steps:
            check_experiment(config, workdir)
            text = f"{workdir} has {made} updates, and training.steps is {steps}: no update is left"
            if distributed.is_main_process():
                reporter.note(f"{text} to make; its config.json stays as it is")
        else:
            config, prepared = distributed.main_process_first(
                lambda: _begin(config, workdir, reporter)
            )
            trainer = training.Trainer(config)
            dev = [dev_scores.evaluator(config, prepared)] if prepared.dev else []
            outcome = training.train_and_evaluate(
                trainer, prepared.train, workdir, [*dev, *evaluators], began, reporter, traced
            )
    if outcome is training.Outcome.INTERRUPTED:
        if run_folder.updates_made(workdir) > 0:
            raise training.Interrupted(f"{workdir} is saved: run it again to go on")
        raise training.Interrupted(f"{workdir} was stopped before its first save: run it again")
    reporter.stage("loading the best checkpoint")
    return load(workdir, trust_code=True)  # the caller's own configuration


def train_vmapped(
    configs: Sequence[Config],
    workdirs: Sequence[Path],
    order: str = training.OWN,
    first_seed: int | None = None,
    reporter: Reporter = PLAIN,
) -> dict[int, Exception]:
    """Train runs that differ in their seeds alone by vmapped updates, or resume them.

    They go on from their newest common step, and begin again where they have none: checkpoints of
    later steps are removed. Each folder becomes an ordinary run folder. `order` is a key of
    `training.DATA_ORDERS`; in a shared order, the batches are those of `first_seed`, by default the
    seed of the first run.

    Returns the errors of the runs that diverged, by their index. Raises as `train` does, and
    ValueError for configurations that differ in another setting, and for settings that such runs do
    not have (`training.why_not_vmapped`).
    """
    began, first = time.perf_counter(), configs[0]
    for config in configs:
        check(config)
        seed = dataclasses.replace(config.training, seed=first.training.seed)
        if dataclasses.replace(config, training=seed) != first:
            raise ValueError("runs that train vmapped may differ in training.seed alone")
    if why := training.why_not_vmapped(first.training):
        raise ValueError(why)
    workdirs = [Path(workdir) for workdir in workdirs]
    begun_before = next((each for each in workdirs if (each / CONFIG).exists()), workdirs[0])
    configs = [with_named_dtype(config, begun_before) for config in configs]
    with contextlib.ExitStack() as stack:
        for workdir in workdirs:
            stack.enter_context(run_folder.lock(workdir))
        begun = [
            _begin(config, workdir, reporter)
            for config, workdir in zip(configs, workdirs, strict=True)
        ]
        prepared = begun[0][1]
        outcome, failed = training.train_vmapped(
            [training.Trainer(config) for config, _ in begun],
            prepared.train,
            workdirs,
            [dev_scores.evaluator(begun[0][0], prepared)] if prepared.dev else [],
            order,
            first_seed,
            began,
            reporter,
        )
    if outcome is training.Outcome.INTERRUPTED:
        runs = f"{len(workdirs)} runs"
        if all(run_folder.updates_made(each) > 0 for each in workdirs):
            raise training.Interrupted(f"{runs} are saved: run them again to go on")
        raise training.Interrupted(f"{runs} were stopped before their first save: run them again")
    return dict(failed)


def with_named_dtype(config: Config, workdir: Path) -> Config:
    """The configuration with a named compute dtype in place of "auto".

    It is that of the folder's run; in a new folder, the fastest one on the machine of process 0.
    """
    if config.model.compute_dtype != model.AUTO:
        return config
    found = workdir / CONFIG
    chosen = Config.load(found).model if found.exists() else model.with_named_dtype(config.model)
    names = sorted(model.COMPUTE_DTYPES)
    numbers = distributed.broadcast({"dtype": names.index(chosen.compute_dtype)})
    named = dataclasses.replace(config.model, compute_dtype=names[int(numbers["dtype"])])
    return dataclasses.replace(config, model=named)


def _begin(config: Config, workdir: Path, reporter: Reporter) -> tuple[Config, Prepared]:
    """Check the folder, prepare the data and save the configuration, unless no update is left."""
    check_experiment(config, workdir)
    _refuse_other_corpora(config, workdir)
    config, prepared = with_data(config, workdir, reporter.stage)
    check_or_record_data(prepared, workdir)
    _remark(config, workdir)
    made = run_folder.updates_made(workdir)
    if distributed.is_main_process() and made <= config.training.steps:
        run_folder.forget_import(workdir)
        config.save(workdir / CONFIG)
    return config, prepared


def with_data(
    config: Config, workdir: Path, stage: Callable[[str], object] = SILENT.stage
) -> tuple[Config, Prepared]:
    """The configuration with the vocabulary sizes from the data, and the data.

    A trained model keeps its vocabulary, whatever its text has become.
    """
    trained = (Path(workdir) / CONFIG).exists()
    prepared = data.prepare(
        config.data, workdir, stage, trained=trained, writes=distributed.is_main_process()
    )
    source, target = (len(codec.vocabulary) for codec in prepared.codecs)
    config = config.with_vocabularies(
        config.model.source_vocabulary or source, config.model.target_vocabulary or target
    )
    remedy = "leave out model.source_vocabulary and model.target_vocabulary"
    data.check_sizes(prepared.codecs, config.model, "", remedy)
    return config, prepared


def _refuse_other_corpora(config: Config, workdir: Path) -> None:
    """Raise ValueError where a new run has dev or test pairs of another corpus."""
    lines = data.remarks.on_other_corpora(config.data)
    if lines and not (Path(workdir) / CONFIG).exists():
        raise ValueError("\n".join(lines))


def _remark(config: Config, workdir: Path) -> None:
    """Warn about missing dev or test pairs and, for a new run, about languages and vocabulary."""
    lines = data.remarks.on_splits(config.data)
    if not (Path(workdir) / CONFIG).exists():
        lines += data.remarks.on_languages(config.data) + data.remarks.on_words(config.data)
    for line in lines if distributed.is_main_process() else ():
        log.warning("%s", line)
