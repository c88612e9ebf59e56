"""The paper's Figure 2 on the built-in corpus: BLEU by length, with and without attention."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bahdanau_jax import figures
from bahdanau_jax.experiments import results, statistics
from bahdanau_jax.experiments.suites import english_french
from bahdanau_jax.experiments.suites.suite import (
    PAPER,
    Outcome,
    Request,
    Suite,
    shortened,
    with_model,
)
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.report import Picture, Section, Settings, Table, number, span

TRAINED = (15, 30)  # words of the longest training sentences
SHORTEST = 3  # words of a sentence
EDGES = (10, 15, 20, *range(30, 130, 10))  # the most words of each range of lengths
TIMES = 4  # the longest test sentences have this many times the words of the training sentences
SENTENCES = 60  # of each range of test sentences
PAIRS = 60_000  # of the training text, equally many of each range of lengths
UPDATES = 2_200  # twice as many as the base configuration has, for longer sentences
BASELINES = {"BLEU-word-for-word": ".1f", "AER-diagonal": ".3f"}  # and their formats
# The settings of the model without attention.
WITHOUT = {"attention": "none", "encoder_directions": "forward", "initial_state": "forward"}


def cells(request: Request) -> Cells:
    base = with_model(english_french.config, compute_dtype="bfloat16")
    base = shortened(base, request.steps or (40 if request.quick else UPDATES))
    if request.quick:
        base = with_model(base, hidden_size=32, alignment_size=32, embedding_size=32)
        greedy = dataclasses.replace(base.decoding, beam_size=1)
        base = dataclasses.replace(base, decoding=greedy)
    configs = {}
    for longest in TRAINED:
        train = _ranges(longest)
        pairs = (2_000 if request.quick else PAIRS) // len(train)
        data = dataclasses.replace(
            base.data,
            train=_address("train", pairs, train),
            dev=f"builtin:en-fr/dev?pairs={20 if request.quick else 200}&max={longest}",
            test=_address("test", 2 if request.quick else SENTENCES, _ranges(TIMES * longest)),
        )
        config = dataclasses.replace(base, data=data)
        configs[f"RNNsearch-{longest}"] = config
        configs[f"RNNencdec-{longest}"] = with_model(config, **WITHOUT)
    return configs


def _ranges(longest: int) -> list[tuple[int, int]]:
    """The fewest and the most words of each range of lengths, up to `longest` words."""
    ends = [edge for edge in EDGES if edge <= longest]
    return [*zip([SHORTEST, *(edge + 1 for edge in ends)], ends, strict=False)]


def _address(split: str, pairs: int, ranges: Sequence[tuple[int, int]]) -> str:
    """The address of text with this number of pairs in each range of lengths."""
    return ";".join(
        f"builtin:en-fr/{split}?pairs={pairs}&min={low}&max={high}" for low, high in ranges
    )


class Range(NamedTuple):
    """BLEU of the test sentences of one range of lengths."""

    name: str  # such as "51–60"
    words: float  # their mean number of words
    sentences: int
    scores: Mapping[int, float]  # seed -> BLEU

    def summary(self) -> statistics.Summary:
        return statistics.summarize([*self.scores.values()])


def sections(outcome: Outcome) -> list[Section]:
    curves = {cell: ranges(outcome, cell) for cell, runs in outcome.results.scores.items() if runs}
    text = (
        "BLEU of the test sentences by their number of words. The number in a model's name is that "
        "of the longest training sentences. Each model is tested up to four times that length. "
        "Intervals of several seeds are those of their mean (95%, Student's t); they do not cover "
        "the choice of the sentences. Differences are paired by seed."
    )
    picture = Picture(
        "bleu_by_length", _figure(curves), "BLEU by the number of words of a sentence."
    )
    pairs = [pair for pair in compared(outcome.cells) if all(cell in curves for cell in pair)]
    tables = tuple(_table(*pair, curves) for pair in pairs)
    longest = " ".join(_longest(*pair, curves) for pair in pairs)
    return [
        Section("BLEU by length", f"{text} {longest}".strip(), tables, (picture,)),
        _beyond(outcome, curves),
    ]


def _beyond(outcome: Outcome, curves: Mapping[str, Sequence[Range]]) -> Section:
    """What each model keeps of its BLEU beyond its training length, and the baselines."""
    rows = []
    for cell, own in curves.items():
        at = EDGES.index(int(cell.rpartition("-")[2]))
        if len(own) <= at + 1:
            continue
        first, *beyond = ((each.name, each.summary().mean) for each in own[at:])
        shown = [f"{name}: {mean:.1f}" for name, mean in (first, beyond[0], beyond[-1])]
        share = beyond[-1][1] / first[1] if first[1] else None
        baselines = (outcome.results.summary(cell, name) for name in BASELINES)
        means = (
            number(each and each.mean, form)
            for each, form in zip(baselines, BASELINES.values(), strict=True)
        )
        rows.append((cell, *shown, number(share, ".0%"), *means))
    header = (
        *("model", "BLEU at the end of training lengths", "just beyond", "at the longest"),
        *("kept", "BLEU of a dictionary, all lengths", "AER of the diagonal"),
    )
    text = (
        "The baselines need no training: a dictionary that translates word for word, whose BLEU is "
        "that of tokens, and links on the diagonal. A model without attention has no alignment and "
        "so no AER. The perplexity under Scores is that of the reference's words, each after the "
        "reference's words before it; a model that translates worse can have the better one."
    )
    return Section("Beyond the training length", text, (Table(header, rows),))


def compared(cells: Cells) -> list[tuple[str, str]]:
    """The model with attention and the one without it, for each training length."""
    return [(f"RNNsearch-{longest}", f"RNNencdec-{longest}") for longest in TRAINED]


def ranges(outcome: Outcome, cell: str) -> list[Range]:
    """The ranges of lengths of a cell that have sentences, the shortest first."""
    runs = outcome.results.scores[cell]
    found = {seed: scores["by-length"]["output"] for seed, scores in runs.items()}
    return [
        Range(
            bins[0]["name"],
            bins[0]["words"],
            bins[0]["sentences"],
            {seed: each["score"] for seed, each in zip(found, bins, strict=True)},
        )
        for bins in zip(*found.values(), strict=True)
        if bins[0]["sentences"]
    ]


def _figure(curves: Mapping[str, Sequence[Range]]) -> figures.Drawing:
    points = {cell: [(each.words, each.summary()) for each in own] for cell, own in curves.items()}
    lines = {cell: {x: each.mean for x, each in own} for cell, own in points.items()}
    bands = {
        cell: {x: (max(0.0, each.low), min(each.high, 100.0)) for x, each in own}
        for cell, own in points.items()
        if all(each.seeds > 1 for _, each in own)
    }
    return figures.bleu_by_length(lines, bands)


def _table(ours: str, theirs: str, curves: Mapping[str, Sequence[Range]]) -> Table:
    rows = []
    for one, other in zip(curves[ours], curves[theirs], strict=True):
        rows.append(
            (
                one.name,
                str(one.sentences),
                results.summary(one.summary(), 1),
                results.summary(other.summary(), 1),
                results.paired(statistics.compare_seeds(one.scores, other.scores), 1),
            )
        )
    return Table(("words", "sentences", ours, theirs, "difference"), rows)


def _longest(ours: str, theirs: str, curves: Mapping[str, Sequence[Range]]) -> str:
    """A sentence on the longest sentences; "" for one seed, which has no interval."""
    one, other = curves[ours][-1], curves[theirs][-1]
    mine, its = one.summary(), other.summary()
    if min(mine.seeds, its.seeds) < 2:
        return ""
    overlap = mine.low <= its.high and its.low <= mine.high
    return (
        f"At {one.name} words, {ours} has BLEU {mine.mean:.1f} ({span((mine.low, mine.high))}) and "
        f"{theirs} {its.mean:.1f} ({span((its.low, its.high))}): the intervals "
        f"{'overlap' if overlap else 'do not overlap'}."
    )


SUITE = Suite(
    title="BLEU by sentence length, with and without attention",
    text=(
        "The paper's Figure 2 on the built-in English-French corpus. RNNsearch attends; "
        "RNNencdec reads one vector for the whole sentence. Each is trained on sentences "
        "of at most 15 and of at most 30 words, and tested on sentences of up to four times as "
        "many words: 60 and 120. Every range of lengths has as many sentences as any other, in "
        "the training text and in the test."
    ),
    source=PAPER,
    cells=cells,
    sections=sections,
    metrics=("BLEU", "chrF", "AER", "perplexity"),
    seeds=3,
    pairs=compared,
    settings=Settings(length_bins=EDGES, resamples=200),
)
