"""The Dice coefficient, a baseline that links words by their co-occurrence alone.

    dice(x, y) = 2 C(x, y) / (C(x) + C(y))

C is the number of sentence pairs that contain a word, or both words. Source: Och and Ney 2003,
section 2.1.2, with the usual sum in the denominator.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Bool, Float

from bahdanau_jax.alignment.linking import Links, matrix

Words = Sequence[str]  # of a sentence
CHUNK = 1 << 21  # co-occurrences that are counted at once


class Dice:
    """The Dice coefficients of the word pairs of `sentences`, counted in a training text.

    Memory grows with the number of different word pairs in `sentences`, the pairs to align. The
    training text is read once and not kept.

    >>> dice = Dice([(["a", "b"], ["x"])], training=[(["a"], ["x"]), (["b", "a"], ["x", "y"])])
    >>> dice.scores(["a", "b"], ["x"])
    array([[1.        , 0.66666667]])
    """

    def __init__(
        self, sentences: Iterable[tuple[Words, Words]], training: Iterable[tuple[Words, Words]]
    ):
        self._source: dict[str, int] = {}
        self._target: dict[str, int] = {}
        pairs: set[tuple[int, int]] = set()
        for source, target in sentences:
            x = [self._source.setdefault(word, len(self._source)) for word in source]
            y = [self._target.setdefault(word, len(self._target)) for word in target]
            pairs.update((i, j) for i in x for j in y)
        width = max(len(self._target), 1)
        self._keys = np.array(sorted(i * width + j for i, j in pairs), np.int64)
        self._together = np.zeros(len(self._keys), np.int64)
        self._of_source = np.zeros(len(self._source), np.int64)
        self._of_target = np.zeros(len(self._target), np.int64)
        self._count(training)

    def scores(self, source: Words, target: Words) -> Float[np.ndarray, "T S"]:
        """Return the coefficient of every target word with every source word, 0 to 1.

        Raises ValueError for words that are not in the sentences to align, or not in one of them
        together.
        """
        try:
            x = np.array([self._source[word] for word in source], np.int64)
            y = np.array([self._target[word] for word in target], np.int64)
        except KeyError as error:
            raise ValueError(f"{error} is not a word of the sentences to align") from None
        if not len(x) or not len(y):
            return np.zeros((len(y), len(x)))
        keys = x[None] * len(self._target) + y[:, None]
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if (self._keys[places] != keys).any():
            raise ValueError("two of the words are in no sentence to align together")
        counts = self._of_source[x][None] + self._of_target[y][:, None]
        return 2 * self._together[places] / np.maximum(counts, 1)

    def _count(self, training: Iterable[tuple[Words, Words]]) -> None:
        pending: list[np.ndarray] = []
        size = 0
        for source, target in training:
            x, y = (
                np.fromiter({index[word] for word in words if word in index}, np.int64)
                for index, words in ((self._source, source), (self._target, target))
            )
            self._of_source[x] += 1
            self._of_target[y] += 1
            pending.append((x[:, None] * max(len(self._target), 1) + y[None]).ravel())
            size += len(pending[-1])
            if size >= CHUNK:
                self._add(pending)
                pending, size = [], 0
        self._add(pending)

    def _add(self, pending: list[np.ndarray]) -> None:
        if not pending or not len(self._keys):
            return
        keys, counts = np.unique(np.concatenate(pending), return_counts=True)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        counted = self._keys[places] == keys
        self._together[places[counted]] += counts[counted]


def strongest(scores: Float[np.ndarray, "T S"]) -> Links:
    """Link each target word to the source word of its best score.

    Ties go to the word nearest to the diagonal, so words without counts have the links of
    `diagonal`.

    >>> sorted(strongest(np.array([[0.1, 0.9], [0.0, 0.0]])))
    [(1, 0), (1, 1)]
    """
    scores = matrix(scores)
    height, width = scores.shape
    if not width:
        return frozenset()
    rows, columns = 2 * np.arange(height)[:, None] + 1, 2 * np.arange(width)[None] + 1
    distance = np.abs(columns * height - rows * width)
    is_best = scores == scores.max(axis=1, keepdims=True)
    distance = np.where(is_best, distance, np.iinfo(np.int64).max)
    chosen = width - 1 - distance[:, ::-1].argmin(axis=1)  # of two at one distance, the later
    return frozenset((int(source), target) for target, source in enumerate(chosen))


def merge_scores(
    scores: Float[np.ndarray, "T S"],
    source_words: Bool[np.ndarray, "W S"],
    target_words: Bool[np.ndarray, "V T"],
) -> Float[np.ndarray, "V W"]:
    """Return the scores of words that consist of tokens: the best score of any two of their tokens.

    The rows of `source_words` and `target_words` mark the tokens of each word. Words without tokens
    have the score 0.

    >>> one = np.ones((1, 2), bool)
    >>> merge_scores(np.array([[0.1, 0.4], [0.2, 0.3]]), one, one)
    array([[0.4]])
    """
    rows = [scores[tokens].max(axis=0, initial=0) for tokens in target_words]
    of_targets = np.array(rows).reshape(len(target_words), scores.shape[1])
    columns = [of_targets[:, tokens].max(axis=1, initial=0) for tokens in source_words]
    return np.array(columns).reshape(len(source_words), len(target_words)).T
