"""The paper's four models on a parallel corpus: Table 1, Figures 2 and 3, and how they learned."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from bahdanau_jax import data, figures
from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.configurations import configuration
from bahdanau_jax.evaluation import scores, significance
from bahdanau_jax.experiments.cell_runs import TRANSLATIONS
from bahdanau_jax.experiments.suites import paper_training, smaller_paper
from bahdanau_jax.experiments.suites.lengths import WITHOUT
from bahdanau_jax.experiments.suites.paper_printed import LONGER, PRINTED
from bahdanau_jax.experiments.suites.suite import (
    PAPER,
    Outcome,
    Request,
    Suite,
    folder,
    shortened,
    with_model,
)
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.report import Picture, Section, Settings, Table, number, span
from bahdanau_jax.trained import load

EXAMPLE_WORDS = (8, 20)  # the fewest and the most words of a dev sentence of Figure 3
LONGEST = (30, 50)  # words of the longest training sentences
EDGES = (10, 20, 30, 40, 50, 60)

# English sentences whose translations change the order of words.
SENTENCES = (
    "The European Economic Area is an important market .",
    "We have read the new report of the international committee .",
    "The common agricultural policy and the single currency are very important .",
    "The man has written a report .",  # [The man] -> [l'homme], whose article depends on the noun
)

# Part of the scores of a run -> (the end of a picture's name, what its BLEU is of).
CURVES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"by-length-tokenized": ("", "tokenised text"), "by-length": ("_13a", "ordinary text (13a)")}
)

STEPS = 6_250  # five passes over 100,000 pairs in batches of 80


def cells(request: Request) -> Cells:
    if not (request.train and request.dev):
        raise ValueError(
            "the suite paper needs a corpus: --train ADDRESS --dev ADDRESS, such as "
            "text:train.en,train.fr, and --test ADDRESS for further test pairs"
        )
    if request.longer_train and not request.longer_steps:
        raise ValueError(
            "--longer-train is the text of a longer run: set --longer-steps, its updates, too"
        )
    base = _base(request)
    configs = {}
    for longest in LONGEST:
        for name, change in (("RNNencdec", WITHOUT), ("RNNsearch", {})):
            config = with_model(_with_data(base, max_tokens=longest), **change)
            cell = f"{name}-{longest}"
            learning = PRINTED[cell].learning
            configs[cell] = _with_updates(config, request, learning.updates if learning else STEPS)
    if request.longer_steps:
        longer = _with_data(base, max_tokens=50, train=request.longer_train or request.train)
        steps = request.longer_steps
        configs[folder(LONGER)] = shortened(longer, steps, steps // 10)
    return configs


def _base(request: Request) -> Config:
    """The settings that all models share: the paper's, or those of smaller models."""
    if request.paper_size:
        config = configuration("rnnsearch50")
        config = _with_data(config, limit_words=0)
    else:
        config = smaller_paper.config
    if request.quick:
        config = with_model(config, hidden_size=32, alignment_size=32, embedding_size=32)
        config = _with_data(config, batch_size=16, shapes=2)
    languages = {
        side: code
        for side in ("source_language", "target_language")
        if (code := getattr(request, side))
    }
    return _with_data(
        config,
        train=request.train,
        dev=request.dev,
        test=request.dev,
        root=request.root,
        **languages,
    )


def _with_updates(config: Config, request: Request, updates: int) -> Config:
    """The configuration with the requested updates; `updates`: the paper's, at its sizes."""
    if request.paper_size and not (request.steps or request.quick):
        training = dataclasses.replace(config.training, steps=updates)
        return dataclasses.replace(config, training=training)
    steps = request.steps or (40 if request.quick else STEPS)
    return shortened(config, steps, max(1, steps // 5))


def _with_data(config: Config, **settings: Any) -> Config:
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **settings))


def sections(outcome: Outcome) -> list[Section]:
    done = [name for name, runs in outcome.results.scores.items() if runs]
    return [
        _table_1(outcome, done),
        *_comparison(outcome),
        _figure_2(outcome, done),
        *_figure_3(outcome, done),
        paper_training.learning(outcome),
        paper_training.differences(outcome, done),
    ]


