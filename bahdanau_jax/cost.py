"""What a training will cost: parameters, padded shapes, memory and time, before it begins.

The updates of all shapes are compiled as a training compiles them, which then finds the programs in
the cache. A few shapes are timed in turn, as updates of a training that follow each other; the
others lie between them.
"""

import contextlib
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from bahdanau_jax import data, model, run, run_folder, training
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import Config
from bahdanau_jax.reporting import SILENT, Reporter

MEASURED = 3  # shapes that are timed
REPEATS = 3  # updates that are timed for each of them, after the first one

Shape = tuple[int, int]  # (S, T)


class ShapeCost(NamedTuple):
    """The updates of one padded shape."""

    shape: Shape
    rows: int  # with the fillers that make them a multiple for the devices
    updates: int  # of this shape in the first epoch
    seconds: float  # of an update
    measured: bool  # False: from the measured shapes, by the number of positions
    memory: int  # bytes that the compiler plans

    @property
    def positions(self) -> int:
        return self.rows * sum(self.shape)


class Cost(NamedTuple):
    """The predicted cost of a training."""

    config: Config  # with the sizes of the vocabularies
    parameters: Mapping[str, int]  # of each part of the model
    shapes: Sequence[ShapeCost]  # by their number of positions
    tokens: int  # of both sides of the first epoch, without padding
    compile_seconds: float  # of all shapes, as many at once as in a training
    peak: int | None  # bytes of the process, or of the accelerator; None where unknown
    made: int = 0  # updates that the run folder has already

    @property
    def epoch_updates(self) -> int:
        return sum(each.updates for each in self.shapes)

    @property
    def padding(self) -> float:
        """The share of padding, and of fillers, in all positions of the first epoch."""
        return 1 - self.tokens / sum(each.updates * each.positions for each in self.shapes)

    @property
    def epoch_seconds(self) -> float:
        return sum(each.updates * each.seconds for each in self.shapes)

    @property
    def left(self) -> int:
        """Updates that are still to be made."""
        return max(0, self.config.training.steps - self.made)

    @property
    def training_seconds(self) -> float:
        """Of the updates that are left, without compilation and evaluation."""
        return self.epoch_seconds / self.epoch_updates * self.left

    @property
    def memory(self) -> int:
        """Bytes that the compiler plans for the largest shape."""
        return max(each.memory for each in self.shapes)


def estimate(config: Config, workdir: Path, reporter: Reporter = SILENT) -> Cost:
    """Prepare the data in `workdir`, and measure some updates. Nothing is trained or saved.

    Raises ValueError or OSError as `run.train` does for wrong settings or data.

    >>> estimate(config, Path("runs/plan")).training_seconds / 3600
    """
    run.check(config)
    training.dispatch_updates(config)
    jax.local_devices()  # an error before the data is prepared, as in `run.train`
    config = run.with_named_dtype(config, workdir)
    run.prepare(config, workdir, reporter.stage)
    config, prepared = run.with_data(config, workdir)
    plan = data.Plan.of(prepared.train, config.data, config.training.seed)
    counts = Counter(each.shape for each in plan.epoch(0))  # batches of a shape have equal rows
    trainer = training.Trainer(config)
    steps, multiple = range(plan.steps()), trainer.row_multiple
    examples = {
        (batch.source.shape[1], batch.target.shape[1]): batch
        for batch in data.each_shape(prepared.train, plan, steps, multiple)
    }
    measured = _measure(trainer, examples, reporter)
    known = sorted(
        (_positions(examples[shape]), seconds) for shape, seconds in measured.seconds.items()
    )
    shapes = [
        ShapeCost(
            shape,
            examples[shape].source.shape[0],
            updates,
            measured.seconds.get(shape) or between(known, _positions(examples[shape])),
            shape in measured.seconds,
            measured.memory[shape],
        )
        for shape, updates in counts.items()
    ]
    return Cost(
        config,
        {part: model.count(leaves) for part, leaves in model.shapes(config.model).items()},
        sorted(shapes, key=lambda each: each.positions),
        plan.tokens(),
        measured.compile_seconds,
        peak_memory(),
        max(0, run_folder.updates_made(Path(workdir))),
    )


def spread(items: Sequence[Any], count: int = MEASURED) -> list[Any]:
    """The first, the last and others at equal distances between them.

    >>> spread("abcde", 3)
    ['a', 'c', 'e']
    """
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[place] for place in places]


def between(known: Iterable[tuple[int, float]], positions: int) -> float:
    """The seconds of an update by its positions, on lines between the known ones.

    >>> between([(10, 1.0), (20, 3.0)], 15)
    2.0
    """
    xs, ys = zip(*known, strict=True)
    return float(np.interp(positions, xs, ys))


class _Measured(NamedTuple):
    seconds: Mapping[Shape, float]  # of an update, of the shapes that are timed
    memory: Mapping[Shape, int]  # bytes that the compiler plans, of all shapes
    compile_seconds: float


def _measure(
    trainer: training.Trainer, examples: Mapping[Shape, Batch], reporter: Reporter
) -> _Measured:
    state, memory = trainer.backend.place(trainer.begin()), {}
    batches = {shape: trainer.backend.feed(example) for shape, example in examples.items()}
    compiling = reporter.stage("compiling", len(batches), "programs")
    begin = time.perf_counter()
    with contextlib.closing(
        training.Ahead(trainer.update, state, batches.values(), finished=compiling.advance)
    ) as ahead:
        programs = {shape: ahead.program(batch).run for shape, batch in batches.items()}
    compile_seconds = time.perf_counter() - begin
    for shape, program in programs.items():
        plan = program.memory_analysis()
        memory[shape] = plan.argument_size_in_bytes + plan.temp_size_in_bytes
    chosen = spread(sorted(examples, key=lambda shape: _positions(examples[shape])))
    seconds = {shape: [] for shape in chosen}
    measuring = reporter.stage("measuring updates", 1 + REPEATS, "steps")
    for _ in range(1 + REPEATS):
        for shape in chosen:
            begin = time.perf_counter()
            state, sums = programs[shape](state, batches[shape])
            jax.block_until_ready(sums)
            seconds[shape].append(time.perf_counter() - begin)
        measuring.advance()
    medians = {shape: statistics.median(each[1:]) for shape, each in seconds.items()}
    return _Measured(medians, memory, compile_seconds)


def peak_memory() -> int | None:
    """Bytes at the peak so far, of the accelerator or of this process; None where unknown.

    The peak of a process is known on Linux alone. That of getrusage would include the program that
    started this one.
    """
    first = jax.local_devices()[0]
    if first.platform != "cpu":
        return (first.memory_stats() or {}).get("peak_bytes_in_use")
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmHWM"].split()[0]) * 1024 if "VmHWM" in fields else None


def _positions(batch: Batch) -> int:
    return batch.source.size + batch.target.size
