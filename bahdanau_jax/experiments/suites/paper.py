"""The paper's four models on a parallel corpus: Table 1, Figures 2 and 3, and how they learned."""

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from bahdanau_jax import data, figures, run, training
from bahdanau_jax.config import Config
from bahdanau_jax.configurations import configuration
from bahdanau_jax.evaluation import scores, significance
from bahdanau_jax.experiments.cell_runs import TRANSLATIONS
from bahdanau_jax.experiments.suites.lengths import WITHOUT
from bahdanau_jax.experiments.suites.suite import Outcome, Request, Suite, shortened, with_model
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.report import Picture, Section, Settings, Table, duration, number, span

LONGEST = (30, 50)  # words of the longest training sentences
LONGER = "RNNsearch-50, longer"
EDGES = (10, 20, 30, 40, 50, 60)

# Sentences whose translations change the order of words.
SENTENCES = (
    "The European Economic Area is an important market .",
    "We have read the new report of the international committee .",
    "I would like to thank the honourable member for her very good question .",
)


class Printed(NamedTuple):
    """A row of the paper's Table 1, with its appendix B on learning."""

    bleu: float
    known: float  # BLEU of sentences without unknown words
    updates: str
    hours: str


PRINTED: Mapping[str, Printed] = MappingProxyType(
    {
        "RNNencdec-30": Printed(13.93, 24.19, "846,000", "109"),
        "RNNsearch-30": Printed(21.50, 31.44, "471,000", "113"),
        "RNNencdec-50": Printed(17.82, 26.71, "600,000", "108"),
        "RNNsearch-50": Printed(26.75, 34.16, "288,000", "111"),
        LONGER: Printed(28.45, 36.15, "667,000", "252"),
        "Moses": Printed(33.30, 35.63, "", ""),
    }
)

