"""The paper's Figure 2 on the built-in corpus: BLEU by length, with and without attention."""

import dataclasses
from types import MappingProxyType

from bahdanau_jax import figures
from bahdanau_jax.configurations import configuration
from bahdanau_jax.experiments.statistics import Summary, summarize
from bahdanau_jax.experiments.suites.suite import Outcome, Request, Suite, shortened, with_model
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.report import Picture, Section, Settings, Table, number, span

TRAINED = (15, 30)  # words of the longest training sentences
SHORTEST = 3  # words of a test sentence
EDGES = (10, 15, 20, *range(30, 130, 10))  # the most words of each range of test sentences
TIMES = 4  # the longest test sentences have this many times the words of the training sentences
SENTENCES = 60  # of each range of lengths
# The settings of the model without attention.
WITHOUT = {"attention": "none", "encoder_directions": "forward", "initial_state": "forward"}


def cells(request: Request) -> Cells:
    base = with_model(configuration("quickstart"), compute_dtype="bfloat16")
    if request.quick or request.steps:
        base = shortened(base, request.steps or 40)
    if request.quick:
        base = with_model(base, hidden_size=32, alignment_size=32, embedding_size=32)
    configs = {}
    for longest in TRAINED:
        pairs = 2_000 if request.quick else 60_000
        data = dataclasses.replace(
            base.data,
            train=f"builtin:en-fr/train?pairs={pairs}&max={longest}",
            dev=f"builtin:en-fr/dev?pairs={20 if request.quick else 200}&max={longest}",
            test=_test(longest, 2 if request.quick else SENTENCES),
        )
        config = dataclasses.replace(base, data=data)
        configs[f"RNNsearch-{longest}"] = config
        configs[f"RNNencdec-{longest}"] = with_model(config, **WITHOUT)
    return configs


def _test(longest: int, sentences: int) -> str:
    """The address of the test pairs for a model that is trained on this many words.

    Each range of lengths has the same number of sentences, and the last ends at TIMES `longest`.
    """
    ends = [edge for edge in EDGES if edge <= TIMES * longest]
    starts = [SHORTEST, *(edge + 1 for edge in ends)]
    return ";".join(
        f"builtin:en-fr/test?pairs={sentences}&min={low}&max={high}"
        for low, high in zip(starts, ends, strict=False)
    )


def sections(outcome: Outcome) -> list[Section]:
    curves = {cell: by_length(outcome, cell) for cell in outcome.cells}
    curves = {cell: points for cell, points in curves.items() if points}
    if not curves:
        return []
    lines = {cell: {n: each.mean for n, each in own.items()} for cell, own in curves.items()}
    several = all(each.seeds > 1 for own in curves.values() for each in own.values())
    bands = {
        cell: {n: (max(0.0, each.low), each.high) for n, each in own.items()}
        for cell, own in curves.items()
    }
    drawing = figures.bleu_by_length(lines, bands if several else None)
    names = next(iter(curves.values()))
    rows = [
        (f"{length:.0f}", *(_cell(own.get(length)) for own in curves.values())) for length in names
    ]
    text = (
        "BLEU of the test sentences by their number of words. The number in a model's name is that "
        "of the longest training sentences. Intervals are those of the mean over the seeds (95%, "
        "Student's t)."
    )
    table = Table(("words", *curves), rows)
    picture = Picture("bleu_by_length", drawing, "BLEU by the number of words of a sentence.")
    return [Section("BLEU by length", text, (table,), (picture,))]


def by_length(outcome: Outcome, cell: str) -> dict[float, Summary]:
    """Mean length of each range of lengths -> BLEU over the seeds."""
    runs = [scores["by-length"]["output"] for scores in outcome.results.scores[cell].values()]
    points = {}
    for bins in zip(*runs, strict=True):
        if all(each["sentences"] for each in bins):
            points[bins[0]["words"]] = summarize([each["score"] for each in bins])
    return points


def _cell(summary: Summary | None) -> str:
    if summary is None or summary.seeds == 1:
        return number(summary.mean if summary else None)
    return f"{summary.mean:.1f} ({span((summary.low, summary.high))})"


SUITE = Suite(
    title="BLEU by sentence length, with and without attention",
    text=(
        "The paper's Figure 2 on the built-in English-French corpus. RNNsearch attends; "
        "RNNencdec reads one vector for the whole sentence. Each is trained on sentences "
        "of at most 15 and of at most 30 words, and tested on sentences of up to four times as "
        "many words: 60 and 120."
    ),
    cells=cells,
    sections=sections,
    metrics=MappingProxyType({"BLEU": 1, "chrF": 1, "AER": 3, "perplexity": 2}),
    seeds=3,
    settings=Settings(length_bins=EDGES, resamples=200),
)
