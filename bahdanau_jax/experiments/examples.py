"""Which sentences of a test set are worth showing."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bahdanau_jax.evaluation import chrf_tally
from bahdanau_jax.experiments.evaluation import Evaluated
from bahdanau_jax.hypothesis import Hypothesis

FIRST, WORST = 5, 5  # how many of each kind are shown
LONGEST = 400  # characters shown of a line


class Example(NamedTuple):
    """One sentence beside its translations, each cut to a length that can be read."""

    title: str
    lines: list[tuple[str, str]]  # what it is, text


def choose(evaluated: Evaluated) -> Iterator[Example]:
    """The first sentences, then the worst of the others by chrF of the sentence."""
    tally = chrf_tally(evaluated.texts, evaluated.references)
    each = tally.formula(tally.counts)
    there = [row for row, line in enumerate(evaluated.sources) if line.strip()]
    first = there[:FIRST]
    worst = sorted(set(there) - set(first), key=lambda row: (each[row], row))[:WORST]
    for row in (*first, *worst):
        lines = [
            ("source", evaluated.sources[row]),
            ("reference", evaluated.references[row]),
            ("this model", evaluated.texts[row]),
        ]
        if evaluated.baseline:
            lines.append(("baseline", evaluated.baseline.texts[row]))
        title = f"Line {row + 1}, chrF {each[row]:.1f}"
        yield Example(title, [(name, _cut(text)) for name, text in lines])


def most_reordered(found: Sequence[Hypothesis]) -> Hypothesis | None:
    """The sentence, of readable length, whose alignment steps back the furthest."""

    def steps_back(h: Hypothesis) -> float:
        if not h.finished or not 8 <= len(h.tokens) <= 20:
            return -1.0
        looks, sharp = h.alpha[:-1].argmax(1), h.alpha[:-1].max(1).mean()
        return float(np.maximum(looks[:-1] - looks[1:], 0).sum() * sharp)

    readable = [h for h in found if h.tokens and len(h.source_tokens) <= 60]
    return max(readable, key=steps_back, default=None)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
