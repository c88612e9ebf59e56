"""A program that times training updates on an accelerator, many cases in one process.

    python -c 'from benchmarks.device_updates import main; main()' '{"V": 30000, ...}'

All cases have the same parameters, so one state serves all of their programs.
"""

import gzip
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from bahdanau_jax import training
from bahdanau_jax.config import Config
from benchmarks import device_program, profile_table, sizes, updates
from benchmarks.device_program import PRECISIONS
from benchmarks.peers import serving
from benchmarks.sizes import Size

PROFILED = 3  # updates in a trace


class Case(NamedTuple):
    """An update to time."""

    batch: int  # B
    length: int  # S = T
    precision: str  # a key of PRECISIONS
    gradients: str  # a value of `model.gradients`


class Compiled(NamedTuple):
    """A compiled update, and the batch that it gets."""

    update: Any
    batch: Any
    size: Size
    seconds: float  # of compilation


class Updates:
    """Compiles updates in threads, and times them one by one."""

    def __init__(self, size: Size):
        self._size = size
        self._programs: dict[Case, Compiled | Exception] = {}
        self._state: Any = None

    def compile(self, cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Compile all before any is timed, since a GPU's compiler uses the GPU too."""
        chosen, start = [Case(**case) for case in cases], time.perf_counter()
        jobs = [lambda case=case: self._compiled(case) for case in chosen]
        self._programs = dict(zip(chosen, device_program.in_threads(jobs), strict=True))
        return {"seconds": round(time.perf_counter() - start, 1)}

    def _compiled(self, case: Case) -> Compiled:
        start = time.perf_counter()
        size = self._size._replace(B=case.batch, S=case.length, T=case.length)
        precision = PRECISIONS[case.precision]
        trainer = self._trainer(
            size, compute_dtype=precision.compute_dtype, gradients=case.gradients
        )
        update: Any = trainer.update
        batch = trainer.backend.feed(updates.random_batch(size))
        with jax.default_matmul_precision(precision.products):
            compiled = update.lower(jax.eval_shape(trainer.begin), batch).compile()
        return Compiled(compiled, batch, size, time.perf_counter() - start)

    def _trainer(self, size: Size, **changes: str) -> training.Trainer:
        return training.Trainer(Config(model=updates.architecture(size, **changes)))

    def _program(self, case: Mapping[str, Any]) -> Compiled:
        program = self._programs[Case(**case)]
        if isinstance(program, Exception):
            raise program
        return program

    def _run(self, program: Compiled, count: int) -> float:
        """Run updates as training does: the sums of one are fetched while the next one runs."""
        if self._state is None:
            trainer = self._trainer(program.size)
            self._state = trainer.backend.place(trainer.begin())
        state, self._state, pending, loss = self._state, None, None, 0.0  # donated if it fails
        for _ in range(count):
            state, sums = program.update(state, program.batch)
            if pending is not None:
                loss = float(pending.loss)
            pending = sums
        if pending is not None:
            loss = float(pending.loss)
        self._state = state
        if not math.isfinite(loss):
            self._state = None
            raise FloatingPointError("the loss is not finite")
        return loss

    def time(self, case: Mapping[str, Any], seconds: float, rounds: int) -> dict[str, Any]:
        """Target words per second, the rate of the products, and the memory of a case."""
        try:
            program, before = self._program(case), device_program.device_peak()
            timed = device_program.time_calls(
                lambda count: self._run(program, count), seconds, rounds
            )
        except Exception as error:  # the other cases can still be measured
            return {"failed": device_program.described(error)}
        size, median = program.size, timed["seconds"]
        assert isinstance(median, float)
        return {
            "target_words_per_second": round(size.B * size.T / median, 1),
            "gflops": round(sizes.flops(size) / median / 1e9, 1),
            **timed,
            "compile_seconds": round(program.seconds, 1),
            "planned_mib": updates.planned(program.update),
            **device_program.growth(before),
        }

    def profile(self, case: Mapping[str, Any], folder: str, name: str) -> dict[str, Any]:
        """Trace some updates; write FOLDER/NAME.trace.json.gz and the program, NAME.hlo.txt.gz."""
        program, traces = self._program(case), Path(folder) / f".{name}"
        self._run(program, device_program.WARM_UPS)
        tracer = training.Profile(traces, 0, PROFILED)
        tracer.at(0, self._state)
        self._run(program, PROFILED)
        tracer.at(PROFILED, self._state)
        table = profile_table.read(traces, PROFILED)
        profile_table.keep_trace(traces, Path(folder) / f"{name}.trace.json.gz")
        with gzip.open(Path(folder) / f"{name}.hlo.txt.gz", "wt", encoding="utf-8") as file:
            file.write(program.update.as_text())
        return {"updates": PROFILED, **table}


def main() -> None:
    """The program: its argument is a size as JSON, whose B, S and T the cases replace."""
    serving.keep_memory()
    answers, work = serving.Answers(), Updates(Size(**json.loads(sys.argv[1])))
    answers.give({**device_program.greeting(), "threads": device_program.threads()})
    answers.serve(
        {
            "compile": work.compile,
            "time": work.time,
            "profile": work.profile,
            "limits": device_program.limits,
        }
    )
