"""From attention weights to word links, and what the weights say of a sentence.

A link is (source, target), both counted from 0 over the words of the sentence, EOS left out. T
target and S source positions of `alpha`, EOS counted on both sides as `Hypothesis` has it.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float

Link = tuple[int, int]  # (source word, target word)
Links = frozenset[Link]

# What becomes of a target word that looks at the source's EOS most, as a full stop often does:
# its next look counts, or it has no link. -> the last source column that competes.
EOS_LOOKS: Mapping[str, int | None] = MappingProxyType({"next": -1, "none": None})


def share(alpha: Float[np.ndarray, "T S"]) -> Float[np.ndarray, "T S"]:
    """alpha_ij / sum_k alpha_kj over the target words k, EOS left out: of all looks at a source
    word, the share that target word i had.

    Target words then compete for a source word, as source words compete for a target word's look:
    an article that looks at its noun, as the noun itself does more, is linked elsewhere.

    >>> share(np.array([[0.6, 0.4], [0.6, 0.1], [0.5, 0.5]]))
    array([[0.5       , 0.8       ],
           [0.5       , 0.2       ],
           [0.41666667, 1.        ]])
    """
    alpha = matrix(alpha).astype(np.float64)
    looks = alpha[:-1].sum(axis=0)
    return alpha / np.where(looks > 0, looks, 1)


# What links are made from.
WEIGHTS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = MappingProxyType(
    {"attention": lambda alpha: alpha, "share": share}
)


def links(alpha: Float[np.ndarray, "T S"], *, eos: str = "next", target_eos: bool = True) -> Links:
    """Each target word linked to the source word of its largest weight, the first of equals.

    eos: a key of EOS_LOOKS. target_eos: the last row is the closing EOS, and is dropped (pass
    `hypothesis.finished`). A largest weight of 0 gives no link. Raises ValueError where alpha is
    not a finite matrix.

    >>> sorted(links(np.array([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.0, 0.1, 0.9]])))
    [(0, 1), (1, 0)]
    """
    alpha = matrix(alpha)
    words = alpha[: len(alpha) - target_eos, : EOS_LOOKS[eos]]
    if not words.size:
        return frozenset()
    chosen = words.argmax(axis=1)
    keep = (words.max(axis=1) > 0) & (chosen < alpha.shape[1] - 1)
    return frozenset((int(chosen[i]), int(i)) for i in np.flatnonzero(keep))


def links_above(
    alpha: Float[np.ndarray, "T S"], threshold: float, *, target_eos: bool = True
) -> Links:
    """Every pair of words whose weight is at least `threshold`, which is above 0.

    >>> sorted(links_above(np.array([[0.5, 0.4, 0.1], [0.0, 0.1, 0.9]]), 0.3))
    [(0, 0), (1, 0)]
    """
    if not threshold > 0:
        raise ValueError(f"the threshold of links is {threshold}, but should be above 0")
    alpha = matrix(alpha)
    found = np.argwhere(alpha[: len(alpha) - target_eos, :-1] >= threshold)
    return frozenset((int(source), int(target)) for target, source in found)


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


def merge_pieces(
    alpha: Float[np.ndarray, "T S"],
    source_words: Bool[np.ndarray, "W S"],
    target_words: Bool[np.ndarray, "V T"],
) -> Float[np.ndarray, "V W"]:
    """Weights between pieces of words to weights between W source and V target words.

    A row of `source_words` marks the pieces of one word, EOS a word like any other. Weights are
    summed over a word's source pieces (it was looked at, wherever) and averaged over its target
    pieces, so that a row still sums to what it did. A source piece of several words ("du" of "de
    le") is shared between them; a target piece of several counts for each. A target word without
    pieces looked nowhere. Raises ValueError where the sizes do not fit.

    >>> alpha = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    >>> merge_pieces(alpha, membership([0, 0, 1]), membership([0, 0]))
    array([[0.75, 0.25]])
    """
    alpha = matrix(alpha)
    for side, words, pieces in zip(
        ("source", "target"), (source_words, target_words), alpha.shape[::-1], strict=True
    ):
        if words.ndim != 2 or words.shape[1] != pieces:
            raise ValueError(f"{side} words over {words.shape[-1]} pieces, but alpha has {pieces}")
    to_source = source_words / np.maximum(source_words.sum(axis=0), 1)
    to_target = target_words / np.maximum(target_words.sum(axis=1, keepdims=True), 1)
    return to_target @ alpha @ to_source.T


def membership(groups: Sequence[int]) -> Bool[np.ndarray, "W P"]:
    """For each word its pieces, from the number of each piece's word: 0 0 1 2.

    >>> membership([0, 0, 1]).astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    """
    numbers = np.asarray(groups, np.int64)
    return np.arange(numbers.max(initial=-1) + 1)[:, None] == numbers


def entropy(alpha: Float[np.ndarray, "T S"]) -> Float[np.ndarray, " T"]:
    """-sum_j alpha_ij ln alpha_ij of each row, in nats: 0 is one look, ln S the whole sentence."""
    alpha = matrix(alpha).astype(np.float64)
    return -(alpha * np.log(np.where(alpha > 0, alpha, 1))).sum(axis=1)


def coverage(alpha: Float[np.ndarray, "T S"]) -> Float[np.ndarray, " S"]:
    """sum_i alpha_ij: how much each source position was looked at in all; 1 is once."""
    return matrix(alpha).astype(np.float64).sum(axis=0)


def matrix(alpha: np.ndarray) -> Float[np.ndarray, "T S"]:
    """`alpha` as it should be; ValueError where it is not a finite matrix."""
    alpha = np.asarray(alpha)
    if alpha.ndim != 2 or not np.isfinite(alpha).all():
        raise ValueError(f"alpha should be a finite matrix [T, S], not one of shape {alpha.shape}")
    return alpha
