"""What training prints about a model at the end: some translations, and its main scores."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bahdanau_jax.report.run_scores import Evaluated
from bahdanau_jax.reported_scores import FACTS, SCORES, decimals

SAMPLES = 10  # the number of translations that are printed
# The scores that are printed where they exist, in this order -> what they mean, if that is said.
SHOWN: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("BLEU", "BLEU-lowercased", "BLEU-tokenized-lowercased", "chrF"), ""),
        "exact": SCORES["exact"].meaning,
        "PSA": "matching positions, empty targets corrected",
        "PSA-seed": "the same, with 0 for an empty target",
        "AER": "alignment error rate against the gold links",
        "AER-share": "the same, each weight divided by the total attention to its source word",
        **{name: fact.meaning for name, fact in FACTS.items()},
        "unfinished": SCORES["unfinished"].meaning,
    }
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
    for name, meaning in SHOWN.items():
        if name not in table or (name == "unfinished" and not table[name]):
            continue
        if name == "BLEU" and table.get("test-in-training") == 0:  # None where it is not counted
            meaning = "on unseen sentences"
        lines.append(
            f"{name} {table[name]:.{decimals(name)}f}" + (f"   ({meaning})" if meaning else "")
        )
    return lines
