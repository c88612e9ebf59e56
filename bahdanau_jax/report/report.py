"""Writes the report on a run: scores on test pairs, baselines, samples and pictures."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bahdanau_jax import alignment, data, figures, hypothesis, run_folder
from bahdanau_jax.alignment import links
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import AlignedPair, grammar
from bahdanau_jax.evaluation import scores
from bahdanau_jax.figures import save
from bahdanau_jax.report import printed, provenance
from bahdanau_jax.report.document import Picture, Section, Table, number
from bahdanau_jax.report.examples import most_reordered
from bahdanau_jax.report.publish import publish
from bahdanau_jax.report.run_scores import DEFAULTS, Evaluated, Settings, evaluate
from bahdanau_jax.report.sections import headline, sections
from bahdanau_jax.reported_scores import decimals
from bahdanau_jax.reporting import SILENT, Reporter
from bahdanau_jax.run_folder import CHECKPOINTS, DEV_SCORE, REPORT, SAMPLES
from bahdanau_jax.trained import Run
from bahdanau_jax.training import read_metrics

CURVE = 5  # the least number of evaluations for a curve; fewer are shown as a table
# Column of the table of evaluations -> (field of metrics.jsonl, format).
DEV = MappingProxyType(
    {
        "dev loss": ("dev_loss", ".3f"),
        "accuracy": ("dev_accuracy", ".3f"),
        "BLEU": ("dev_bleu", ".1f"),
        "exact": ("dev_exact", ".3f"),
    }
)


class TestPairs(NamedTuple):
    """The test pairs of a configuration."""

    sources: list[str]  # ordinary text
    references: list[str]  # ordinary text of the same pairs
    gold: list[AlignedPair]  # with gold alignments; [] where the corpus has none

    @classmethod
    def read(cls, config: DataConfig) -> "TestPairs":
        """Read or generate them. Raises ValueError as `data.pairs` does."""
        pairs = list(data.pairs(config.test, config))
        return cls([p.source for p in pairs], [p.target for p in pairs], _gold(config))


def write(run: Run, reporter: Reporter = SILENT) -> str:
    """Score a run on its test pairs, write report/ in its folder, and return a summary to print.

    The report is that of `bahdanau evaluate`, with curves.svg, steps.svg, the translations in
    samples.jsonl and, where the corpus has gold alignments, AER. A run without test pairs gets only
    its training curves. `reporter` shows the stages.
    """
    folder = run.folder / REPORT
    folder.mkdir(exist_ok=True)
    training = _training(run)
    if not run.config.data.test:
        for picture in training.pictures:
            save(picture.figure, folder / f"{picture.name}.svg")
        files = [f"Training curves: {folder / each.name}.svg" for each in training.pictures]
        return " ".join(["No test pairs are configured.", *files])
    evaluated, measures = evaluate_test_pairs(run, reporter=reporter)
    table, parts = evaluated.scores, sections(evaluated)
    if measures:
        parts.insert(1, _corpus(measures))
    parts.insert(-1, training)
    parts.append(provenance.made(run))
    reporter.stage("drawing and writing the report")
    hypothesis.write_lines(folder / SAMPLES, evaluated.hypotheses)
    (folder / "steps.svg").unlink(missing_ok=True)
    if (shown := most_reordered(evaluated.hypotheses)) is not None:
        save(figures.steps(shown), folder / "steps.svg")
    title = f"Report on {run.folder.resolve().name}"
    publish(folder, title, summary(run, evaluated), table, parts, headline(table))
    return "\n".join(
        [*printed.samples(evaluated), "", *printed.summary(table), ""]
        + [f"Report: {folder / 'index.html'}"]
    )


def evaluate_test_pairs(
    run: Run,
    settings: Settings = DEFAULTS,
    reporter: Reporter = SILENT,
    pairs: TestPairs | None = None,
) -> tuple[Evaluated, dict[str, float]]:
    """Score a run on its own test pairs. Runs with the same pairs can share `pairs`.

    The second result has the scores against gold alignments and statistics of the corpus; {} where
    the corpus has no gold alignments. They are also in `Evaluated.scores`.
    """
    sources, references, gold = pairs or TestPairs.read(run.config.data)
    evaluated = evaluate(run, sources, references, settings, reporter=reporter)
    evaluated.scores["pairs"] = run.config.data.test
    if not gold:
        return evaluated, {}
    reporter.stage("comparing with the gold alignments and the training text")
    measures = _alignment_scores(run, evaluated.alphas, gold) | _corpus_facts(run, gold, sources)
    evaluated.scores.update(measures)
    return evaluated, measures


def write_evaluation(folder: Path, run: Run, evaluated: Evaluated) -> None:
    """Write the report on any test set, and the translations, to a folder.

    >>> write_evaluation(Path("out"), run, evaluate(run, sources, references))
    """
    parts = [*sections(evaluated), provenance.made(run)]
    names = run_folder.ends([member.folder.resolve() for member in run.members])
    title = f"Evaluation of {' and '.join(names)}"
    table = evaluated.scores
    publish(folder, title, summary(run, evaluated), table, parts, headline(table))
    hypothesis.write(folder, evaluated.hypotheses)


def summary(run: Run, evaluated: Evaluated) -> str:
    """One line: the test set, the model, and better checkpoints that could not be read.

    The model of an ensemble is described by its first member.
    """
    config, each = run.config, [member.chosen for member in run.members]
    steps = [str(used) for chosen in each if chosen for used in chosen.used]
    warnings = [line for chosen in each if chosen for line in chosen.warnings(Path(CHECKPOINTS))]
    members = f"an ensemble of {len(each)}, " if run.others else ""
    search = evaluated.scores["search"]
    method = f"beam {search['beam_size']}" if search["method"] == "beam" else search["method"]
    return (
        f"{len(evaluated.sources):,} sentences, {config.data.source_language} to "
        f"{config.data.target_language}; {members}{config.data.vocabulary}, attention "
        f"{config.model.attention}, {method}"
        f"{''.join(f', {step}' for step in steps)}"
        f"{''.join(f'. Warning: {line}' for line in warnings)}"
    )


def _training(run: Run) -> Section:
    """The section of the training curves. Fewer than CURVE evaluations become a table."""
    metrics = read_metrics(run.folder)
    if not metrics:
        return Section("Training", "There are no metrics of a training in this folder.")
    evaluations = [line for line in metrics if "dev_loss" in line]
    # DEV_SCORE is a copy of another dev score, with the sign that makes higher better.
    fields = {name for line in metrics for name in line} - {DEV_SCORE}
    is_short = len(evaluations) < CURVE
    if is_short:
        fields &= {"step", "loss", "dev_loss"}
    drawn = [{name: value for name, value in line.items() if name in fields} for line in metrics]
    curves = Picture("curves", figures.curves(drawn), "Loss per word over the updates.")
    text = "The loss of a word is -log p, in training and on the dev pairs."
    if not is_short:
        curves = curves._replace(caption="Loss per word and dev scores over the updates.")
        return Section("Training", text, pictures=(curves,))
    rows = [_evaluation(line) for line in evaluations]
    tables = (Table(("updates", *DEV), rows),) if rows else ()
    return Section("Training", text, tables, (curves,))


def _evaluation(line: dict[str, Any]) -> tuple[str, ...]:
    scores = (number(line.get(name), form) for name, form in DEV.values())
    return (f"{line['step']:,}", *scores)


def _corpus(scores: dict[str, float]) -> Section:
    """The section of scores against gold alignments, and of statistics of the corpus."""
    rows = [
        (name, f"{scores[name]:.{decimals(name)}f}", meaning)
        for name, meaning in printed.SHOWN.items()
        if name in scores
    ]
    links_of_the_model = (
        " The links of this model join each target word of the reference to the source word with "
        "the largest attention weight. AER is the alignment error rate of these links, from 0 for "
        "no error to 1. The other numbers show how hard the corpus is."
    )
    text = "The corpus has gold links between words."
    text += links_of_the_model if "AER" in scores else " The numbers show how hard it is."
    return Section("Gold alignments", text, (Table(("measure", "value", "what it is"), rows),))


def _gold(config: DataConfig) -> list[AlignedPair]:
    """The test pairs with gold alignments; [] where the corpus has none."""
    addresses = [corpus.address for corpus in data.corpora(config.test)]
    if not all(map(data.is_aligned, addresses)):
        return []
    return [pair for address in addresses for pair in data.aligned_pairs(address, config)]


def _alignment_scores(
    run: Run, alphas: Sequence[np.ndarray | None], gold: Sequence[AlignedPair]
) -> dict[str, float]:
    """AER of the model's alignment of the references, and of the diagonal.

    A model without attention has no alignment. Pairs without weights, since a side is empty or very
    long, are left out and counted. {} where the tokens of the model are not the words that the gold
    links count.
    """
    matrices = [alpha for alpha in alphas if alpha is not None]
    left_out = len(alphas) - len(matrices)
    if left_out and len(alphas) == len(gold):
        gold = [pair for alpha, pair in zip(alphas, gold, strict=True) if alpha is not None]
    if not matrices or [alpha.shape for alpha in matrices] != [_size(pair) for pair in gold]:
        return {}
    sure, possible = [pair.sure for pair in gold], [pair.possible for pair in gold]
    diagonal = [alignment.diagonal(len(pair.source), len(pair.target)) for pair in gold]
    of_diagonal = {"AER-diagonal": alignment.aer(diagonal, sure, possible)}
    if left_out:
        of_diagonal["alignment-left-out"] = left_out
    if run.config.model.attention == "none":
        return of_diagonal
    ours = alignment.alignment_scores([links(alpha) for alpha in matrices], sure, possible)
    shared = [links(alignment.share(alpha)) for alpha in matrices]
    return {
        "AER": ours.aer,
        "alignment-precision": ours.precision,
        "alignment-recall": ours.recall,
        "AER-share": alignment.aer(shared, sure, possible),
        **of_diagonal,
    }


def _size(pair: AlignedPair) -> tuple[int, int]:
    """The shape of its alignment matrix, with EOS on both sides."""
    return len(pair.target) + 1, len(pair.source) + 1


def _corpus_facts(
    run: Run, gold: Sequence[AlignedPair], sources: Sequence[str]
) -> dict[str, float]:
    """Statistics that show how hard the corpus is, and the score of a dictionary."""
    facts: dict[str, float] = {
        "mean-source-words": float(np.mean([len(pair.source) for pair in gold])),
        "crossing-share": float(np.mean([crosses(pair.sure) for pair in gold])),
        "test-in-training": _seen(run, sources),
    }
    if run.config.data.test.startswith("builtin:en-fr"):
        words = [" ".join(grammar.word_for_word(pair.source)) for pair in gold]
        ours = [" ".join(pair.target) for pair in gold]
        facts["BLEU-word-for-word"] = scores.bleu(words, ours, "none").score
    return facts


def _seen(run: Run, sources: Sequence[str]) -> int:
    """The number of test sentences, `sources`, that are also in the training text."""
    settings = run.config.data
    test, train = data.corpora(settings.test), data.corpora(settings.train)
    wanted, seen = set(sources), set()
    for corpus in train:
        if not all(data.are_apart(corpus.address, other.address) for other in test):
            pairs = data.pairs(corpus.address, settings)
            seen.update(pair.source for pair in pairs if pair.source in wanted)
    return sum(source in seen for source in sources)


def crosses(links: Iterable[tuple[int, int]]) -> bool:
    """Whether any two links cross: i < k, but j > l.

    >>> crosses({(0, 1), (1, 0)})
    True
    """
    return any(i < k and j > n for i, j in links for k, n in links)