def compared(cells: Cells) -> list[tuple[str, str]]:
    """RNNsearch and RNNencdec, for each training length."""
    return [(f"RNNsearch-{longest}", f"RNNencdec-{longest}") for longest in LONGEST]


def _scores(outcome: Outcome, cell: str) -> Mapping[str, Any]:
    """The scores of the first seed."""
    runs = outcome.results.scores[cell]
    return runs[min(runs)]


def _tests(outcome: Outcome, done: Sequence[str]) -> list[str]:
    return ["dev", *_scores(outcome, done[0]).get("tests", {})]


def _table_1(outcome: Outcome, done: Sequence[str]) -> Section:
    tests = _tests(outcome, done)
    header = ("model", *(f"{test}: {each}" for test in tests for each in ("all", "No UNK")))
    rows, ordinary = [], []
    for name, printed in PRINTED.items():
        runs = list(outcome.results.scores.get(folder(name), {}).values())
        of_tests = [[_of_test(scores, test) for scores in runs] for test in tests]
        row = [name]
        for own in of_tests:
            row += [_mean([each.get("BLEU-tokenized") for each in own])]
            row += [_mean([each.get("no-UNK", {}).get("BLEU-tokenized") for each in own])]
        rows.append((*row, f"{printed.bleu:.2f}", f"{printed.known:.2f}"))
        if runs:
            means = [_mean([each.get("BLEU") for each in own]) for own in of_tests]
            ordinary.append((name, *means))
    seeds = outcome.results.seeds
    text = (
        "BLEU of tokenised text, as the paper's. No UNK: sentences without unknown words in source "
        "and reference, translated with UNK banned. On the right are the numbers of the paper's "
        f"Table 1 on newstest2014. {f'Our numbers are means over {seeds} seeds. ' * (seeds != '1')}"
        "The section What differs from the paper lists the text and the settings that are not the "
        f"paper's. {paper_training.SELECTION} {_known_sentences(outcome, tests, done)} The second "
        "table is BLEU of ordinary text (sacreBLEU's 13a)."
    )
    tables = (
        Table((*header, "paper: all", "paper: No UNK"), rows),
        Table(("BLEU of ordinary text", *tests), ordinary),
    )
    return Section("Table 1: BLEU", text, tables)


def _known_sentences(outcome: Outcome, tests: Sequence[str], done: Sequence[str]) -> str:
    """How many sentences the No UNK scores are of; vocabularies differ between training texts."""
    parts = []
    for test in tests:
        scores = [_of_test(_scores(outcome, cell), test) for cell in done]
        counts = [each["no-UNK"]["sentences"] for each in scores if "no-UNK" in each]
        if counts:
            of = f"of the {scores[0]['sentences']:,} {test} sentences"
            low, high = (f"{count:,}" for count in (min(counts), max(counts)))
            parts.append(f"{low} {of}" if low == high else f"{low} to {high} {of}, by the model,")
    return f"The No UNK scores are of {' and '.join(parts)}.".replace(",.", ".") if parts else ""


def _of_test(scores: Mapping[str, Any], test: str) -> Mapping[str, Any]:
    return scores if test == "dev" else scores["tests"][test]


