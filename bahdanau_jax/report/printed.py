"""What training prints about a model at the end: some translations, and its main scores."""

from collections.abc import Mapping
from typing import Any

from bahdanau_jax.report.run_scores import Evaluated

SAMPLES = 10  # the number of translations that are printed
# The scores that are printed, in this order, where they exist: name, decimals, explanation.
SHOWN = (
    ("BLEU", 1, ""),
    ("BLEU-lowercased", 1, ""),
    ("BLEU-tokenized-lowercased", 1, ""),
    ("chrF", 1, ""),
    ("exact", 3, "share of sentences that equal the reference"),
    ("PSA", 3, "matching positions, empty targets corrected"),
    ("PSA-seed", 3, "the same, with 0 for an empty target"),
    ("AER", 3, "alignment error rate against the gold links"),
    ("AER-share", 3, "the same, each weight divided by the total attention to its source word"),
    ("AER-diagonal", 3, "alignment error rate of the diagonal, which needs no model"),
    ("alignment-left-out", 0, "pairs with an empty or very long side, which have no error rate"),
    ("BLEU-word-for-word", 1, "BLEU of a dictionary that keeps the order of words"),
    ("mean-source-words", 1, "mean number of source words in a test sentence"),
    ("crossing-share", 2, "share of test sentences with links that cross"),
    ("test-in-training", 0, "test sentences that are also in the training text"),
    ("unfinished", 3, "share of translations that decoding.max_ratio cut off"),
)


def samples(evaluated: Evaluated) -> list[str]:
    """The first translations, each with its source and its reference."""
    lines = []
    rows = zip(evaluated.sources, evaluated.references, evaluated.texts, strict=True)
    for source, reference, text in list(rows)[:SAMPLES]:
        lines += [f"  source     {source}", f"  model      {text}", f"  reference  {reference}", ""]
    return lines[:-1]


def summary(table: Mapping[str, Any]) -> list[str]:
    """The lines of the main scores, with what they mean."""
    lines = []
    for name, decimals, meaning in SHOWN:
        if name not in table or (name == "unfinished" and not table[name]):
            continue
        if name == "BLEU" and table.get("test-in-training") == 0:  # None where it is not counted
            meaning = "on unseen sentences"
        lines.append(f"{name} {table[name]:.{decimals}f}" + (f"   ({meaning})" if meaning else ""))
    return lines
