"""Alignment of pairs of lines: the words of both sides with the attention between them.

W source and V target words, without EOS.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float

from bahdanau_jax import alignment
from bahdanau_jax.data import LEVELS, Codec, Segmented, overlaps, unit_spans
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.names import choose

LONGEST = 500  # units of each side; the attention weights are a matrix of both


@dataclass(frozen=True)
class Aligned:
    """A sentence pair and the attention weights of its target words."""

    source: tuple[str, ...]  # W words as written
    target: tuple[str, ...]  # V words as written
    alpha: Float[np.ndarray, "V+1 W+1"]  # EOS last on both axes; zeros for a pair not scored
    score: float | None  # log-probability of the target; None for a pair not scored

    def links(
        self,
        weights: str = "attention",
        threshold: float | None = None,
        eos: str = "next",
        prior: Float[np.ndarray, "V W"] | None = None,
    ) -> alignment.Links:
        """Link each target word by its largest weight, or all words by weights >= `threshold`.

        `weights` is a key of `alignment.WEIGHTS`, `eos` a key of `linking.EOS_LOOKS`. `prior`
        multiplies the weights between words.
        """
        plain = alignment.WEIGHTS[weights](self.alpha)
        weighted = np.array(plain)
        if prior is not None:
            weighted[:-1, :-1] *= prior
        if threshold is not None:
            return alignment.links_above(weighted, threshold)
        # The prior does not cover EOS, so plain weights decide which words attend to EOS most.
        linked = {target for _, target in alignment.links(plain, eos=eos)}
        return frozenset(link for link in alignment.links(weighted) if link[1] in linked)


def align(
    score: Callable[[Sequence[str], Sequence[str]], Sequence[Hypothesis]],
    codecs: tuple[Codec, Codec],
    sources: Sequence[str],
    targets: Sequence[str],
    level: str = "word",
) -> list[Aligned]:
    """Align line i of `sources` with line i of `targets`.

    `score` turns sources and their targets into hypotheses; `level` is a key of `data.LEVELS`.
    Pairs with a blank side, or with a side above LONGEST units, are not scored. Raises ValueError
    for unequal numbers of lines and for attention weights that are not finite.
    """
    if len(sources) != len(targets):
        raise ValueError(
            f"{len(sources)} sources but {len(targets)} targets; there should be as many of each"
        )
    x, y = (
        [_Side.of(codec, words) for words in segmented]
        for codec, segmented in zip(codecs, segment(codecs, sources, targets, level), strict=True)
    )
    rows = [row for row in range(len(x)) if x[row].can_be_scored() and y[row].can_be_scored()]
    scored = score([x[row].line.text for row in rows], [y[row].line.text for row in rows])
    hypotheses = dict(zip(rows, scored, strict=True))
    return [_aligned(*pair, hypotheses.get(row)) for row, pair in enumerate(zip(x, y, strict=True))]


def segment(
    codecs: tuple[Codec, Codec], sources: Sequence[str], targets: Sequence[str], level: str
) -> tuple[list[Segmented], list[Segmented]]:
    """Segment the lines of both sides into words."""
    config, segmented = codecs[0].config, choose(LEVELS, level, "level of words")
    return (
        [segmented(codecs[0], config.source_language, line) for line in sources],
        [segmented(codecs[1], config.target_language, line) for line in targets],
    )


class _Side(NamedTuple):
    line: Segmented
    units: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, codec: Codec, line: Segmented) -> Self:
        return cls(line, unit_spans(codec, line.text))

    def can_be_scored(self) -> bool:
        return 0 < len(self.units) <= LONGEST


def _aligned(source: _Side, target: _Side, scored: Hypothesis | None) -> Aligned:
    words = source.line.words, target.line.words
    if scored is None:
        return Aligned(*words, np.zeros((len(words[1]) + 1, len(words[0]) + 1)), None)
    members = (
        # Units may share characters, such as a space and the next one. As words they stay apart.
        np.eye(len(side.units) + 1, dtype=bool)
        if list(side.line.spans) == list(side.units)
        else overlaps(side.line.spans, side.units)
        for side in (source, target)
    )
    alpha = alignment.merge_pieces(scored.alpha, *members)
    return Aligned(*words, alpha, sum(scored.log_probabilities))
