"""The work of the server: a batch of items with equal options, of one or several requests."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from bahdanau_jax.aligner import Aligned
from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.decoding import METHODS
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.trained import Run

# Hypotheses that a search extends at once. Its memory grows with them: with 400, lines of 200
# tokens and at most three words for each token, the attention weights take 300 MB.
MOST_HYPOTHESES = 400


class Translate(NamedTuple):
    """The options of a search."""

    decoding: DecodingConfig
    n_best: int
    prefixed: bool  # whether any line has a prefix, for which there are other programs


class Score(NamedTuple):
    """The options of scoring."""

    decoding: DecodingConfig


class Align(NamedTuple):
    """The options of alignment."""

    decoding: DecodingConfig
    level: str
    weights: str


class Line(NamedTuple):
    """A line to translate."""

    text: str
    prefix: str
    number: int  # its number in its request, which a sample depends on


Pair = tuple[str, str]  # source and target


def rows(decoding: DecodingConfig, n_best: int, most: int) -> int:
    """Return the number of lines of one search, so that its memory is bounded.

    >>> rows(DecodingConfig(beam_size=5), 1, 32), rows(DecodingConfig(beam_size=32), 1, 32)
    (32, 12)
    """
    width = METHODS[decoding.method].width(decoding, n_best)
    return max(1, min(most, MOST_HYPOTHESES // width))


def _translate(run: Run, options: Translate, lines: Sequence[Line]) -> list[list[Hypothesis]]:
    return run.translate(
        [line.text for line in lines],
        n_best=options.n_best,
        prefixes=[line.prefix for line in lines] if options.prefixed else None,
        first=[line.number for line in lines],
    )


def _score(run: Run, options: Score, pairs: Sequence[Pair]) -> list[Hypothesis]:
    sources, targets = zip(*pairs, strict=True)
    return run.score(sources, targets)


def _align(run: Run, options: Align, pairs: Sequence[Pair]) -> list[Aligned]:
    sources, targets = zip(*pairs, strict=True)
    return run.align(sources, targets, options.level, weights=options.weights)


WORK: Mapping[type, Callable[[Run, Any, Sequence[Any]], Sequence[Any]]] = MappingProxyType(
    {Translate: _translate, Score: _score, Align: _align}
)


def compute(run: Run, options: Translate | Score | Align, items: Sequence[Any]) -> Sequence[Any]:
    """Return a result for each item: n-best lists, hypotheses or alignments.

    >>> compute(run, Score(run.config.decoding), [("The man sleeps.", "L'homme dort.")])[0].score
    """
    config = dataclasses.replace(run.config, decoding=options.decoding)
    return WORK[type(options)](dataclasses.replace(run, config=config), options, items)
