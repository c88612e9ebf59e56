"""Which sentences of a test set are worth showing, and where they differ from the reference."""

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bahdanau_jax.evaluation import chrf_tally
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.report.test_scores import Evaluated

FIRST, WORST = 5, 5  # how many of each kind are shown
LONGEST = 400  # characters shown of a line


# White space, a character of a script without spaces, or a word of another.
UNIT = re.compile(r"\s+|[\u2e80-\u9fff\uf900-\ufaff]|[^\s\u2e80-\u9fff\uf900-\ufaff]+")


class Part(NamedTuple):
    """A stretch of a line."""

    text: str
    differs: bool = False  # from the line that this one is compared with


class Line(NamedTuple):
    name: str  # what it is: source, reference, ...
    parts: list[Part]


class Example(NamedTuple):
    """One sentence beside its translations, each cut to a length that can be read."""

    title: str
    lines: list[Line]


def choose(evaluated: Evaluated) -> Iterator[Example]:
    """The first sentences, then the worst of the others by chrF of the sentence."""
    tally = chrf_tally(evaluated.texts, evaluated.references)
    each = tally.formula(tally.counts)
    there = [row for row, line in enumerate(evaluated.sources) if line.strip()]
    first = there[:FIRST]
    worst = sorted(set(there) - set(first), key=lambda row: (each[row], row))[:WORST]
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
        yield Example(f"Line {row + 1}, chrF {each[row]:.1f}", lines)


def marked(text: str, other: str) -> list[Part]:
    """The text in parts: words that it shares with the other text in order, and words that differ.

    Neighbouring words that differ are one part, with the space between them.

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
    return [Part("".join(unit for unit, _ in run), one) for one, run in runs]


def most_reordered(found: Sequence[Hypothesis]) -> Hypothesis | None:
    """The sentence, of readable length, whose alignment steps back the furthest."""

    def steps_back(h: Hypothesis) -> float:
        if not h.finished or not 8 <= len(h.tokens) <= 20:
            return -1.0
        looks, sharp = h.alpha[:-1].argmax(1), h.alpha[:-1].max(1).mean()
        return float(np.maximum(looks[:-1] - looks[1:], 0).sum() * sharp)

    readable = [h for h in found if h.tokens and max(h.alpha.shape) <= 60]
    return max(readable, key=steps_back, default=None)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
