"""The ablations of a reimplementation of the paper that keeps the primes of a list.

Its author trained ten rounds of 2,000 updates, printed the scores of two models, and left two
further ablations unmeasured (its sections 4.2 and 4.3).
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bahdanau_jax.config import Config, OptimizerConfig
from bahdanau_jax.configurations import configuration
from bahdanau_jax.experiments.suites.suite import (
    Outcome,
    Request,
    Suite,
    reduced,
    with_model,
)
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.report import Section, Table, number

# Cell -> the settings of its model that differ from the first cell's.
CELLS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "attention": {},
        "4.1 no initial state": {"initial_state": "zero"},
        "4.2 readout of s alone": {"readout_inputs": "s"},
        "4.3 state without the word": {"feed_previous": False},
        "4.3 no view of the word": {"feed_previous": False, "readout_inputs": "sc"},
        "gated units": {"cell": "gru"},
    }
)

# The means of ten rounds that the author printed: PSA, LCSR, GeoMean.
PRINTED: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "attention": (0.7361, 0.7603, 0.7465),
        "4.1 no initial state": (0.7980, 0.8109, 0.8033),
    }
)
MEASURES = ("PSA-seed", "LCSR-seed", "GeoMean-seed")


def _base() -> Config:
    """The task and the sizes of the shipped configuration, with the author's model and budget."""
    config = with_model(
        configuration("primes"),
        readout_size=16,
        output_size=32,
        attention="additive_relu",
        cell="mlp",
        initial_state="forward",
        init="glorot",
        compute_dtype="bfloat16",
    )
    optimizer = OptimizerConfig(
        name="adam",
        learning_rate=5e-4,
        beta2=0.999,
        epsilon=1e-8,
        clip_norm=0.0,
        loss_normalization="token",
    )
    return dataclasses.replace(config, optimizer=optimizer)


def cells(request: Request) -> Cells:
    base = reduced(_base(), request, 60, (2000, 50, 100), hidden_size=32, alignment_size=32)
    return {folder(name): with_model(base, **change) for name, change in CELLS.items()}


def folder(name: str) -> str:
    """The name of a cell as that of a folder."""
    return name.replace(" ", "-")


def sections(outcome: Outcome) -> list[Section]:
    header = ("cell", *(name.removesuffix("-seed") for name in MEASURES), "", *("printed",) * 3)
    rows = []
    for name in CELLS:
        summaries = [outcome.results.summary(folder(name), each) for each in MEASURES]
        ours = (number(each.mean if each else None, ".3f") for each in summaries)
        theirs = (number(each, ".3f") for each in PRINTED.get(name, (None,) * 3))
        rows.append((name, *ours, "", *theirs))
    text = (
        "Means over the rounds, in the author's definition, where a list without a prime counts 0: "
        "about one list in ten has none, so that no model can score above about 0.90. The columns "
        "on the right are the numbers that the author printed. The models are not equal: the "
        "author's decoder reads its own output in training, where ours reads the reference, its "
        "decoder's state has no tanh, its readout is a network with a ReLU, and its products are "
        "float32, where ours are bfloat16."
    )
    return [Section("Beside the printed numbers", text, (Table(header, rows),))]


SUITE = Suite(
    title="Ablations on the primes of a list",
    text=(
        "Lists of 1 to 30 integers; the target is the primes among them, in their order. Ten "
        "rounds from fresh weights, 2,000 updates of 32 lists by Adam, 6,400 test lists each. "
        "Cells cut one path of the model: the decoder's first state (section 4.1 of the source), "
        "the readout's direct views of the previous word and the context (4.2), the update of the "
        "decoder's state by the previous word (4.3), and with it the readout's view of that word."
    ),
    cells=cells,
    sections=sections,
    metrics=MappingProxyType(
        {"PSA": 3, "LCSR": 3, "GeoMean": 3, "PSA-seed": 3, "LCSR-seed": 3, "GeoMean-seed": 3}
    ),
    seeds=10,
)
