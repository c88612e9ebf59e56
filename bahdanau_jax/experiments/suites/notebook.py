"""The figures of a tutorial on attention: reverse a list with attention and without it."""

from types import MappingProxyType

from bahdanau_jax import figures, run
from bahdanau_jax.configurations import configuration
from bahdanau_jax.experiments.suites.lengths import WITHOUT
from bahdanau_jax.experiments.suites.suite import (
    Outcome,
    Request,
    Suite,
    reduced,
    with_model,
)
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.report import Picture, Section

LIST = "1 2 3 4 5 6 7"  # the list of the tutorial
ATTENTIONS = ("additive", "dot", "scaled_dot")


def cells(request: Request) -> Cells:
    base = configuration("reverse")
    base = reduced(base, request, 60, (2000, 50, 100), hidden_size=32, alignment_size=32)
    configs = {name: with_model(base, attention=name) for name in ATTENTIONS}
    return configs | {"fixed context": with_model(base, **WITHOUT)}


def sections(outcome: Outcome) -> list[Section]:
    pictures, lines = [], []
    for cell, runs in outcome.results.scores.items():
        if not runs:
            continue
        trained = run.load(outcome.folder(cell), trust_code=True)
        best = trained.translate([LIST])[0]
        lines.append(f"{cell}: {best.text}")
        name = cell.replace(" ", "_")
        pictures.append(
            Picture(f"{name}_matrix", figures.alignment(best), f"Attention weights, {cell}.")
        )
        pictures.append(
            Picture(
                f"{name}_steps",
                figures.steps(best),
                f"The weights of each output step as bars, {cell}.",
            )
        )
    text = f"The input is {LIST}. The outputs: {'; '.join(lines)}."
    return [Section("One list", text, pictures=tuple(pictures))]


SUITE = Suite(
    title="Attention and fixed context on a reversed list",
    text=(
        "A list of integers is written backwards. The score functions of a tutorial are trained, "
        "and a model without attention, whose every step reads the same vector."
    ),
    cells=cells,
    sections=sections,
    metrics=MappingProxyType({"exact": 3, "PSA": 3, "AER": 3}),
)
