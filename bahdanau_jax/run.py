"""Composition: a configuration and a folder become a trained model.

The run folder holds all that is known of a model: config.json, vocabulary/, checkpoints/,
metrics.jsonl. Everything with a side effect is reached from here.
"""

import contextlib
import dataclasses
import functools
import io
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from PIL import Image

from bahdanau_jax import data, decoding, model, training
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import Config, TrainingConfig
from bahdanau_jax.data import Plan, Prepared
from bahdanau_jax.evaluation import figures, scores
from bahdanau_jax.folder import same_data, same_experiment, updates_made
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.trained import CHECKPOINTS, CONFIG, Run, ensemble, load
from bahdanau_jax.variants import DEV_METRICS, check

__all__ = ["Run", "ensemble", "load", "prepare", "train"]

PROFILE = "profile"  # the folder of a trace
SHOWN = 2  # dev sentences whose alignment TensorBoard shows, the first ones


def prepare(
    config: Config, workdir: Path, stage: Callable[[str], None] = lambda name: None
) -> dict[str, Any]:
    """Learn the vocabulary and encode the training pairs; returns what was counted on the way.

    That is `data.Prepared.statistics`, and of an epoch its `steps`, their padded `shapes` (S, T),
    and the `padding`: padded positions of both sides over all. `stage` is told what is begun.
    """
    check(config)
    with training.lock(Path(workdir)):
        same_experiment(config, workdir)
        prepared = _prepared(config, workdir, stage)[1]
        plan = _plan(config, prepared)
        batches = {"steps": plan.steps(), "shapes": plan.cells, "padding": plan.padding()}
        return prepared.statistics | batches


def train(config: Config, workdir: Path, profile: str = "", began: float | None = None) -> Run:
    """Train in `workdir`, or go on there, until the configured steps; returns the best model.

    `profile`, "10:15", traces the updates from the tenth to the fifteenth into `workdir`/profile.
    The time to the first step counts from `began`, of time.perf_counter, or else from this call.
    Ctrl-C and SIGTERM save and raise training.Interrupted. Raises ValueError or OSError for wrong
    settings or data, and for a folder of another experiment or with another trainer.
    """
    began = time.perf_counter() if began is None else began
    check(config)
    workdir = Path(workdir)
    steps = config.training.steps
    traced = training.Profile.parse(profile, workdir / PROFILE, steps) if profile else None
    with training.lock(workdir) if training.first() else contextlib.nullcontext():
        made, outcome = updates_made(workdir), training.Outcome.FINISHED
        if made is not None and made > steps:
            same_experiment(config, workdir)
            told = f"{workdir} has {made} updates, and training.steps is {steps}: no update is left"
            if training.first():
                print(f"{told} to make; its config.json stays as it is", file=sys.stderr)
        else:
            config, prepared = training.first_then_others(lambda: _begun(config, workdir))
            outcome = _optimize(config, prepared, workdir, traced, began)
    if outcome is training.Outcome.INTERRUPTED:
        raise training.Interrupted(f"{workdir} is saved: run it again to go on")
    return load(workdir, trust_code=True)  # the caller's own configuration


def _begun(config: Config, workdir: Path) -> tuple[Config, Prepared]:
    """A folder that has all that training needs, and remembers what it is for."""
    same_experiment(config, workdir)
    config, prepared = _prepared(config, workdir)
    same_data(prepared.train, workdir)
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
    config: Config, workdir: Path, stage: Callable[[str], None] = lambda name: None
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


def _optimize(
    config: Config,
    prepared: Prepared,
    workdir: Path,
    profile: training.Profile | None,
    began: float,
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
    checkpoints = training.Checkpointer(
        workdir / CHECKPOINTS, settings.keep_checkpoints, training.Records.of(workdir)
    )
    monitor = training.Monitor(
        workdir, steps, log_every=settings.log_every, epoch_steps=plan.steps()
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
    ahead = training.Ahead(
        update,
        jax.eval_shape(begin, jax.eval_shape(init, seed)),
        map(backend.feed, data.each_shape(prepared.train, plan, needed, multiple)),
        data.cores(),
        lambda batch: monitor.compiling(start, batch),
        lambda program: monitor.first_step(time.perf_counter() - began, program),
        training.meet if training.together() else None,
    )
    with contextlib.closing(checkpoints), contextlib.closing(monitor), contextlib.closing(ahead):
        state = backend.place(begin(init(seed)))
        if devices.size > 1:
            monitor.note(training.memory(state, devices))
        state = checkpoints.restore(state) or state
        training.append_record(workdir, config, int(state.step))
        here = jax.process_index(), jax.process_count()
        evaluate = _evaluator(config, prepared, loss_fn, monitor) if prepared.dev else None
        return training.run(
            state,
            steps=steps,
            next_batches=data.train_batches(prepared.train, plan, int(state.step), *here, multiple),
            step_fn=lambda state, batch: ahead(state, backend.feed(batch)),
            evaluate=_alone(evaluate) if evaluate else None,
            checkpointer=checkpoints,
            monitor=monitor,
            config=settings,
            max_nonfinite=config.optimizer.max_nonfinite,
            telemetry=training.Telemetry(config.optimizer, steps),
            profile=profile,
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


def _evaluator(config: Config, prepared: Prepared, loss_fn, monitor: training.Monitor) -> Callable:
    """Dev scores of a training state: nll and accuracy per word, BLEU and exact matches of greedy
    translations, tokenised and in the case of the vocabulary, and the one of them that counts."""
    codecs, pairs = prepared.codecs, prepared.dev
    tokenize = codecs[1].tokenize
    sources, references = [p.source for p in pairs], [tokenize(p.target) for p in pairs]
    encoded = ((codecs[0].encode(p.source), codecs[1].encode(p.target)) for p in pairs)
    batches = data.dev_batches(data.Pairs.of(encoded), config.data)
    step = training.eval_step(loss_fn)
    greedy = dataclasses.replace(config.decoding, method="beam", beam_size=1)
    rank = DEV_METRICS[config.training.dev_metric]

    def evaluate(state) -> dict[str, float]:
        sums = [jax.device_get(step(state.weights, batch)) for batch in batches]
        words = sum(float(s.words) for s in sums)
        found = decoding.translate(config.model, state.weights, codecs, greedy, sources, 1)
        texts = [tokenize(best.text) for (best,) in found]
        _show(monitor, int(state.step), [best for (best,) in found[:SHOWN] if best.tokens])
        dev = {
            "loss": sum(float(s.nll) for s in sums) / words,
            "accuracy": sum(float(s.correct) for s in sums) / words,
            "bleu": scores.bleu(texts, references, "none").score,
            "exact": scores.accuracy(texts, references),
        }
        return {**dev, "score": rank(dev)}

    return evaluate


def _show(monitor: training.Monitor, step: int, found: Sequence[Hypothesis]) -> None:
    """Alignments as pictures. A script without a font is drawn as boxes, without a word of it."""
    for number, best in enumerate(found, 1):
        drawn = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", figures.MissingFont)
            figures.alignment(best).savefig(drawn, format="png", dpi=100)
        pixels = np.asarray(Image.open(drawn).convert("RGB"))
        monitor.picture(step, f"alignment/dev-{number}", pixels)
