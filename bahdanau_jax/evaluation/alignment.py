"""Word alignments: from attention weights to links, their error rate, and the Pharaoh format.

A link is (source, target), both counted from 0 over the words of the sentence, EOS left out. T
target and S source positions of `alpha`, EOS counted on both sides as `Hypothesis` has it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Link = tuple[int, int]  # (source word, target word)
Links = frozenset[Link]


def links(
    alpha: Float[np.ndarray, "T S"],
    threshold: float | None = None,
    *,
    target_eos: bool = True,
    source_eos: bool = True,
) -> Links:
    """Each target word linked to the source word of its largest weight, the first of equals.

    target_eos: the last row is the closing EOS, and is dropped (pass `hypothesis.finished`).
    source_eos: the last column is the source's EOS; it competes like any word, and a target word
    that looks there most gets no link. A largest weight of 0 or below `threshold` gives none
    either. Raises ValueError where alpha is not a finite matrix.

    >>> sorted(links(np.array([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.0, 0.1, 0.9]])))
    [(0, 1), (1, 0)]
    """
    alpha = _matrix(alpha)
    words = alpha[: len(alpha) - target_eos]
    if not words.size:
        return frozenset()
    chosen = words.argmax(axis=1)
    weight = words.max(axis=1)
    keep = (weight > 0) & (chosen < alpha.shape[1] - source_eos)
    if threshold is not None:
        keep &= weight >= threshold
    return frozenset((int(chosen[i]), int(i)) for i in np.flatnonzero(keep))


def diagonal(source_length: int, target_length: int) -> Links:
    """The baseline that knows no words: each target word linked to the same relative position.

    Lengths count words, without EOS. The centre of target word i, (i + 1/2) / T, falls into
    source word floor((i + 1/2) S / T).

    >>> sorted(diagonal(2, 4))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    if not source_length:
        return frozenset()
    return frozenset(
        ((2 * i + 1) * source_length // (2 * target_length), i) for i in range(target_length)
    )


class AlignmentScores(NamedTuple):
    """Over all links of all sentences, 0 to 1."""

    aer: float  # alignment error rate; 0 is perfect
    precision: float  # share of the predicted links that are possible
    recall: float  # share of the sure links that were predicted


def alignment_scores(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]],
) -> AlignmentScores:
    """AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), with A predicted, S sure, P possible or sure.

    Source: Och and Ney 2003. One set a sentence; sizes are summed over sentences before dividing.
    What divides by nothing is perfect: no links where none are sure has AER 0. Raises ValueError
    for no sentences or unequal counts.

    >>> alignment_scores([{(0, 0), (1, 1)}], sure=[{(0, 0)}], possible=[{(0, 0), (1, 0)}])
    AlignmentScores(aer=0.33333333333333337, precision=0.5, recall=1.0)
    """
    counts = {"predicted": len(predicted), "sure": len(sure), "possible": len(possible)}
    if len(set(counts.values())) > 1 or not predicted:
        found = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ValueError(f"alignments of as many sentences (at least one) are needed, not {found}")
    in_sure = in_possible = of_predicted = of_sure = 0
    for a, s, p in zip(predicted, sure, possible, strict=True):
        in_sure += len(a & s)
        in_possible += len(a & (p | s))
        of_predicted += len(a)
        of_sure += len(s)
    return AlignmentScores(
        aer=1 - _share(in_sure + in_possible, of_predicted + of_sure),
        precision=_share(in_possible, of_predicted),
        recall=_share(in_sure, of_sure),
    )


def aer(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]],
) -> float:
    """The error rate of `alignment_scores` alone."""
    return alignment_scores(predicted, sure, possible).aer


def format_pharaoh(sure: AbstractSet[Link], possible: AbstractSet[Link] = frozenset()) -> str:
    """One sentence's links, sorted: "source-target", or "source?target" for one only possible.

    >>> format_pharaoh({(2, 1), (0, 0)}, possible={(1, 1)})
    '0-0 1?1 2-1'
    """
    marks = sorted({**dict.fromkeys(possible, "?"), **dict.fromkeys(sure, "-")}.items())
    return " ".join(f"{source}{mark}{target}" for (source, target), mark in marks)


class Gold(NamedTuple):
    """The links that annotators gave a sentence."""

    sure: Links
    possible: Links  # the sure ones among them


def read_pharaoh(lines: Iterable[str], name: str = "") -> list[Links]:
    """One set of links a line, each `source-target`; an empty line has none.

    `name` is the file's, for the message. Raises ValueError with the line's number.
    """
    return [frozenset(found) for found in _pharaoh(lines, name, "-")]


def read_gold(lines: Iterable[str], name: str = "") -> list[Gold]:
    """The same with `source?target` for links that are only possible."""
    marked = _pharaoh(lines, name, "-?")
    return [
        Gold(frozenset(link for link, mark in found.items() if mark == "-"), frozenset(found))
        for found in marked
    ]


def merge_pieces(
    alpha: Float[np.ndarray, "T S"], source_groups: Sequence[int], target_groups: Sequence[int]
) -> Float[np.ndarray, "V W"]:
    """Weights between pieces of words to weights between W source and V target words.

    A group is the word's number for each piece, 0 0 1 2 for a first word in two pieces, with EOS a
    word of its own. Weights are summed over a word's source pieces (it was looked at, wherever)
    and averaged over its target pieces, so that a row still sums to what it did. Raises ValueError
    where groups do not count 0, 0, 1, ... or do not fit alpha.

    >>> merge_pieces(np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]), [0, 0, 1], [0, 0])
    array([[0.75, 0.25]])
    """
    alpha = _matrix(alpha)
    to_target = _membership(target_groups, len(alpha), "target")
    to_source = _membership(source_groups, alpha.shape[1], "source")
    pieces = to_target.sum(axis=1, keepdims=True)
    return (to_target / pieces) @ alpha @ to_source.T


def _matrix(alpha: np.ndarray) -> Float[np.ndarray, "T S"]:
    alpha = np.asarray(alpha)
    if alpha.ndim != 2 or not np.isfinite(alpha).all():
        raise ValueError(f"alpha should be a finite matrix [T, S], not one of shape {alpha.shape}")
    return alpha


def _membership(groups: Sequence[int], pieces: int, side: str) -> Float[np.ndarray, "W P"]:
    """One row a word, 1 at its pieces."""
    numbers = np.asarray(groups, np.int64)
    if numbers.shape != (pieces,):
        raise ValueError(f"{len(groups)} {side} groups for {pieces} {side} pieces of alpha")
    if numbers[:1].any() or not np.isin(np.diff(numbers), (0, 1)).all():
        raise ValueError(f"{side} groups should count words as 0, 0, 1, 2 does, not {groups}")
    return (np.arange(numbers.max(initial=-1) + 1)[:, None] == numbers).astype(np.float64)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


_PHARAOH_LINK = re.compile(r"(\d+)([-?])(\d+)", re.ASCII)


def _pharaoh(lines: Iterable[str], name: str, marks: str) -> Iterator[dict[Link, str]]:
    """Of each line its links, and what stands between their numbers."""
    where = f"{name}:" if name else "line "
    for number, line in enumerate(lines, start=1):
        found = {}
        for item in line.split():
            match = _PHARAOH_LINK.fullmatch(item)
            if not match or match[2] not in marks:
                forms = " or ".join(f"0{mark}1" for mark in marks)
                raise ValueError(
                    f"{where}{number}: a link reads source-target, such as {forms}, not {item!r}"
                )
            found[int(match[1]), int(match[3])] = match[2]
        yield found
