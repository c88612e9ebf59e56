"""The memory of a search, planned by the compiler and measured, and how it grows.

B sentences, S source tokens, K hypotheses, T steps, V words.
"""

import dataclasses
import json
import sys
from typing import Any, NamedTuple

import jax
import numpy as np

from bahdanau_jax import decoding, model
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.decoding import search_program
from benchmarks import machine
from benchmarks.peers import process

VOCABULARY = 30_000
STEPS = 5  # of the measured search, whose buffers are as large as for all steps


class Case(NamedTuple):
    """A batch to search; by default with the paper's model and its longest sentences."""

    model: ModelConfig = ModelConfig(source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    rows: int = 64  # B
    length: int = 51  # S: 50 words and EOS
    decoding: DecodingConfig = DecodingConfig(beam_size=12)

    @property
    def steps(self) -> int:
        return int(np.ceil(self.decoding.max_ratio * self.length))  # T


def memory(case: Case = Case()) -> dict[str, Any]:  # noqa: B008
    """The memory of a search in MiB, and its growth with more steps and more words.

    `beyond_mib` are second differences: about 0 if nothing grows with T² or with T·V. One array of
    K·T·V for each sentence would need `one K*T*V`. `resident_mib`, the memory of a process, is left
    out on an accelerator, whose memory it does not contain. Raises process.Failure where the
    process of the measured search fails.
    """
    base = planned(case)
    return {
        "sentences": case.rows,
        "source_tokens": case.length,
        "beam_size": case.decoding.beam_size,
        "steps": case.steps,
        "target_vocabulary": case.model.target_vocabulary,
        "planned_mib": _mib({**base._asdict(), "peak": base.peak}),
        **({"resident_mib": _resident(case)} if jax.default_backend() == "cpu" else {}),
        **growth(case),
    }


def growth(case: Case) -> dict[str, Any]:
    """The growth of the memory without the parameters."""

    def grown(times: int, words: int) -> int:
        ratio, vocabulary = case.decoding.max_ratio, case.model.target_vocabulary
        search = dataclasses.replace(case.decoding, max_ratio=ratio * times)
        model = dataclasses.replace(case.model, target_vocabulary=vocabulary * words)
        plan = planned(case._replace(model=model, decoding=search))
        return plan.temporary + plan.output

    one, two, three = (grown(times, 1) for times in (1, 2, 3))
    wide, both = grown(1, 2), grown(2, 2)
    array = case.rows * case.decoding.beam_size * case.steps * case.model.target_vocabulary * 4
    return {
        "growth_mib": _mib({"T": one, "2T": two, "3T": three, "2V": wide, "2T 2V": both}),
        "beyond_mib": _mib({"T*T": three - 2 * two + one, "T*V": both - two - wide + one}),
        **_mib({"one K*T*V": array}),
    }


def planned(case: Case) -> search_program.PlannedMemory:
    return search_program.planned_memory(case.model, case.rows, case.length, case.decoding)


def _resident(case: Case) -> dict[str, int]:
    """The memory of a process before a search, with only the parameters, and its peak."""
    fields = [dataclasses.asdict(case.model), case.rows, case.length]
    fields.append(dataclasses.asdict(case.decoding))
    return process.result("the search", process.ours(__name__, json.dumps(fields)))


def main() -> None:
    """The program of `_resident`: search a few steps with random parameters."""
    network, rows, length, settings = json.loads(sys.argv[1])
    case = Case(ModelConfig(**network), rows, length, DecodingConfig(**settings))
    params = model.init(case.model, jax.random.key(0))
    jax.block_until_ready(params)
    with machine.PeakMemory() as before:
        pass
    source = np.full((rows, length), 2, np.int32)
    rules = decoding.Rules(np.full(rows, STEPS, np.int32))
    draws = np.zeros((rows, 2), np.int32)
    inputs = search_program.Inputs(source, np.ones_like(source, bool), rules, draws, np.int32(0))
    with machine.PeakMemory() as peak:
        hypotheses = search_program.search(
            (case.model,), (params,), inputs, case.steps, case.decoding, n_best=1
        )
        jax.block_until_ready(hypotheses)
    print(json.dumps({"before": round(before.mib), "peak": round(peak.mib)}))


def _mib(sizes: dict[str, int]) -> dict[str, float]:
    return {name: round(size / 2**20, 1) for name, size in sizes.items()}
