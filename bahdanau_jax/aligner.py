"""Alignment of pairs of lines: the words of both sides with the attention between them.

W source and V target words, without EOS.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float

from bahdanau_jax import alignment, model
from bahdanau_jax.data import LEVELS, Codec, Segmented, overlaps, unit_spans
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.names import choose
from bahdanau_jax.pairing import check_equal_counts
from bahdanau_jax.reporting import ignore

LONGEST = 500  # units of each side; the attention weights are a matrix of both


@dataclass(frozen=True)
class Aligned:
    """A sentence pair and the attention weights of its target words."""

    source: tuple[str, ...]  # W words as written
    target: tuple[str, ...]  # V words as written
    alpha: Float[np.ndarray, "V+1 W+1"]  # EOS last on both axes; [0 0] for a pair not scored
    score: float | None  # log-probability of the target; None for a pair not scored
    # Other weights of the model by their names, each [V+1 W+1] as alpha is.
    others: Mapping[str, Float[np.ndarray, "V+1 W+1"]] = field(default_factory=dict)

    def links(
        self,
        weights: str = "attention",
        threshold: float | None = None,
        eos: str = "next",
        prior: Float[np.ndarray, "V W"] | None = None,
    ) -> alignment.Links:
        """Link each target word by its largest weight, or all words by weights >= `threshold`.

        `weights` is read by `Weights.of`; `eos` is a key of `linking.EOS_RULES`, and is not read
        with a `threshold`. `prior` multiplies the weights between words. A pair not scored has no
        links. Raises ValueError for weights that the pair was aligned without.
        """
        plain = self.weights(weights)
        if self.score is None:
            return frozenset()
        weighted = np.array(plain)
        if prior is not None:
            weighted[:-1, :-1] *= prior
        if threshold is not None:
            return alignment.links_above(weighted, threshold)
        # The prior does not cover EOS, so plain weights decide which words attend to EOS most.
        linked = {target for _, target in alignment.links(plain, eos=eos)}
        return frozenset(link for link in alignment.links(weighted) if link[1] in linked)

    def weights(self, names: str) -> Float[np.ndarray, "V+1 W+1"]:
        """Return the weights that `Weights.of` reads; ValueError where they were not computed."""
        kind, changes = Weights.of(names)
        if self.score is None:
            return self.alpha
        known = {Weights().kind: self.alpha, **self.others}
        if kind not in known:
            raise ValueError(f"the pair was aligned without {kind}: align it with weights={kind!r}")
        matrix = known[kind]
        for name in changes:
            matrix = alignment.WEIGHTS[name](matrix)
        return matrix


class Weights(NamedTuple):
    """The weights that links are made of."""

    kind: str = "attention"  # a key of model.LINK_WEIGHTS
    changes: tuple[str, ...] = ()  # keys of alignment.WEIGHTS, applied in this order

    @classmethod
    def of(cls, names: str) -> Self:
        """Read names with commas between them: one kind of weights, and any number of changes.

        Either may be left out. Raises ValueError for unknown names, for a name that is given twice,
        and for two kinds of weights.

        >>> Weights.of("posterior,share")
        Weights(kind='posterior', changes=('share',))
        """
        listed = [name.strip() for name in names.split(",")]
        for name in listed:
            choose({**model.LINK_WEIGHTS, **alignment.WEIGHTS}, name, "weights of links")
        if len(set(listed)) < len(listed):
            raise ValueError(f"weights {names!r} have a name twice: leave one of them out")
        kinds = [name for name in listed if name in model.LINK_WEIGHTS]
        if len(kinds) > 1:
            raise ValueError(f"weights {names!r} are of two kinds, {kinds[0]} and {kinds[1]}")
        changes = tuple(name for name in listed if name in alignment.WEIGHTS)
        return cls(kinds[0] if kinds else cls().kind, changes)


def align(
    score: Callable[..., Sequence[Hypothesis]],
    codecs: tuple[Codec, Codec],
    sources: Sequence[str],
    targets: Sequence[str],
    level: str = "word",
    weights: str = "attention",
    advance: Callable[[int], object] = ignore,
) -> list[Aligned]:
    """Align line i of `sources` with line i of `targets`.

    `score(sources, targets, weights=..., advance=...)` returns hypotheses whose alpha are the
    weights of this name, a key of `model.LINK_WEIGHTS`. It calls `advance` with the number of pairs
    of each batch. `level` is a key of `data.LEVELS`. `weights` is read by `Weights.of`;
    `Aligned.links` can use only these weights and attention. `advance` is called with numbers of
    finished pairs; those that are not scored count too.

    Pairs with a blank side, or with a side above LONGEST units, are not scored. Raises ValueError
    for unequal numbers of lines and for attention weights that are not finite.
    """
    check_equal_counts("sources", sources, "targets", targets)
    x, y = (
        [_Side.of(codec, words) for words in segmented]
        for codec, segmented in zip(codecs, segment(codecs, sources, targets, level), strict=True)
    )
    rows = [row for row in range(len(x)) if x[row].can_be_scored() and y[row].can_be_scored()]
    texts = [x[row].line.text for row in rows], [y[row].line.text for row in rows]
    advance(len(x) - len(rows))
    kind = Weights.of(weights).kind
    scored = {}
    for name in dict.fromkeys((Weights().kind, kind)):
        counted = advance if name == kind else ignore  # a pair counts once all passes have ended
        scored[name] = score(*texts, weights=name, advance=counted)
    of_rows = [dict(zip(scored, each, strict=True)) for each in zip(*scored.values(), strict=True)]
    hypotheses = dict(zip(rows, of_rows, strict=True))
    return [
        _aligned(*pair, hypotheses.get(row, {})) for row, pair in enumerate(zip(x, y, strict=True))
    ]


def segment(
    codecs: tuple[Codec, Codec], sources: Sequence[str], targets: Sequence[str], level: str
) -> tuple[list[Segmented], list[Segmented]]:
    """Segment the lines of both sides into words."""
    config, segmented = codecs[0].config, choose(LEVELS, level, "level of words")
    return (
        [segmented(codecs[0], config.source_language, line) for line in sources],
        [segmented(codecs[1], config.target_language, line) for line in targets],
    )


def is_too_long(codec: Codec, line: Segmented) -> bool:
    """Whether a side has more than LONGEST units, without EOS, so that its pair is not scored."""
    return len(codec.encode(line.text)) - 1 > LONGEST


class _Side(NamedTuple):
    line: Segmented
    units: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, codec: Codec, line: Segmented) -> Self:
        return cls(line, unit_spans(codec, line.text))

    def can_be_scored(self) -> bool:
        return 0 < len(self.units) <= LONGEST


def _aligned(source: _Side, target: _Side, scored: Mapping[str, Hypothesis]) -> Aligned:
    words = source.line.words, target.line.words
    if not scored:
        return Aligned(*words, np.zeros((0, 0)), None)
    members = [
        # Units may share characters, such as a space and the next one. As words they stay apart.
        np.eye(len(side.units) + 1, dtype=bool)
        if list(side.line.spans) == list(side.units)
        else overlaps(side.line.spans, side.units)
        for side in (source, target)
    ]
    merged = {name: alignment.merge_pieces(each.alpha, *members) for name, each in scored.items()}
    alpha = merged.pop(Weights().kind)
    return Aligned(*words, alpha, sum(scored[Weights().kind].log_probabilities), merged)
