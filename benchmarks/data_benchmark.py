"""Times the preparation of a corpus and the delivery of its batches, and counts their padding."""

import dataclasses
import functools
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bahdanau_jax import data
from bahdanau_jax.config import DataConfig
from bahdanau_jax.names import choose
from benchmarks import machine
from benchmarks.peers import process

# Kind of encoding -> settings of DataConfig.
ENCODERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "unigram": {"vocabulary": "sentencepiece", "subwords": "unigram", "tokenizer": "none"},
        "bpe": {"vocabulary": "sentencepiece", "subwords": "bpe", "tokenizer": "none"},
        "words": {"vocabulary": "words", "tokenizer": "moses"},
    }
)
SHAPES = (1, 2, 4, 8, 12, 16, 24, 48)
PACKAGES = ("numpy", "grain", "sentencepiece", "sacremoses", "loky")


def run(
    config: DataConfig,
    encoders: Sequence[str] = tuple(ENCODERS),
    repeats: int = 3,
    shapes: Sequence[int] = SHAPES,
) -> dict[str, Any]:
    """Measure the preparation of `data.train` with several encodings.

    Batches and padding are measured with the last encoding. Each preparation runs in a process of
    its own, for its peak memory. A text with too few pieces gets a smaller vocabulary.
    """
    config = dataclasses.replace(config, dev="", test="")
    chosen = {name: choose(ENCODERS, name, "kind of encoding") for name in encoders}
    next(data.pairs(config.train, config))  # raises errors of the corpus before any work
    results: dict[str, Any] = {"machine": machine.describe(PACKAGES), "prepare": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in chosen.items():
            ours = dataclasses.replace(config, **settings)
            workdir = Path(folder) / name
            results["prepare"][name] = _in_a_process(ours, workdir)
            ours = dataclasses.replace(ours, **results["prepare"][name]["sizes"])
        store = data.prepare(ours, workdir).train
        results["batches"] = deliver(store, ours, repeats)
        results["padding"] = padding(store, ours, shapes)
    return results


def _in_a_process(config: DataConfig, workdir: Path) -> dict[str, Any]:
    settings = json.dumps([dataclasses.asdict(config), str(workdir)])
    answer = process.result("the preparation", process.ours(__name__, settings))
    if "fault" in answer:
        raise ValueError(answer["fault"])
    return answer


def preparation(config: DataConfig, workdir: Path) -> dict[str, Any]:
    """Prepare a corpus: seconds of each stage, pairs per second, and peak memory with workers.

    `sizes` are the vocabulary sizes that differ from the configuration.
    """
    sizes: dict[str, int] = {}
    while True:
        times: list[tuple[str, float]] = []
        stage = functools.partial(_note, times)
        try:
            with machine.PeakMemory() as peak:
                prepared = data.prepare(dataclasses.replace(config, **sizes), workdir, stage)
            break
        except data.TooManyPieces as error:
            sizes[error.field.removeprefix("data.")] = error.most
    seconds = {name: end - start for (name, start), (_, end) in itertools.pairwise(times)}
    counts = prepared.statistics
    return {
        **{name: counts[name] for name in ("read", "kept", "tokens", "unk_rate")},
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "pairs_per_second": {
            "encode": round(counts["read"] / seconds["encode"]),
            "all": round(counts["read"] / sum(seconds.values())),
        },
        "peak_mib": round(peak.mib),
        "sizes": sizes,
    }


def _note(times: list[tuple[str, float]], stage: str) -> None:
    times.append((stage, time.perf_counter()))


def deliver(store: data.Store, config: DataConfig, repeats: int) -> dict[str, Any]:
    """Target words per second over 2,000 batches, for a consumer that does nothing.

    The batch before them waits until the pipeline has started, so its words do not count.
    """
    plan = data.Plan.of(store, config, 1)
    rates, count = [], 2_000
    for repeat in range(repeats):
        batches = data.train_batches(store, plan, repeat * count)
        next(batches)
        start, words = time.perf_counter(), 0.0
        for batch in itertools.islice(batches, count):
            words += float(batch.target_mask.sum())
        rates.append(words / (time.perf_counter() - start))
    return {
        "plan": config.plan,
        "target_words_per_second": round(statistics.median(rates)),
        "runs": [round(rate) for rate in rates],
    }


def padding(store: data.Store, config: DataConfig, shapes: Sequence[int]) -> dict[str, Any]:
    """The share of padded positions of both sides, by plan and number of shapes.

    `exact` has a shape for every batch, so its padding is that of the plan alone.
    """
    curves: dict[str, dict[str, float]] = {}
    seconds: dict[str, float] = {}
    for name in data.PLANS:
        curve = {}
        for count in shapes:
            start = time.perf_counter()
            ours = dataclasses.replace(config, plan=name, shapes=count)
            plan = data.Plan.of(store, ours, 1)
            seconds[f"{name} {count}"] = round(time.perf_counter() - start, 2)
            curve[str(count)] = round(plan.padding(), 4)
        epoch = plan.epoch(0)
        filled = sum(int(store.lengths[batch.rows].sum()) for batch in epoch)
        exact = sum(int(store.lengths[batch.rows].max(0).sum()) * batch.height for batch in epoch)
        curves[name] = {**curve, "exact": round(1 - filled / exact, 4)}
    return {"batch_size": config.batch_size, "share": curves, "seconds_to_plan": seconds}


def main() -> None:
    """The program of `_in_a_process`: print the result of `preparation`, or the user's `fault`."""
    fields, folder = json.loads(sys.argv[1])
    try:
        answer = preparation(DataConfig(**fields), Path(folder))
    except (ValueError, OSError) as error:
        answer = {"fault": str(error)}
    print(json.dumps(answer))
