"""A run folder becomes its report: scores on unseen text, baselines, samples and pictures."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bahdanau_jax import data, evaluation
from bahdanau_jax import run as runs
from bahdanau_jax.data import AlignedPair, grammar
from bahdanau_jax.evaluation import figures, links, save, scores
from bahdanau_jax.hypothesis import Hypothesis, write_lines
from bahdanau_jax.run import Run
from bahdanau_jax.training import METRICS

SAMPLES = 10  # translations shown


def write(workdir: Path) -> str:
    """Score the run on its test pairs, fill WORKDIR/report/, and return what there is to read.

    scores.json, samples.jsonl, alignment.png and .svg, steps.svg, curves.svg. A run without test
    pairs gets its training curves alone.
    """
    run = runs.load(workdir)
    folder = Path(workdir) / "report"
    folder.mkdir(exist_ok=True)
    save(figures.curves(_metrics(run)), folder / "curves.svg")
    if not run.config.data.test:
        return f"No test pairs are configured. Training curves: {folder / 'curves.svg'}"
    pairs = list(data.pairs(run.config.data.test, run.config.data))
    sources, references = ([p[side] for p in pairs] for side in (0, 1))
    found = run.translate(sources)
    texts = [best.text for best in found]
    tokenize = run.codecs[1].tokenizer.tokenize
    table: dict[str, Any] = scores.table(texts, references, tokenize)
    gold = _gold(run)
    if gold:
        table |= _alignment_scores(run, sources, references, gold)
        table |= _corpus_facts(run, gold, references)
    (folder / "scores.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    write_lines(folder / "samples.jsonl", found)
    shown = _most_reordered([h for h in found if h.tokens])
    if shown is not None:
        for suffix in ("png", "svg"):
            save(figures.alignment(shown), folder / f"alignment.{suffix}")
        save(figures.steps(shown), folder / "steps.svg")
    return "\n".join(
        [*_samples(sources, references, texts), "", *_summary(table), "", f"Report: {folder}"]
    )


def _metrics(run: Run) -> list[dict[str, Any]]:
    lines = (run.folder / METRICS).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


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
    return {
        "AER": ours.aer,
        "alignment-precision": ours.precision,
        "alignment-recall": ours.recall,
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


def _most_reordered(found: Sequence[Hypothesis]) -> Hypothesis | None:
    """The sentence, of readable length, whose alignment steps back the furthest."""

    def steps_back(h: Hypothesis) -> float:
        if not h.finished or not 8 <= len(h.tokens) <= 20:
            return -1.0
        looks, sharp = h.alpha[:-1].argmax(1), h.alpha[:-1].max(1).mean()
        return float(np.maximum(looks[:-1] - looks[1:], 0).sum() * sharp)

    return max(found, key=steps_back, default=None)


def _samples(sources: Sequence[str], references: Sequence[str], texts: Sequence[str]) -> list[str]:
    lines = []
    for source, reference, text in list(zip(sources, references, texts, strict=True))[:SAMPLES]:
        lines += [f"  source     {source}", f"  model      {text}", f"  reference  {reference}", ""]
    return lines[:-1]


# What is printed, in this order, where it was measured: name, decimals, explanation.
SHOWN = (
    ("BLEU", 1, "on unseen sentences"),
    ("BLEU-lowercased", 1, ""),
    ("BLEU-tokenized-lowercased", 1, ""),
    ("chrF", 1, ""),
    ("exact", 3, "share of sentences that equal the reference"),
    ("PSA", 3, "matching positions, empty targets corrected"),
    ("PSA-seed", 3, "the same, an empty target counting 0"),
    ("AER", 3, "against the gold alignments"),
    ("AER-diagonal", 3, "of the diagonal"),
    ("BLEU-word-for-word", 1, "of a monotone dictionary"),
    ("mean-source-words", 1, "words a test sentence"),
    ("crossing-share", 2, "of test sentences have links that cross"),
    ("test-in-training", 0, "test sentences also in training"),
)


def _summary(table: dict[str, Any]) -> list[str]:
    return [
        f"{name} {table[name]:.{decimals}f}" + (f"   ({what})" if what else "")
        for name, decimals, what in SHOWN
        if name in table
    ]