SELECTION = "The authors selected their training text by domain; that selection is not reproduced."

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
            configs[cell] = _with_updates(config, request, PRINTED[cell])
    if request.longer_steps:
        longer = _with_data(base, max_tokens=50, train=request.longer_train or request.train)
        steps = request.longer_steps
        configs[folder(LONGER)] = shortened(longer, steps, steps // 10)
    return configs


def folder(name: str) -> str:
    """The name of a cell as that of a folder."""
    return name.replace(", ", "-")


def _base(request: Request) -> Config:
    """The settings that all models share: the paper's, or those of smaller models."""
    if request.paper_size:
        if request.compute_dtype:
            raise ValueError(
                "--compute-dtype is of the smaller models: leave it out with --paper-size True"
            )
        config = configuration("rnnsearch50")
        config = _with_data(config, limit_words=0)
    else:
        config = configuration("europarl")
        config = with_model(config, compute_dtype=request.compute_dtype or "bfloat16")
        config = _with_data(
            config,
            vocabulary="words",
            joint_vocabulary=False,
            source_vocabulary_size=10_000,
            target_vocabulary_size=10_000,
            lowercase=False,
            shapes=8,
        )
    if request.quick:
        config = with_model(config, hidden_size=32, alignment_size=32, embedding_size=32)
        config = _with_data(config, batch_size=16, shapes=2)
    test = request.dev
    return _with_data(config, train=request.train, dev=request.dev, test=test, root=request.root)


def _with_updates(config: Config, request: Request, printed: Printed) -> Config:
    """The configuration with the updates of a model: by default, at the paper's size, its own."""
    if request.paper_size and not (request.steps or request.quick):
        updates = int(printed.updates.replace(",", ""))
        training = dataclasses.replace(config.training, steps=updates)
        return dataclasses.replace(config, training=training)
    steps = request.steps or (40 if request.quick else STEPS)
    return shortened(config, steps, max(1, steps // 5))


def _with_data(config: Config, **settings: Any) -> Config:
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **settings))


def sections(outcome: Outcome) -> list[Section]:
    done = [name for name, runs in outcome.results.scores.items() if runs]
    parts = [_table_1(outcome, done)]
    parts += _comparison(outcome)
    parts += [_figure_2(outcome, done), *_figure_3(outcome, done), _learning(outcome, done)]
    return parts


def _scores(outcome: Outcome, cell: str) -> Mapping[str, Any]:
    """The scores of the first seed."""
    runs = outcome.results.scores[cell]
    return runs[min(runs)]


def _table_1(outcome: Outcome, done: Sequence[str]) -> Section:
    tests = ["dev", *_scores(outcome, done[0]).get("tests", {})]
    header = ("model", *(f"{test}: {each}" for test in tests for each in ("all", "No UNK")))
    rows = []
    for name, printed in PRINTED.items():
        cell = folder(name)
        row = [name]
        for test in tests:
            own = _of_test(outcome, cell, test) if cell in done else {}
            row += [number(own.get("BLEU-tokenized")), number(_without_unk(own))]
        rows.append((*row, f"{printed.bleu:.2f}", f"{printed.known:.2f}"))
    text = (
        "BLEU of tokenised text, as the paper's. No UNK: sentences without unknown words in source "
        "and reference, translated with UNK banned. On the right are the numbers of the paper's "
        "Table 1 on newstest2014. What differs there: 348 million words of WMT14, 1,000 units, "
        f"30,000 words, Adadelta, and days on a GPU of 2014. {SELECTION} The settings of these "
        "models are under Cells and in sweep.json."
    )
    table = Table((*header, "paper: all", "paper: No UNK"), rows)
    return Section("Table 1: BLEU", text, (table,))


def _of_test(outcome: Outcome, cell: str, test: str) -> Mapping[str, Any]:
    own = _scores(outcome, cell)
    return own if test == "dev" else own["tests"][test]


def _without_unk(own: Mapping[str, Any]) -> float | None:
    return own.get("no-UNK", {}).get("BLEU-tokenized")


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
    header = ("dev set", "BLEU", "95% interval", "p, bootstrap", "p, randomisation")
    text = "Paired tests over the sentences of the dev set, which also chose the checkpoints."
    return [Section("What attention brings", text, (Table(header, rows),))]


def _tally(outcome: Outcome, cell: str):
    own = outcome.folder(cell)
    config = outcome.cells[cell].data
    texts = (own / TRANSLATIONS).read_text(encoding="utf-8").split("\n")[:-1]
    references = [pair.target for pair in data.pairs(config.test, config)]
    tokenize = run.load(own, trust_code=True).codecs[1].tokenizer.tokenize
    return scores.tallies(texts, references, tokenize, "13a")["BLEU-tokenized"]


def _figure_2(outcome: Outcome, done: Sequence[str]) -> Section:
    curves, bands = {}, {}
    for cell in done:
        bins = [b for b in _scores(outcome, cell)["by-length"]["output"] if b["sentences"]]
        curves[cell] = {b["words"]: b["score"] for b in bins}
        bands[cell] = {b["words"]: tuple(b["interval"]) for b in bins}
    picture = Picture(
        "bleu_by_length",
        figures.bleu_by_length(curves, bands),
        "BLEU of the dev set by sentence length; 95% intervals by bootstrap over the sentences.",
    )
    return Section("Figure 2: BLEU by length", pictures=(picture,))


def _figure_3(outcome: Outcome, done: Sequence[str]) -> list[Section]:
    best = next((name for name in (folder(LONGER), "RNNsearch-50") if name in done), None)
    if best is None:
        return []
    trained = run.load(outcome.folder(best), trust_code=True)
    hypotheses = [each for each in trained.translate(SENTENCES) if each.tokens]
    pictures = tuple(
        Picture(f"alignment_{n}", figures.alignment(each), f"{each.text} ({best})")
        for n, each in enumerate(hypotheses, start=1)
    )
    return [Section("Figure 3: alignments", pictures=pictures)]


def _learning(outcome: Outcome, done: Sequence[str]) -> Section:
    rows = []
    for name, printed in PRINTED.items():
        cell = folder(name)
        if cell not in done:
            continue
        lines = training.read_metrics(outcome.folder(cell))
        last, trained = lines[-1], [line for line in lines if "nll" in line]
        dev = [line["dev_loss"] for line in lines if line.get("dev_loss") is not None]
        rows.append(
            (
                name,
                f"{last['step']:,}",
                number(last.get("epoch"), ".2f"),
                duration(last["seconds"]),
                number(trained[-1]["nll"] if trained else None, ".3f"),
                number(min(dev, default=None), ".3f"),
                printed.updates,
                printed.hours,
            )
        )
    header = ("model", "updates", "epochs", "time", "train NLL", "dev NLL")
    text = (
        "NLL is the negative log-likelihood of a word in nats. The paper's models learned from "
        f"other text on another device. {SELECTION}"
    )
    table = Table((*header, "paper: updates", "paper: hours"), rows)
    return Section("Learning", text, (table,))


SUITE = Suite(
    title="The paper's models on a parallel corpus",
    text=(
        "RNNencdec and RNNsearch, each trained on sentences of at most 30 and of at most 50 words, "
        "with equal numbers of updates (at the paper's sizes, by default, with the paper's "
        "updates): Table 1, Figures 2 and 3 and the learning statistics of the paper, with its "
        "printed numbers beside ours."
    ),
    cells=cells,
    sections=sections,
    metrics=MappingProxyType({"BLEU": 1, "BLEU-tokenized": 1, "chrF": 1, "perplexity": 2}),
    settings=Settings(length_bins=EDGES),
    tests=lambda request: {"test": request.test} if request.test else {},
    takes_corpora=True,
)
