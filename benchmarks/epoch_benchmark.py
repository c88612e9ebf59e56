"""Times a real epoch: every padded batch of a corpus, with the work of the host.

Its time and memory are compared with what `bahdanau train --dry-run True` predicts.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax

from bahdanau_jax import cost, data, training
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import Config
from bahdanau_jax.training import Trainer
from benchmarks import machine, updates
from benchmarks.program_cache import empty_cache

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "grain")


def run(config: Config, workdir: Path, epochs: int = 1, batches: int = 0) -> dict[str, Any]:
    """Train for `epochs` epochs of `batches` batches (0: all), after all shapes are compiled.

    `workdir` keeps the prepared corpus. `predicted` has the seconds of these updates and the peak
    memory that a dry run in a process of its own predicts, each with the quotient of the measured
    and the predicted number. `host_share` is the share of time in which training waits for
    batches and places them. `device_seconds` are those of the same updates with batches that are
    on the device already.
    """
    updates.as_a_training(config)
    predicted = _predicted(_trained_alone(config), workdir)
    config = predicted.config
    store = data.prepare(config.data, workdir).train
    plan = data.Plan.of(store, config.data, config.training.seed)
    steps = min(batches, plan.steps()) if batches else plan.steps()
    trainer = Trainer(config)
    backend, multiple = trainer.backend, trainer.row_multiple
    state = backend.place(trainer.begin())
    shapes = [*map(backend.feed, data.each_shape(store, plan, range(steps), multiple))]
    start = time.perf_counter()
    with contextlib.closing(training.Ahead(trainer.update, state, shapes)) as ahead:
        for shape in shapes:
            ahead.program(shape)
        results: dict[str, Any] = {
            "machine": machine.describe(PACKAGES),
            "device": machine.device(),
            "compute_dtype": config.model.compute_dtype,
            "steps": steps,
            "shapes": plan.shapes,
            "padding": round(plan.padding(), 4),
            "compile_seconds": round(time.perf_counter() - start, 2),
        }
        rounds, peak = [], None
        for _ in range(epochs):
            batches_of = functools.partial(data.train_batches, store, plan, multiple=multiple)
            state, timed = _epoch(ahead, state, itertools.islice(batches_of(), steps), backend)
            peak = peak or cost.peak_memory()  # before the batches of an epoch are on the device
            state, device_seconds = _on_device(
                ahead, state, itertools.islice(batches_of(), steps), backend
            )
            host = (timed["next_seconds"] + timed["placing_seconds"]) / timed["seconds"]
            rounds.append({**timed, "device_seconds": device_seconds, "host_share": host})
    medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    results["predicted"] = {
        "seconds": beside(medians["seconds"], _seconds(predicted, plan, steps)),
        "memory_mib": beside(_mib(peak), _mib(predicted.peak)),
    }
    return {**results, **_rounded(medians), "epochs": [_rounded(each) for each in rounds]}


def _predicted(config: Config, workdir: Path) -> cost.Cost:
    """What a dry run predicts in a process of its own, which keeps its programs for itself."""
    fresh = multiprocessing.get_context("spawn")
    with empty_cache(), concurrent.futures.ProcessPoolExecutor(1, mp_context=fresh) as process:
        return process.submit(cost.estimate, config, workdir).result()


def _seconds(predicted: cost.Cost, plan: data.Plan, steps: int) -> float:
    """The predicted seconds of the first updates of an epoch."""
    of = {each.shape: each.seconds for each in predicted.shapes}
    return sum(of[each.shape] for each in plan.epoch(0)[:steps])


def _mib(size: int | None) -> float | None:
    return None if size is None else size / 2**20


def beside(measured: float | None, predicted: float | None) -> dict[str, float | None]:
    """Both numbers and measured / predicted; None where a number is unknown."""
    quotient = measured / predicted if measured is not None and predicted else None
    values = {"predicted": predicted, "measured": measured, "quotient": quotient}
    return {name: None if value is None else round(value, 4) for name, value in values.items()}


def _trained_alone(config: Config) -> Config:
    """The configuration without dev and test pairs."""
    settings = dataclasses.replace(config.data, dev="", test="")
    length = dataclasses.replace(config.training, patience=0)
    return dataclasses.replace(config, data=settings, training=length)


def _epoch(step, state, source: Iterable[Batch], backend) -> tuple[Any, dict[str, float]]:
    """Run an epoch like the training loop: fetch the sums of a step while the next one runs."""
    start, waited, fed, words, pending = time.perf_counter(), 0.0, 0.0, 0.0, None
    batches = iter(source)
    while True:
        requested = time.perf_counter()
        batch = next(batches, None)
        received = time.perf_counter()
        waited += received - requested
        if batch is None:
            break
        placed = backend.feed(batch)
        fed += time.perf_counter() - received
        state, sums = step(state, placed)
        if pending is not None:
            words += float(pending.words)
        pending = sums
    if pending is not None:
        words += float(pending.words)
    seconds = time.perf_counter() - start
    rates = {"target_words": words, "target_words_per_second": words / seconds}
    return state, {"seconds": seconds, **rates, "next_seconds": waited, "placing_seconds": fed}


def _on_device(step, state, source: Iterable[Batch], backend) -> tuple[Any, float]:
    """The seconds of the same updates with batches that are placed before."""
    placed = [*map(backend.feed, source)]
    jax.block_until_ready((placed, state))
    start = time.perf_counter()
    for batch in placed:
        state, _ = step(state, batch)
    jax.block_until_ready(state)
    return state, time.perf_counter() - start


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}