def _mean(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return number(sum(numbers) / len(numbers) if numbers else None)


def _comparison(outcome: Outcome) -> list[Section]:
    """RNNsearch against RNNencdec, tested over the sentences of the dev set."""
    rows = []
    for longest in LONGEST:
        cells = [f"RNNsearch-{longest}", f"RNNencdec-{longest}"]
        if not all(outcome.results.scores.get(cell) for cell in cells):
            continue
        ours, theirs = (_tally(outcome, cell) for cell in cells)
        compared = significance.compare({"BLEU": ours}, {"BLEU": theirs})["BLEU"]
        rows.append(
            (
                f"{cells[0]} minus {cells[1]}",
                f"{compared.difference:+.1f}",
                span(compared.interval),
                f"{compared.p_bootstrap:.2g}",
                f"{compared.p_randomization:.2g}",
            )
        )
    if not rows:
        return []
    header = ("dev set", "BLEU-tokenized", "95% interval", "p, bootstrap", "p, randomisation")
    text = (
        "BLEU of tokenised text. Paired tests over the sentences of the dev set, which also chose "
        "the checkpoints, with the first seed of each model."
    )
    return [Section("What attention brings", text, (Table(header, rows),))]


def _tally(outcome: Outcome, cell: str):
    own = outcome.folder(cell)
    config = outcome.cells[cell].data
    texts = (own / TRANSLATIONS).read_text(encoding="utf-8").split("\n")[:-1]
    references = [pair.target for pair in data.pairs(config.test, config)]
    tokenize = load(own).codecs[1].tokenizer.tokenize
    return scores.tallies(texts, references, tokenize, "13a")["BLEU-tokenized"]


def _figure_2(outcome: Outcome, done: Sequence[str]) -> Section:
    pictures = []
    for (part, (ending, text)), test in itertools.product(CURVES.items(), _tests(outcome, done)):
        curves, bands = {}, {}
        for cell in done:
            scores = _of_test(_scores(outcome, cell), test)
            bins = [each for each in scores[part]["output"] if each["sentences"]]
            curves[cell] = {each["words"]: each["score"] for each in bins}
            bands[cell] = {each["words"]: tuple(each["interval"]) for each in bins}
        name = f"bleu_by_length{'' if test == 'dev' else f'_{test}'}{ending}"
        caption = (
            f"BLEU of {text}, {test} set, by sentence length; 95% intervals by bootstrap over the "
            "sentences."
        )
        if curves:
            pictures.append(Picture(name, figures.bleu_by_length(curves, bands), caption))
    text = (
        "Each curve is that of a model's first seed. BLEU is that of tokenised text, as the "
        "paper's, and then that of ordinary text (13a), as in the second table under Table 1."
    )
    return Section("Figure 2: BLEU by length", text, pictures=tuple(pictures))


def _figure_3(outcome: Outcome, done: Sequence[str]) -> list[Section]:
    best = next((name for name in (folder(LONGER), "RNNsearch-50") if name in done), None)
    if best is None:
        return []
    trained = load(outcome.folder(best))
    lines, origin = _examples(outcome.cells[best].data)
    hypotheses = [each for each in trained.translate(lines) if each.tokens]
    pictures = tuple(
        Picture(f"alignment_{n}", figures.alignment(each), f"{each.text} ({best})")
        for n, each in enumerate(hypotheses, start=1)
    )
    text = f"{origin}, translated by the first seed of {best}."
    return [Section("Figure 3: alignments", text, pictures=pictures)]


def _examples(config: DataConfig) -> tuple[Sequence[str], str]:
    """The sentences of Figure 3 and their origin: our own, or dev sentences if not English."""
    if config.source_language == "en":
        return SENTENCES, "Sentences of our own"
    fewest, most = EXAMPLE_WORDS
    sources = (pair.source for pair in data.pairs(config.dev, config))
    lines = (line for line in sources if fewest <= len(line.split()) <= most)
    return (
        [*itertools.islice(lines, len(SENTENCES))],
        f"The first dev sentences of {fewest} to {most} words",
    )


SUITE = Suite(
    title="The paper's models on a parallel corpus",
    text=(
        "RNNencdec and RNNsearch, each trained on sentences of at most 30 and of at most 50 words, "
        "with equal numbers of updates (at the paper's sizes, by default, with the paper's "
        "updates): Table 1, Figures 2 and 3 and the learning statistics of the paper, with its "
        "printed numbers beside ours."
    ),
    source=PAPER,
    cells=cells,
    sections=sections,
    metrics=("BLEU", "BLEU-tokenized", "chrF", "perplexity"),
    settings=Settings(length_bins=EDGES),
    pairs=compared,
    tests=lambda request: {"test": request.test} if request.test else {},
    takes_corpora=True,
)
