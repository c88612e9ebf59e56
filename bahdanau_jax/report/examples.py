"""Chooses example sentences of a test set, and marks where they differ from the reference."""

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bahdanau_jax.evaluation import chrf_tally, scores
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.report.run_scores import Evaluated

FIRST, WORST = 5, 5  # the number of examples of each kind
LONGEST = 400  # the most characters of a line that are shown

# White space, a character of a script without spaces, or a word of another script.
UNIT = re.compile(r"\s+|[\u2e80-\u9fff\uf900-\ufaff]|[^\s\u2e80-\u9fff\uf900-\ufaff]+")


class Part(NamedTuple):
    """A stretch of a line."""

    text: str  # as it is shown
    differs: bool = False  # whether the line that it is compared with lacks it


class Line(NamedTuple):
    """A source, a reference or a translation in parts."""

    name: str  # source, reference, ...
    parts: list[Part]  # joined, they are the text


class Example(NamedTuple):
    """A sentence and its translations, each cut to LONGEST characters."""

    title: str  # the heading
    lines: list[Line]  # the source, the reference, translations


def choose(evaluated: Evaluated) -> Iterator[Example]:
    """Choose the first sentences, then the worst of the others by sentence chrF."""
    texts = [*map(scores.with_unknown_words, evaluated.texts)]
    tally = chrf_tally(texts, evaluated.references)
    chrf = tally.formula(tally.counts)
    nonempty = [row for row, line in enumerate(evaluated.sources) if line.strip()]
    first = nonempty[:FIRST]
    worst = sorted(set(nonempty) - set(first), key=lambda row: (chrf[row], row))[:WORST]
    for row in (*first, *worst):
        reference, ours = _cut(evaluated.references[row]), _cut(evaluated.texts[row])
        lines = [
            Line("source", [Part(_cut(evaluated.sources[row]))]),
            Line("reference", marked(reference, ours)),
            Line("this model", marked(ours, reference)),
        ]
        if evaluated.baseline:
            theirs = _cut(evaluated.baseline.texts[row])
            lines.append(Line("baseline", marked(theirs, reference)))
        yield Example(f"Line {row + 1}, chrF {chrf[row]:.1f}", lines)


def marked(text: str, other: str) -> list[Part]:
    """Split a text into parts that the other text shares, in this order, and parts that differ.

    Adjacent words that differ are one part, with the space between them.

    >>> marked("a big house", "a house")
    [Part(text='a ', differs=False), Part(text='big', differs=True), Part(text=' house', ...)]
    """
    units, theirs = UNIT.findall(text), [unit for unit in UNIT.findall(other) if unit.strip()]
    places = [place for place, unit in enumerate(units) if unit.strip()]
    words = [units[place] for place in places]
    matcher = difflib.SequenceMatcher(None, words, theirs, autojunk=False)
    differs = [False] * len(units)
    for kind, begin, end, *_ in matcher.get_opcodes():
        if kind != "equal" and end > begin:
            first, last = places[begin], places[end - 1]
            differs[first : last + 1] = [True] * (last + 1 - first)
    runs = itertools.groupby(zip(units, differs, strict=True), key=lambda pair: pair[1])
    return [Part("".join(unit for unit, _ in run), differing) for differing, run in runs]


def most_reordered(hypotheses: Sequence[Hypothesis]) -> Hypothesis | None:
    """The translation whose alignment moves backward the furthest, at most 60 tokens long.

    Finished ones of 8 to 20 tokens come before all others.
    """

    def rank(h: Hypothesis) -> tuple[bool, float]:
        is_readable = h.finished and 8 <= len(h.tokens) <= 20
        if len(h.tokens) < 2:
            return is_readable, 0.0
        positions, sharp = h.alpha[:-1].argmax(1), h.alpha[:-1].max(1).mean()
        steps_back = np.maximum(positions[:-1] - positions[1:], 0).sum()
        return is_readable, float(steps_back * sharp)

    short = [h for h in hypotheses if h.tokens and max(h.alpha.shape) <= 60]
    return max(short, key=rank, default=None)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
