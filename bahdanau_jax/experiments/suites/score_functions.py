"""All score functions on three corpora: quality, alignment, speed and memory."""

import statistics

import jax

from bahdanau_jax import data, figures, model, training
from bahdanau_jax.configurations import configuration
from bahdanau_jax.experiments.cell_runs import group_of
from bahdanau_jax.experiments.suites import english_french
from bahdanau_jax.experiments.suites.suite import (
    PAPER,
    Outcome,
    Request,
    Suite,
    reduced,
    with_model,
)
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.report import NOTHING, Picture, Section, Table, number
from bahdanau_jax.reported_scores import decimals
from bahdanau_jax.trained import load

CORPORA = {"reverse": "exact", "primes": "PSA", "en-fr": "BLEU"}  # and the main score of each


def cells(request: Request) -> Cells:
    bases = {
        "reverse": configuration("reverse"),
        "primes": configuration("primes"),
        "en-fr": english_french.config,
    }
    sizes = {"hidden_size": 16, "alignment_size": 16, "embedding_size": 16}
    configs = {}
    for corpus, base in bases.items():
        base = reduced(base, request, 30, (1000, 20, 20), **sizes)
        for score in model.attention.SCORES:
            configs[f"{corpus}-{score}"] = with_model(base, attention=score)
    return configs


def sections(outcome: Outcome) -> list[Section]:
    tables, panels = [], {}
    for corpus, metric in CORPORA.items():
        rows = []
        own = {score: f"{corpus}-{score}" for score in model.attention.SCORES}
        panels[f"{corpus}: {metric}"] = outcome.intervals(metric, own)
        for score in model.attention.SCORES:
            cell = f"{corpus}-{score}"
            scores = (_each(outcome, cell, name) for name in (metric, "AER"))
            rows.append((score, *scores, number(_memory(outcome, cell), ",.0f")))
        tables.append(Table((corpus, metric, "AER", "MiB of an update"), rows))
    text = (
        "Each seed has its own number, since few seeds may differ widely; the means are under "
        "Scores. Memory is what the compiler plans for the update of one seed "
        "with the largest batch: parameters, accumulators and temporary arrays."
    )
    picture = Picture("means", figures.means(panels), outcome.caption("seed"))
    return [Section("Score functions", text, tuple(tables), (picture,)), _speed(outcome)]


def _each(outcome: Outcome, cell: str, metric: str) -> str:
    """The score of each seed of a cell, as text."""
    values = outcome.results.values(cell, metric)
    form = f".{decimals(metric)}f"
    return ", ".join(number(value, form) for _, value in sorted(values.items())) or NOTHING


def _speed(outcome: Outcome) -> Section:
    """Target words per second of training, which no second call repeats."""
    rows = []
    for score in model.attention.SCORES:
        speeds = [_words_per_second(outcome, f"{corpus}-{score}") for corpus in CORPORA]
        rows.append((score, *(number(speed, ",.0f") for speed in speeds)))
    text = (
        "Target words per second of training: the median over a run, added for the seeds that "
        "trained together in a vmapped program. These numbers depend on what else the machine "
        "did, and another call of the suite gives others."
    )
    return Section("Speed", text, (Table(("target words/s", *CORPORA), rows),))


def compared(cells: Cells) -> list[tuple[str, str]]:
    """Each score function with the additive one, on the same corpus."""
    others = [score for score in model.attention.SCORES if score != "additive"]
    return [(f"{corpus}-{each}", f"{corpus}-additive") for corpus in CORPORA for each in others]


def _words_per_second(outcome: Outcome, cell: str) -> float | None:
    """The sum over the seeds that trained together, and the mean over such groups.

    Seeds of a group that failed trained as fast as the others.
    """
    rates: dict[tuple[int, ...], list[float]] = {}
    for seed in outcome.results.scores[cell]:
        folder = outcome.folder(cell, seed)
        lines, group = training.read_metrics(folder), group_of(folder, seed)
        own = [line["words_per_second"] for line in lines if line.get("words_per_second")]
        rates.setdefault(group, []).append(statistics.median(own) if own else 0.0)
    groups = [len(group) * statistics.mean(own) for group, own in rates.items()]
    return statistics.mean(groups) if groups else None


def _memory(outcome: Outcome, cell: str) -> float | None:
    """MiB of the compiled update of one seed with the largest batch of its plan."""
    seeds = list(outcome.results.scores[cell])
    if not seeds:
        return None
    folder = outcome.folder(cell, seeds[0])
    trained = load(folder)
    trainer = training.Trainer(trained.config)
    prepared = data.prepare(trained.config.data, folder, trained=True)
    plan = data.Plan.of(prepared.train, trained.config.data, seeds[0])
    steps = range(min(plan.steps(), trained.config.training.steps))
    batches = list(data.each_shape(prepared.train, plan, steps, trainer.row_multiple))
    largest = max(batches, key=lambda batch: batch.source.size + batch.target.size)
    state = jax.eval_shape(trainer.begin)
    sizes = trainer.update.lower(state, trainer.backend.feed(largest)).compile().memory_analysis()
    total = sizes.temp_size_in_bytes + sizes.argument_size_in_bytes
    return total / 2**20


SUITE = Suite(
    title="Score functions",
    text=(
        "Every score function of attention on three corpora: reversing a list, keeping its primes, "
        "and the built-in English-French corpus. All other settings are those of one configuration "
        "for each corpus, which were chosen with the additive score."
    ),
    source=(
        f"{PAPER} (additive); Z. Tu et al., Modeling Coverage for Neural Machine Translation, ACL "
        "2016, https://arxiv.org/abs/1601.04811 (additive_coverage); M. Luong, H. Pham and C. "
        "Manning, Effective Approaches to Attention-based Neural Machine Translation, EMNLP 2015, "
        "https://arxiv.org/abs/1508.04025 (dot, general, local); A. Vaswani et al., Attention Is "
        "All You Need, NIPS 2017, https://arxiv.org/abs/1706.03762 (scaled_dot)"
    ),
    cells=cells,
    sections=sections,
    metrics=("exact", "PSA", "BLEU", "AER"),
    pairs=compared,
    seeds=2,
)
