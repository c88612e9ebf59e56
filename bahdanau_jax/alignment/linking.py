"""Word links from attention weights; entropy and coverage of the weights.

A link is (source, target), both counted from 0 over the words of the sentence, EOS left out.
`alpha` has T target and S source positions; EOS is the last one on both sides.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float

from bahdanau_jax.batch import SIDES
from bahdanau_jax.names import choose

Link = tuple[int, int]  # (source word, target word)
Links = frozenset[Link]  # the links of a sentence

# The rule for a target word whose largest weight is on the source's EOS, as a full stop's often is:
# "next" links it by its largest other weight, "none" gives no link. -> the end of the columns.
EOS_RULES: Mapping[str, int | None] = MappingProxyType({"next": -1, "none": None})


def share(alpha: Float[np.ndarray, "T S"]) -> Float[np.ndarray, "T S"]:
    """Return alpha_ij / sum_k alpha_kj, with k over the target words without EOS.

    This is target word i's share of all attention to source word j. Target words then compete for
    a source word. An article that attends to its noun loses against the translation of the noun.

    >>> share(np.array([[0.6, 0.4], [0.6, 0.1], [0.5, 0.5]]))
    array([[0.5       , 0.8       ],
           [0.5       , 0.2       ],
           [0.41666667, 1.        ]])
    """
    alpha = matrix(alpha).astype(np.float64)
    totals = alpha[:-1].sum(axis=0)
    return alpha / np.where(totals > 0, totals, 1)


# Name -> function of weights between words [T S], such as alpha, that gives others for links.
WEIGHTS: Mapping[str, Callable[[Float[np.ndarray, "T S"]], Float[np.ndarray, "T S"]]] = (
    MappingProxyType({"share": share})
)


def links(alpha: Float[np.ndarray, "T S"], *, eos: str = "next") -> Links:
    """Link each target word to the source word of its largest weight, the first of equals.

    `eos` is a key of EOS_RULES. The last row, EOS, is dropped. A largest weight of 0 gives no link.
    Raises ValueError for another `eos`, and where alpha is not a finite matrix.

    >>> sorted(links(np.array([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.0, 0.1, 0.9]])))
    [(0, 1), (1, 0)]
    """
    alpha = matrix(alpha)
    words = alpha[:-1, : choose(EOS_RULES, eos, "rule for EOS")]
    if not words.size:
        return frozenset()
    chosen = words.argmax(axis=1)
    keep = (words.max(axis=1) > 0) & (chosen < alpha.shape[1] - 1)
    return frozenset((int(chosen[i]), int(i)) for i in np.flatnonzero(keep))


def links_above(alpha: Float[np.ndarray, "T S"], threshold: float) -> Links:
    """Link every pair of words whose weight is at least `threshold`.

    Raises ValueError for a threshold that is not above 0.

    >>> sorted(links_above(np.array([[0.5, 0.4, 0.1], [0.0, 0.1, 0.9]]), 0.3))
    [(0, 0), (1, 0)]
    """
    if not threshold > 0:
        raise ValueError(f"the threshold of links is {threshold}, but should be above 0")
    indices = np.argwhere(matrix(alpha)[:-1, :-1] >= threshold)
    return frozenset((int(source), int(target)) for target, source in indices)


def diagonal(source_length: int, target_length: int) -> Links:
    """Link each target word to the source word at the same relative position, as a baseline.

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


def merge_pieces(
    alpha: Float[np.ndarray, "T S"],
    source_words: Bool[np.ndarray, "W S"],
    target_words: Bool[np.ndarray, "V T"],
) -> Float[np.ndarray, "V W"]:
    """Merge weights between pieces of words into weights between W source and V target words.

    A row of `source_words` marks the pieces of one word; EOS is a word, too. Weights are summed
    over a word's source pieces and averaged over its target pieces, which keeps the sum of a row.
    A source piece of several words ("du" of "de le") is shared between them; a target piece of
    several words counts for each. The weights of a target word without pieces are 0. Raises
    ValueError where the sizes do not fit.

    >>> alpha = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    >>> merge_pieces(alpha, np.array([[1, 1, 0], [0, 0, 1]], bool), np.array([[1, 1]], bool))
    array([[0.75, 0.25]])
    """
    alpha = matrix(alpha)
    for side, words, pieces in zip(
        SIDES, (source_words, target_words), alpha.shape[::-1], strict=True
    ):
        if words.ndim != 2 or words.shape[1] != pieces:
            raise ValueError(f"{side} words over {words.shape[-1]} pieces, but alpha has {pieces}")
    to_source = source_words / np.maximum(source_words.sum(axis=0), 1)
    to_target = target_words / np.maximum(target_words.sum(axis=1, keepdims=True), 1)
    return to_target @ alpha @ to_source.T


def entropy(alpha: Float[np.ndarray, "T S"]) -> Float[np.ndarray, " T"]:
    """Return -sum_j alpha_ij ln alpha_ij in nats: 0 for one position, ln S for uniform weights."""
    alpha = matrix(alpha).astype(np.float64)
    return -(alpha * np.log(np.where(alpha > 0, alpha, 1))).sum(axis=1)


def coverage(alpha: Float[np.ndarray, "T S"]) -> Float[np.ndarray, " S"]:
    """Return sum_i alpha_ij, the total attention to each source position."""
    return matrix(alpha).astype(np.float64).sum(axis=0)


def matrix(alpha: np.ndarray) -> Float[np.ndarray, "T S"]:
    """Return `alpha` as an array; raise ValueError where it is not a finite matrix."""
    alpha = np.asarray(alpha)
    if alpha.ndim != 2:
        raise ValueError(f"alpha should be a matrix [T, S], not of shape {alpha.shape}")
    if not np.isfinite(alpha).all():
        raise ValueError("alpha has NaN or infinity: the model may have diverged")
    return alpha
