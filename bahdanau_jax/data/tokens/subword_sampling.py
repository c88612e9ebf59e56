"""Subword regularisation: a random segmentation of each word into pieces of a vocabulary.

The sentencepiece library ignores its seed in other processes, but two preparations of a corpus have
to give the same result. Without randomness both samplers give the segmentation of the library.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from bahdanau_jax.batch import UNK

SPACE = "▁"  # the library's symbol for a space, with which every word begins
# BPE-dropout cuts longer words into parts of so many letters: its time grows with their square.
LONGEST = 500


class Pieces(NamedTuple):
    """A sentencepiece model as a table."""

    ids: Mapping[str, int]  # of the pieces
    scores: Mapping[str, float]  # unigram: log p; BPE: a higher score is merged earlier
    bytes: Sequence[int]  # ids of the 256 byte pieces, or none
    longest: int  # characters of a piece
    least: float  # the lowest score

    @classmethod
    def of(
        cls, ids: Mapping[str, int], scores: Mapping[str, float], byte_ids: Sequence[int]
    ) -> "Pieces":
        """The table of these pieces, with `byte_ids` those of the 256 byte pieces, or none."""
        longest, least = max(map(len, scores), default=1), min(scores.values(), default=0.0)
        return cls(ids, scores, byte_ids, longest, least)


class Draw(NamedTuple):
    """The settings of a random segmentation."""

    kind: str  # a name of SAMPLERS
    rate: float  # BPE: probability of a skipped merge; unigram: exponent of p
    seed: int  # of the draws


# (model, word, rate, random numbers) -> the pieces of the word.
Sampler = Callable[[Pieces, str, float, random.Random], list[str]]


def sample_all(pieces: Pieces, sentences: Sequence[str], draw: Draw) -> list[list[int]]:
    """Ids of tokenised sentences with a random segmentation of each word.

    >>> sample_all(pieces, ["a man"], Draw("bpe", 0.1, seed=3))
    """
    sampler, rng = SAMPLERS[draw.kind], random.Random(draw.seed)
    return [
        _ids(
            pieces,
            [
                piece
                for word in (sentence.split(" ") if sentence else ())
                for piece in sampler(pieces, SPACE + word, draw.rate, rng)
            ],
        )
        for sentence in sentences
    ]


def _ids(pieces: Pieces, segments: Sequence[str]) -> list[int]:
    """The library's ids: an unknown piece becomes its bytes; without byte pieces, consecutive
    unknown pieces become one UNK."""
    ids: list[int] = []
    for piece in segments:
        if piece in pieces.ids:
            ids.append(pieces.ids[piece])
        elif pieces.bytes:
            ids += [pieces.bytes[byte] for byte in piece.encode()]
        elif not ids or ids[-1] != UNK:
            ids.append(UNK)
    return ids


def bpe_dropout(pieces: Pieces, word: str, rate: float, rng: random.Random) -> list[str]:
    """BPE-dropout: at each step, each possible merge is skipped with probability `rate`.

    Source: Provilkov et al., arXiv 1910.13267.
    """
    if len(word) > LONGEST:
        parts = (word[start : start + LONGEST] for start in range(0, len(word), LONGEST))
        return [piece for part in parts for piece in bpe_dropout(pieces, part, rate, rng)]
    segments, scores = list(word), pieces.scores
    while True:
        best, place = -math.inf, -1
        for i in range(len(segments) - 1):
            score = scores.get(segments[i] + segments[i + 1])
            if score is not None and score > best and rng.random() >= rate:
                best, place = score, i
        if place < 0:
            return segments
        segments[place : place + 2] = [segments[place] + segments[place + 1]]


def unigram(pieces: Pieces, word: str, rate: float, rng: random.Random) -> list[str]:
    """Draw a segmentation x with a probability proportional to p(x)^rate of the unigram model.

    Forward filtering, backward sampling. Source: Kudo, arXiv 1804.10959.
    """
    unknown = pieces.least - 10.0  # the library's score of UNK
    sums = [0.0]  # log Σ p^rate over the segmentations of word[:end]
    lasts: list[list[tuple[float, int]]] = [[]]  # (log weight, start) of each possible last piece
    for end in range(1, len(word) + 1):
        options = []
        for start in range(max(0, end - pieces.longest), end):
            score = pieces.scores.get(word[start:end])
            if score is None and end - start == 1:
                score = unknown
            if score is not None:
                options.append((sums[start] + rate * score, start))
        top = max(weight for weight, _ in options)
        sums.append(top + math.log(sum(math.exp(weight - top) for weight, _ in options)))
        lasts.append(options)
    segments, end = [], len(word)
    while end:
        probabilities = [math.exp(weight - sums[end]) for weight, _ in lasts[end]]
        _, start = rng.choices(lasts[end], probabilities)[0]
        segments.append(word[start:end])
        end = start
    return segments[::-1]


# Value of `data.subwords` -> its sampler.
SAMPLERS: Mapping[str, Sampler] = MappingProxyType({"bpe": bpe_dropout, "unigram": unigram})
