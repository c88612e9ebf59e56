"""Composition: a configuration and a folder become a trained model.

The run folder holds all that is known of a model: config.json, vocabulary/, checkpoints/,
metrics.jsonl. Everything with a side effect is reached from here.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from bahdanau_jax import data, dev_scores, model, training
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import Config, OptimizerConfig, TrainingConfig
from bahdanau_jax.data import Plan, Prepared
from bahdanau_jax.reporting import PLAIN, SILENT, Reporter
from bahdanau_jax.resuming import same_data, same_experiment, updates_made
from bahdanau_jax.run_folder import CHECKPOINTS, CONFIG
from bahdanau_jax.trained import Run, ensemble, load
from bahdanau_jax.variants import check

__all__ = ["Run", "ensemble", "load", "prepare", "train"]

PROFILE = "profile"  # the folder of a trace


def prepare(
    config: Config, workdir: Path, stage: Callable[[str], object] = SILENT.stage
) -> dict[str, Any]:
    """Learn the vocabulary and encode the training pairs; returns what was counted on the way.

    That is `data.Prepared.statistics`, and of an epoch its `steps`, their padded `shapes` (S, T),
    and the `padding`: padded positions of both sides over all. `stage` is told what is begun.
    """
    check(config)
    with training.lock(Path(workdir)):
        same_experiment(config, workdir)
        _refuse_other_corpora(config, workdir)
        prepared = _prepared(config, workdir, stage)[1]
        _remark(config, workdir)
        plan = _plan(config, prepared)
        batches = {"steps": plan.steps(), "shapes": plan.cells, "padding": plan.padding()}
        return prepared.statistics | batches


def train(
    config: Config,
    workdir: Path,
    profile: str = "",
    began: float | None = None,
    reporter: Reporter = PLAIN,
) -> Run:
    """Train in `workdir`, or go on there, until the configured steps; returns the best model.

    `profile`, "10:15", traces the updates from the tenth to the fifteenth into `workdir`/profile.
    The time to the first step counts from `began`, of time.perf_counter, or else from this call.
    `reporter` is told of the stages. Ctrl-C and SIGTERM save and raise training.Interrupted. Raises
    ValueError or OSError for wrong settings or data, and for a folder of another experiment or with
    another trainer.
    """
    began = time.perf_counter() if began is None else began
    check(config)
    workdir = Path(workdir)
    steps = config.training.steps
    traced = training.Profile.parse(profile, workdir / PROFILE, steps) if profile else None
    with training.lock(workdir) if training.first() else contextlib.nullcontext():
        outcome = training.Outcome.FINISHED
        made = int(training.agreed({"updates": updates_made(workdir)})["updates"])
        if made > steps:
            same_experiment(config, workdir)
            told = f"{workdir} has {made} updates, and training.steps is {steps}: no update is left"
            if training.first():
                reporter.note(f"{told} to make; its config.json stays as it is")
        else:
            config, prepared = training.first_then_others(lambda: _begun(config, workdir, reporter))
            outcome = _optimize(config, prepared, workdir, traced, began, reporter)
    if outcome is training.Outcome.INTERRUPTED:
        raise training.Interrupted(f"{workdir} is saved: run it again to go on")
    reporter.stage("loading the best checkpoint")
    return load(workdir, trust_code=True)  # the caller's own configuration


def _begun(config: Config, workdir: Path, reporter: Reporter) -> tuple[Config, Prepared]:
    """A folder that has all that training needs, and remembers what it is for."""
    same_experiment(config, workdir)
    _refuse_other_corpora(config, workdir)
    config, prepared = _prepared(config, workdir, reporter.stage)
    same_data(prepared, workdir)
    _remark(config, workdir)
    if training.first():
        config.save(workdir / CONFIG)
    return config, prepared


def _prepared(
    config: Config, workdir: Path, stage: Callable[[str], object]
) -> tuple[Config, Prepared]:
    """The data, and the configuration with the sizes that only the data knows."""
    known = (Path(workdir) / CONFIG).exists()
    prepared = data.prepare(config.data, workdir, stage, trained=known, mend=training.first())
    sizes = {}
    for side, codec in zip(("source", "target"), prepared.codecs, strict=True):
        field, entries = f"{side}_vocabulary", len(codec.vocabulary)
        if (rows := getattr(config.model, field)) not in (0, entries):
            raise ValueError(
                f"model.{field} is {rows}, but vocabulary/{side} has {entries} entries: leave the "
                "field out, or set it to that number"
            )
        sizes[field] = entries
    return dataclasses.replace(config, model=dataclasses.replace(config.model, **sizes)), prepared


def _plan(config: Config, prepared: Prepared) -> Plan:
    store = prepared.train
    return Plan(store.lengths, config.data, config.training.seed, store.corpora(config.data))


def _refuse_other_corpora(config: Config, workdir: Path) -> None:
    """Raise ValueError where a new run would be scored on a corpus that it is not trained on."""
    lines = data.remarks.on_other_corpora(config.data)
    if lines and not (Path(workdir) / CONFIG).exists():
        raise ValueError("\n".join(lines))


def _remark(config: Config, workdir: Path) -> None:
    """Say on stderr what is not measured and, of a new run, which vocabulary would fit better."""
    lines = data.remarks.on_splits(config.data)
    if not (Path(workdir) / CONFIG).exists():
        lines += data.remarks.on_words(config.data)
    for line in lines if training.first() else ():
        print(f"bahdanau: {line}", file=sys.stderr)


def _optimize(
    config: Config,
    prepared: Prepared,
    workdir: Path,
    profile: training.Profile | None,
    began: float,
    reporter: Reporter,
) -> training.Outcome:
    network = model.Seq2Seq(config.model)
    smoothing = config.optimizer.label_smoothing

    def loss_fn(params, batch: Batch, key):
        return network.apply({"params": params}, batch, key, smoothing if key is not None else 0.0)

    settings, devices = config.training, training.mesh()
    backend = training.BACKENDS[settings.parallel](devices, settings.shard)
    plan = _plan(config, prepared)
    seed, key = jax.random.split(jax.random.key(config.training.seed))
    steps = settings.steps
    optimizer = training.make(config.optimizer, steps)
    # What is known of an optimiser: that it is elementwise, and what its accumulators mean.
    built_in = config.optimizer.name in training.OPTIMIZERS
    checkpoints = training.Checkpointer(
        workdir / CHECKPOINTS, settings.keep_checkpoints, training.Records.of(workdir)
    )
    monitor = training.Monitor(
        workdir,
        steps,
        log_every=settings.log_every,
        epoch_steps=plan.steps(),
        reporter=reporter,
    )
    monitor.watch_programs()
    begin = _first_state(network, optimizer, key, config.optimizer)
    update = training.train_step(
        loss_fn, optimizer, config.optimizer, backend, settings.accumulate, elementwise=built_in
    )
    multiple = devices.size * settings.accumulate
    start = max(checkpoints.steps(), default=0)
    needed = range(start, min(steps, start + plan.steps()) if _plans_ahead(settings) else start)
    examples = [*map(backend.feed, data.each_shape(prepared.train, plan, needed, multiple))]
    making = reporter.stage("compiling", len(examples) or None, "programs")
    ahead = training.Ahead(
        update,
        jax.eval_shape(begin, seed),
        examples,
        max(1, data.cores() // 2),  # the compiler takes nearly two for each program
        lambda batch: monitor.compiling(start, batch),
        lambda program: monitor.first_step(time.perf_counter() - began, program),
        training.meet if training.together() else None,
        made=making.advance,
    )
    with contextlib.closing(checkpoints), contextlib.closing(monitor), contextlib.closing(ahead):
        state = backend.place(begin(seed))
        if devices.size > 1:
            monitor.note(training.memory(state, devices))
        state = checkpoints.restore(state) or state
        training.append_record(workdir, config, int(state.step))
        here = jax.process_index(), jax.process_count()
        evaluate = None
        if prepared.dev:
            evaluate = _alone(dev_scores.evaluator(config, prepared, loss_fn, monitor))
        return training.run(
            state,
            steps=steps,
            next_batches=data.train_batches(prepared.train, plan, int(state.step), *here, multiple),
            step_fn=lambda state, batch: ahead(state, backend.feed(batch)),
            evaluate=evaluate,
            checkpointer=checkpoints,
            monitor=monitor,
            config=settings,
            max_nonfinite=config.optimizer.max_nonfinite,
            telemetry=training.Telemetry(config.optimizer, steps) if built_in else None,
            profile=profile,
            ready=training.once_a_shape(lambda batch: ahead.program(backend.feed(batch))),
        )[1]


def _first_state(network: model.Seq2Seq, optimizer, key, config: OptimizerConfig) -> Callable:
    """One program from the seed to the state before the first update."""

    @jax.jit
    def begin(seed) -> training.TrainState:
        # Only the parameters are asked for, so the network itself is not traced.
        params = network.init(seed, method=lambda network: network.parts)["params"]
        return training.init_state(params, optimizer, key, config)

    return begin


def _plans_ahead(settings: TrainingConfig) -> bool:
    """Several processes make their programs in the same order, hence when they are needed."""
    return settings.parallel == "jit" and jax.process_count() == 1


def _alone(evaluate: Callable) -> Callable:
    """The evaluation on one device of each process, with the weights that are there already.

    So no process waits for another in it; what counts is what the first one finds.
    """

    def evaluated(state) -> dict[str, float]:
        weights = training.gathered(state.weights)
        return training.agreed(evaluate(state.replace(params=weights, ema=())))

    return evaluated
