"""The figures of a tutorial on attention: reverse a list with attention and without it."""

from collections.abc import Iterator, Mapping

from bahdanau_jax import figures
from bahdanau_jax.configurations import configuration
from bahdanau_jax.experiments.suites.lengths import WITHOUT
from bahdanau_jax.experiments.suites.suite import (
    PAPER,
    Outcome,
    Request,
    Suite,
    folder,
    reduced,
    with_model,
)
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.report import Picture, Section
from bahdanau_jax.trained import load

LIST = "1 2 3 4 5 6 7"  # the list of the tutorial
FIXED = "fixed context"  # the model without attention
ATTENTIONS = ("additive", "dot", "scaled_dot")


def cells(request: Request) -> Cells:
    base = configuration("reverse")
    base = reduced(base, request, 60, (2000, 50, 100), hidden_size=32, alignment_size=32)
    configs = {folder(FIXED): with_model(base, **WITHOUT)}
    return {name: with_model(base, attention=name) for name in ATTENTIONS} | configs


def sections(outcome: Outcome) -> list[Section]:
    translations = {}
    for name in (FIXED, *ATTENTIONS):
        if outcome.results.scores[folder(name)]:
            trained = load(outcome.folder(folder(name)))
            translations[name] = trained.translate([LIST])[0]
    lines = [f"{name}: {best.text}" for name, best in translations.items()]
    text = (
        f"The input is {LIST}. The outputs: {'; '.join(lines)}. Without attention, every output "
        "step reads the encoder's last state, so that all weight is on the last column."
    )
    beside = Picture(
        "fixed_context_and_attention",
        figures.alignments(translations),
        "Attention weights of the fixed context and of each score function: outputs down, inputs "
        "across.",
    )
    each = "The same weights, model by model, as a matrix and as the bars of each output step."
    return [
        Section("Fixed context and attention", text, pictures=(beside,)),
        Section("Each model", each, pictures=tuple(_pictures(translations))),
    ]


def _pictures(translations: Mapping[str, Hypothesis]) -> Iterator[Picture]:
    """The matrix of each model, and the weights of its output steps."""
    for name, best in translations.items():
        file = name.replace(" ", "_")
        yield Picture(f"{file}_matrix", figures.alignment(best), f"Attention weights, {name}.")
        caption = f"The weights of each output step as bars, {name}."
        yield Picture(f"{file}_steps", figures.steps(best), caption)


SUITE = Suite(
    title="Attention and fixed context on a reversed list",
    text=(
        "A list of integers is written backwards. The score functions of a tutorial are trained, "
        "and a model without attention, whose every step reads the same vector."
    ),
    source=f"a tutorial on {PAPER}",
    cells=cells,
    sections=sections,
    metrics=("exact", "PSA", "AER"),
)
