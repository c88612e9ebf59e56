"""How fast text becomes batches: preparing a corpus, delivering its batches, and their padding."""

import dataclasses
import functools
import itertools
import json
import statistics
import subprocess
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

# The ways to encode, as settings beside those of the corpus.
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
    """Measure `data.train` prepared in several ways; batches and padding are those of words, or
    else of the last way.

    Each preparation has a process of its own, so that its peak memory is its own. Where the text
    gives fewer pieces than a vocabulary should have, the vocabulary has as many as it gives.
    """
    config = dataclasses.replace(config, dev="", test="")
    next(data.pairs(config.train, config))  # what is wrong with it is said here, before any work
    found: dict[str, Any] = {"machine": machine.describe(PACKAGES), "prepare": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in encoders:
            way = choose(ENCODERS, name, "way to encode")
            ours = dataclasses.replace(config, **way)
            workdir = Path(folder) / name
            found["prepare"][name] = _in_a_process(ours, workdir)
            ours = dataclasses.replace(ours, **found["prepare"][name]["sizes"])
        store = data.prepare(ours, workdir).train
        found["batches"] = deliver(store, ours, repeats)
        found["padding"] = padding(store, ours, shapes)
    return found


def _in_a_process(config: DataConfig, workdir: Path) -> dict[str, Any]:
    settings = json.dumps([dataclasses.asdict(config), str(workdir)])
    command = [sys.executable, "-c", f"from {__name__} import main; main()", settings]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout)
    if "fault" in answer:
        raise ValueError(answer["fault"])
    return answer


def preparation(config: DataConfig, workdir: Path) -> dict[str, Any]:
    """Seconds of each stage, pairs/s of the last one, which encodes, and the peak memory of this
    process and its workers together; `sizes` are those settings of the vocabularies that it took.
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
    """Target words a second to a consumer that does nothing, over 2,000 batches."""
    plan = data.Plan.of(store, config, 1)
    rates, count = [], 2_000
    for repeat in range(repeats):
        batches = data.train_batches(store, plan, repeat * count)
        words = int(next(batches).target_mask.sum())
        start = time.perf_counter()
        for batch in itertools.islice(batches, count):
            words += batch.target_mask.sum()
        rates.append(int(words) / (time.perf_counter() - start))
    return {
        "plan": config.plan,
        "target_words_per_second": round(statistics.median(rates)),
        "runs": [round(rate) for rate in rates],
    }


def padding(store: data.Store, config: DataConfig, shapes: Sequence[int]) -> dict[str, Any]:
    """Padded positions of both sides over all, by plan and number of shapes.

    `exact` is a shape for every batch: what the plan alone costs.
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
    """What `_in_a_process` starts; it prints `preparation`, or the user's `fault`."""
    fields, folder = json.loads(sys.argv[1])
    try:
        answer = preparation(DataConfig(**fields), Path(folder))
    except (ValueError, OSError) as error:
        answer = {"fault": str(error)}
    print(json.dumps(answer))
