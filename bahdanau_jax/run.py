"""Composition: a configuration and a folder become a trained model.

The run folder holds all that is known of a model: config.json, vocabulary/, checkpoints/,
metrics.jsonl. Everything with a side effect is reached from here.
"""

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from bahdanau_jax import data, dev_scores, model, training
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import Config, TrainingConfig
from bahdanau_jax.data import Plan, Prepared
from bahdanau_jax.reporting import PLAIN, SILENT, Reporter
from bahdanau_jax.trained import CHECKPOINTS, CONFIG, Run, ensemble, load
from bahdanau_jax.variants import check

__all__ = ["Run", "ensemble", "load", "prepare", "train"]

PROFILE = "profile"  # the folder of a trace
TRAINED_ON = "trained_on"  # in store/: the digest of the pairs that the run began with


def prepare(
    config: Config, workdir: Path, stage: Callable[[str], object] = SILENT.stage
) -> dict[str, Any]:
    """Learn the vocabulary and encode the training pairs; returns what was counted on the way.

    That is `data.Prepared.statistics`, and of an epoch its `steps`, their padded `shapes` (S, T),
    and the `padding`: padded positions of both sides over all. `stage` is told what is begun.
    """
    check(config)
    with training.lock(Path(workdir)):
        _same_experiment(config, workdir)
        prepared = _prepared(config, workdir, stage)[1]
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
        config, prepared = training.first_then_others(lambda: _begun(config, workdir, reporter))
        outcome = _optimize(config, prepared, workdir, traced, began, reporter)
    if outcome is training.Outcome.INTERRUPTED:
        raise training.Interrupted(f"{workdir} is saved: run it again to go on")
    reporter.stage("loading the best checkpoint")
    return load(workdir)


def _begun(config: Config, workdir: Path, reporter: Reporter) -> tuple[Config, Prepared]:
    """A folder that has all that training needs, and remembers what it is for."""
    _same_experiment(config, workdir)
    config, prepared = _prepared(config, workdir, reporter.stage)
    _same_data(prepared.train, workdir)
    config = _with_kernel(config, prepared, workdir)
    if training.first():
        config.save(workdir / CONFIG)
    return config, prepared


def _with_kernel(config: Config, prepared: Prepared, workdir: Path) -> Config:
    """The configuration with the attention kernel that the run has, or that is faster here.

    Processes after the first find what it wrote into config.json.
    """
    known = (workdir / CONFIG).exists()
    before = Config.load(workdir / CONFIG).model.attention_kernel if known else ""

    def sizes() -> tuple[int, int, int]:
        return _plan(config, prepared).largest(config.training.accumulate * training.mesh().size)

    note = functools.partial(print, file=sys.stderr, flush=True)
    kernel = training.attention_kernel(config.model, before, sizes, note)
    model = dataclasses.replace(config.model, attention_kernel=kernel)
    return dataclasses.replace(config, model=model)


def _prepared(
    config: Config, workdir: Path, stage: Callable[[str], object]
) -> tuple[Config, Prepared]:
    """The data, and the configuration with the sizes that only the data knows."""
    prepared = data.prepare(config.data, workdir, stage, trained=(Path(workdir) / CONFIG).exists())
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


def _same_data(store: data.Store, workdir: Path) -> None:
    """Refuse a folder whose run began with other training pairs, whatever files they lie in."""
    record, digest = workdir / "store" / TRAINED_ON, store.statistics["digest"]
    if (workdir / CONFIG).exists() and record.exists():
        if record.read_text() != digest:
            raise ValueError(
                f"the text of data.train is no longer what the run in {workdir} began with: bring "
                "it back, or choose another folder"
            )
    else:
        record.write_text(digest)


def _same_experiment(config: Config, workdir: Path) -> None:
    """Refuse a folder whose run had another model, other data, optimiser or seed."""
    if not (Path(workdir) / CONFIG).exists():
        return
    before = Config.load(Path(workdir) / CONFIG)
    sizes = {
        side: getattr(before.model, side)
        for side in ("source_vocabulary", "target_vocabulary")
        if not getattr(config.model, side)
    }
    sizes["attention_kernel"] = before.model.attention_kernel  # computes the same, and may change
    now = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, **sizes),
        data=dataclasses.replace(
            config.data, root=before.data.root, processes=before.data.processes
        ),
    )
    differences = []
    for section in ("model", "data", "optimizer", "training"):
        old, new = getattr(before, section), getattr(now, section)
        for field in dataclasses.fields(old):
            was, is_now = getattr(old, field.name), getattr(new, field.name)
            if was != is_now and (section != "training" or field.name == "seed"):
                differences.append(f"{section}.{field.name} is {was!r}, not {is_now!r}")
    if differences:
        raise ValueError(
            f"{workdir} holds another run: its {'; its '.join(differences)}; choose another "
            "folder, or the settings it was made with"
        )


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
    checkpoints = training.Checkpointer(workdir / CHECKPOINTS, settings.keep_checkpoints)
    monitor = training.Monitor(
        workdir,
        steps,
        log_every=settings.log_every,
        epoch_steps=plan.steps(),
        reporter=reporter,
    )
    monitor.watch_programs()
    # Only the parameters are asked for, so the network itself is not traced.
    init = jax.jit(lambda key: network.init(key, method=lambda network: network.parts)["params"])
    begin = functools.partial(training.init_state, tx=optimizer, key=key, config=config.optimizer)
    update = training.train_step(
        loss_fn, optimizer, config.optimizer, backend, settings.accumulate, elementwise=True
    )
    multiple = devices.size * settings.accumulate
    start = max(checkpoints.steps(), default=0)
    needed = range(start, min(steps, start + plan.steps()) if _plans_ahead(settings) else start)
    examples = [*map(backend.feed, data.each_shape(prepared.train, plan, needed, multiple))]
    making = reporter.stage("compiling", len(examples) or None, "programs")
    ahead = training.Ahead(
        update,
        jax.eval_shape(begin, jax.eval_shape(init, seed)),
        examples,
        data.cores(),
        lambda batch: monitor.compiling(start, batch),
        lambda program: monitor.first_step(time.perf_counter() - began, program),
        training.meet if training.together() else None,
        made=making.advance,
    )
    with contextlib.closing(checkpoints), contextlib.closing(monitor), contextlib.closing(ahead):
        state = backend.place(begin(init(seed)))
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
            telemetry=training.Telemetry(config.optimizer, steps),
            profile=profile,
            ready=training.once_a_shape(lambda batch: ahead.program(backend.feed(batch))),
        )[1]


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
