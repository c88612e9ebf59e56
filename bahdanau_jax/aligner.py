"""Pairs of lines become words of both sides with the attention between them, at any level.

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

LONGEST = 500  # units of a side: a pair's weights are the product of both


@dataclass(frozen=True)
class Aligned:
    """One sentence pair, and where each word of its target looked."""

    source: tuple[str, ...]  # W words as written
    target: tuple[str, ...]  # V words as written
    alpha: Float[
        np.ndarray, "V+1 W+1"
    ]  # EOS last on both axes; zeros where the model was not asked
    score: float | None  # log-probability of the target; None where the model was not asked

    def links(
        self,
        weights: str = "attention",
        threshold: float | None = None,
        eos: str = "next",
        prior: Float[np.ndarray, "V W"] | None = None,
    ) -> alignment.Links:
        """By the largest weight of each target word, or by every weight at least `threshold`.

        `weights` is a key of `evaluation.WEIGHTS`, `eos` one of `evaluation.EOS_LOOKS`; weights
        between words are multiplied by `prior`, where one is given.
        """
        looks = alignment.WEIGHTS[weights](self.alpha)
        weighed = np.array(looks)
        if prior is not None:
            weighed[:-1, :-1] *= prior
        if threshold is not None:
            return alignment.links_above(weighed, threshold)
        # Whether EOS was looked at most is asked of the looks: it has no prior.
        linked = {target for _, target in alignment.links(looks, eos=eos)}
        return frozenset(link for link in alignment.links(weighed) if link[1] in linked)


def align(
    score: Callable[[Sequence[str], Sequence[str]], Sequence[Hypothesis]],
    codecs: tuple[Codec, Codec],
    sources: Sequence[str],
    targets: Sequence[str],
    level: str = "word",
) -> list[Aligned]:
    """Align line i of `sources` with line i of `targets`.

    `score` turns sources and given targets into hypotheses; `level` is a key of `data.LEVELS`. The
    model is not asked about pairs with a blank side, or with a side above LONGEST units. Raises
    ValueError for unequal numbers of lines and for a model whose weights are not finite.
    """
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources but {len(targets)} targets: one each, please")
    x, y = (
        [_Side.of(codec, words) for words in segmented]
        for codec, segmented in zip(codecs, segment(codecs, sources, targets, level), strict=True)
    )
    asked = [row for row in range(len(x)) if x[row].is_readable() and y[row].is_readable()]
    scored = score([x[row].line.text for row in asked], [y[row].line.text for row in asked])
    found = dict(zip(asked, scored, strict=True))
    return [_merged(*pair, found.get(row)) for row, pair in enumerate(zip(x, y, strict=True))]


def segment(
    codecs: tuple[Codec, Codec], sources: Sequence[str], targets: Sequence[str], level: str
) -> tuple[list[Segmented], list[Segmented]]:
    """The lines of both sides with their words."""
    config, words = codecs[0].config, choose(LEVELS, level, "level of words")
    return (
        [words(codecs[0], config.source_language, line) for line in sources],
        [words(codecs[1], config.target_language, line) for line in targets],
    )


class _Side(NamedTuple):
    line: Segmented
    units: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, codec: Codec, line: Segmented) -> Self:
        return cls(line, unit_spans(codec, line.text))

    def is_readable(self) -> bool:
        return 0 < len(self.units) <= LONGEST


def _merged(source: _Side, target: _Side, scored: Hypothesis | None) -> Aligned:
    words = source.line.words, target.line.words
    if scored is None:
        return Aligned(*words, np.zeros((len(words[1]) + 1, len(words[0]) + 1)), None)
    members = (
        # Pieces of the same characters, such as a space and what follows it, stay apart.
        np.eye(len(side.units) + 1, dtype=bool)
        if list(side.line.spans) == list(side.units)
        else overlaps(side.line.spans, side.units)
        for side in (source, target)
    )
    alpha = alignment.merge_pieces(scored.alpha, *members)
    return Aligned(*words, alpha, sum(scored.log_probabilities))
