"""A run folder becomes its report: scores on test pairs, baselines, samples and pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bahdanau_jax import data, evaluation, hypothesis
from bahdanau_jax import run as runs
from bahdanau_jax.data import AlignedPair, grammar
from bahdanau_jax.evaluation import figures, links, save, scores
from bahdanau_jax.experiments.evaluation import Evaluated, evaluate
from bahdanau_jax.experiments.examples import most_reordered
from bahdanau_jax.experiments.publish import publish
from bahdanau_jax.experiments.sections import Picture, Section, Table, sections
from bahdanau_jax.run import Run
from bahdanau_jax.training import read_metrics

SAMPLES = 10  # translations shown


def write(workdir: Path) -> str:
    """Score the run on its test pairs, fill WORKDIR/report/, and return what there is to read.

    The report of `bahdanau evaluate`, with curves.svg, steps.svg and, where the corpus has gold
    alignments, AER; samples.jsonl has the translations. A run without test pairs gets its training
    curves alone.
    """
    run = runs.load(workdir)
    folder = Path(workdir) / "report"
    folder.mkdir(exist_ok=True)
    training = _training(run)
    if not run.config.data.test:
        for picture in training.pictures:
            save(picture.figure, folder / f"{picture.name}.svg")
        return f"No test pairs are configured. Training curves: {folder / 'curves.svg'}"
    pairs = list(data.pairs(run.config.data.test, run.config.data))
    sources, references = ([p[side] for p in pairs] for side in (0, 1))
    evaluated = evaluate(run, sources, references)
    table, parts = evaluated.scores, sections(evaluated)
    if gold := _gold(run):
        added = _alignment_scores(run, sources, references, gold)
        added |= _corpus_facts(run, gold, references)
        table |= added
        parts.insert(1, _corpus(added))
    parts.insert(-1, training)
    hypothesis.write_lines(folder / "samples.jsonl", evaluated.found)
    if (shown := most_reordered(evaluated.found)) is not None:
        save(figures.steps(shown), folder / "steps.svg")
    publish(folder, f"Report on {run.folder.resolve().name}", summary(run, evaluated), table, parts)
    return "\n".join(
        [*_samples(sources, references, evaluated.texts), "", *_summary(table), ""]
        + [f"Report: {folder / 'index.html'}"]
    )


def write_evaluation(folder: Path, run: Run, evaluated: Evaluated) -> None:
    """The report on any test set, and the translations, in a folder.

    >>> write_evaluation(Path("out"), run, evaluate(run, sources, references))
    """
    parts, title = sections(evaluated), f"Evaluation of {run.folder.resolve().name}"
    publish(folder, title, summary(run, evaluated), evaluated.scores, parts)
    hypothesis.write(folder, evaluated.found)


def summary(run: Run, evaluated: Evaluated) -> str:
    """What was evaluated, in a line."""
    config = run.config
    return (
        f"{len(evaluated.sources):,} sentences, {config.data.source_language} to "
        f"{config.data.target_language}; {config.data.vocabulary}, attention "
        f"{config.model.attention}, beam {evaluated.scores['search']['beam_size']}"
    )


def _training(run: Run) -> Section:
    caption = "Loss per word and scores on the dev pairs, over the updates."
    curves = Picture("curves", figures.curves(read_metrics(run.folder)), caption)
    return Section("Training", pictures=(curves,))


def _corpus(scores: dict[str, float]) -> Section:
    """What gold alignments say of the model and of the corpus."""
    rows = [
        (name, f"{scores[name]:.{decimals}f}", what)
        for name, decimals, what in SHOWN
        if name in scores
    ]
    return Section("Gold alignments", tables=(Table(("", "value", ""), rows),))


def _gold(run: Run) -> list[AlignedPair]:
    """Gold alignments of the test pairs, where the corpus has them."""
    addresses = [corpus.address for corpus in data.corpora(run.config.data.test)]
    if not all(map(data.is_aligned, addresses)):
        return []
    return [pair for one in addresses for pair in data.aligned_pairs(one, run.config.data)]


def _alignment_scores(
    run: Run, sources: Sequence[str], references: Sequence[str], gold: Sequence[AlignedPair]
) -> dict[str, float]:
    """AER of the model's alignment of the references, and of the diagonal.

    Nothing where the model's tokens are not the words that gold links count.
    """
    forced = run.force(sources, references)
    if any(h.alpha.shape != _size(pair) for h, pair in zip(forced, gold, strict=True)):
        return {}
    sure, possible = [pair.sure for pair in gold], [pair.possible for pair in gold]
    diagonal = [evaluation.diagonal(len(pair.source), len(pair.target)) for pair in gold]
    ours = evaluation.alignment_scores([links(h.alpha) for h in forced], sure, possible)
    shared = [links(evaluation.share(h.alpha)) for h in forced]
    return {
        "AER": ours.aer,
        "alignment-precision": ours.precision,
        "alignment-recall": ours.recall,
        "AER-share": evaluation.aer(shared, sure, possible),
        "AER-diagonal": evaluation.aer(diagonal, sure, possible),
    }


def _size(pair: AlignedPair) -> tuple[int, int]:
    """Of its alignment matrix, EOS counted on both sides."""
    return len(pair.target) + 1, len(pair.source) + 1


def _corpus_facts(
    run: Run, gold: Sequence[AlignedPair], references: Sequence[str]
) -> dict[str, float]:
    """How hard the corpus is: what needs no learning scores on it."""
    seen = {pair.source for pair in data.pairs(run.config.data.train, run.config.data)}
    sources = [pair.source for pair in data.pairs(run.config.data.test, run.config.data)]
    facts: dict[str, float] = {
        "mean-source-words": float(np.mean([len(pair.source) for pair in gold])),
        "crossing-share": float(np.mean([crosses(pair.sure) for pair in gold])),
        "test-in-training": sum(source in seen for source in sources),
    }
    if run.config.data.test.startswith("builtin:en-fr"):
        words = [" ".join(grammar.word_for_word(pair.source)) for pair in gold]
        ours = [" ".join(pair.target) for pair in gold]
        facts["BLEU-word-for-word"] = scores.bleu(words, ours, "none").score
    return facts


def crosses(links) -> bool:
    """Whether any two links cross: i < k, but j > l.

    >>> crosses({(0, 1), (1, 0)})
    True
    """
    return any(i < k and j > n for i, j in links for k, n in links)


def _samples(sources: Sequence[str], references: Sequence[str], texts: Sequence[str]) -> list[str]:
    lines = []
    for source, reference, text in list(zip(sources, references, texts, strict=True))[:SAMPLES]:
        lines += [f"  source     {source}", f"  model      {text}", f"  reference  {reference}", ""]
    return lines[:-1]


# What is printed, in this order, where it was measured: name, decimals, explanation.
SHOWN = (
    ("BLEU", 1, ""),
    ("BLEU-lowercased", 1, ""),
    ("BLEU-tokenized-lowercased", 1, ""),
    ("chrF", 1, ""),
    ("exact", 3, "share of sentences that equal the reference"),
    ("PSA", 3, "matching positions, empty targets corrected"),
    ("PSA-seed", 3, "the same, an empty target counting 0"),
    ("AER", 3, "against the gold alignments"),
    ("AER-share", 3, "where target words compete for each source word"),
    ("AER-diagonal", 3, "of the diagonal"),
    ("BLEU-word-for-word", 1, "of a monotone dictionary"),
    ("mean-source-words", 1, "words a test sentence"),
    ("crossing-share", 2, "of test sentences have links that cross"),
    ("test-in-training", 0, "test sentences also in training"),
    ("unfinished", 3, "share of translations that decoding.max_ratio cut off"),
)


def _summary(table: dict[str, Any]) -> list[str]:
    lines = []
    for name, decimals, what in SHOWN:
        if name not in table or (name == "unfinished" and not table[name]):
            continue
        if name == "BLEU" and table.get("test-in-training") == 0:  # which is not always counted
            what = "on unseen sentences"
        lines.append(f"{name} {table[name]:.{decimals}f}" + (f"   ({what})" if what else ""))
    return lines
