"""A program that times searches on an accelerator, many cases in one process.

    python -c 'from benchmarks.device_search import main; main()' '{"V": 30000, ...}'

The weights are random, so nearly every hypothesis reaches the limit of target words.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from bahdanau_jax import decoding
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.decoding import search_program
from benchmarks import device_program, updates
from benchmarks.device_program import PRECISIONS
from benchmarks.peers import serving
from benchmarks.sizes import Size


class Case(NamedTuple):
    """A search to time."""

    beam: int  # 1 is greedy search
    batch: int  # sentences that are decoded together
    length: int  # source tokens, and the most target words
    precision: str  # a key of PRECISIONS


class Searches:
    """Compiles searches in threads, and times them one by one."""

    def __init__(self, size: Size):
        self._size, self._config = size, updates.architecture(size)
        self._params = jax.block_until_ready(updates.parameters(self._config))
        self._first: dict[Case, float | Exception] = {}

    def compile(self, cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        chosen, start = [Case(**case) for case in cases], time.perf_counter()
        jobs = [lambda case=case: self._first_seconds(case) for case in chosen]
        self._first = dict(zip(chosen, device_program.in_threads(jobs), strict=True))
        return {"seconds": round(time.perf_counter() - start, 1)}

    def _first_seconds(self, case: Case) -> float:
        start = time.perf_counter()
        self._search(case)
        return time.perf_counter() - start

    def _search(self, case: Case) -> Any:
        precision = PRECISIONS[case.precision]
        config: ModelConfig = dataclasses.replace(
            self._config, compute_dtype=precision.compute_dtype
        )
        source = np.random.default_rng(3).integers(2, self._size.V, (case.batch, case.length))
        inputs = search_program.Inputs(
            source.astype(np.int32),
            np.ones_like(source, bool),
            decoding.Rules(np.full(case.batch, case.length, np.int32)),
            np.zeros((case.batch, 2), np.int32),
            np.int32(1),
        )
        search = DecodingConfig(beam_size=case.beam)
        with jax.default_matmul_precision(precision.products):
            found = search_program.search(
                (config,), (self._params,), inputs, case.length, search, 1
            )
        return jax.block_until_ready(found)

    def time(self, case: Mapping[str, Any], seconds: float, rounds: int) -> dict[str, Any]:
        """Sentences and target words per second, and the memory of a case."""
        chosen, before = Case(**case), device_program.device_peak()

        def calls(count: int) -> None:
            for _ in range(count):
                self._search(chosen)

        try:
            if isinstance(first := self._first[chosen], Exception):
                raise first
            timed = device_program.time_calls(calls, seconds, rounds)
            words = int(np.sum(self._search(chosen).length))
        except Exception as error:  # the other cases can still be measured
            return {"failed": device_program.described(error)}
        median = timed["seconds"]
        assert isinstance(median, float)
        return {
            "sentences_per_second": round(chosen.batch / median, 1),
            "target_words_per_second": round(words / median, 1),
            "target_words_per_sentence": round(words / chosen.batch, 2),
            **timed,
            "first_call_seconds": round(first, 1),
            **device_program.growth(before),
        }


def main() -> None:
    """The program: its argument is a size as JSON; its B, S and T do not count."""
    serving.keep_memory()
    answers, work = serving.Answers(), Searches(Size(**json.loads(sys.argv[1])))
    answers.give({**device_program.greeting(), "threads": device_program.threads()})
    answers.serve({"compile": work.compile, "time": work.time})
