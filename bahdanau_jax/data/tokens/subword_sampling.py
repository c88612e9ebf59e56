"""One of several ways to cut a word into known pieces, drawn: subword regularisation.

Done here because the draws of the sentencepiece library differ from process to process whatever its
seed; a corpus has to be prepared twice with the same result. Without randomness both samplers give
what the library gives.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from bahdanau_jax.batch import UNK

SPACE = "▁"  # the library's sign for a space, which begins every word


class Pieces(NamedTuple):
    """A sentencepiece model as a table."""

    ids: Mapping[str, int]
    scores: Mapping[str, float]  # of the unigram model log p; of BPE the higher, the earlier merged
    bytes: Sequence[int]  # ids of the 256 byte pieces, or none


class Draw(NamedTuple):
    """How to draw."""

    kind: str  # a name of SAMPLERS
    rate: float
    seed: int


Sampler = Callable[[Pieces, str, float, random.Random], list[str]]


def sample_all(pieces: Pieces, sentences: Sequence[str], draw: Draw) -> list[list[int]]:
    """Ids of tokenised sentences, whose words are cut one by one.

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


def _ids(pieces: Pieces, cut: Sequence[str]) -> list[int]:
    """As the library has it: unknown pieces in a row are one UNK, or else all their bytes."""
    ids: list[int] = []
    for piece in cut:
        if piece in pieces.ids:
            ids.append(pieces.ids[piece])
        elif pieces.bytes:
            ids += [pieces.bytes[byte] for byte in piece.encode()]
        elif not ids or ids[-1] != UNK:
            ids.append(UNK)
    return ids


def bpe_dropout(pieces: Pieces, word: str, rate: float, rng: random.Random) -> list[str]:
    """Byte-pair encoding in which each possible merge is left out at each step with probability
    `rate` (Provilkov et al., arXiv 1910.13267).
    """
    cut, scores = list(word), pieces.scores
    while True:
        best, place = -math.inf, -1
        for i in range(len(cut) - 1):
            score = scores.get(cut[i] + cut[i + 1])
            if score is not None and score > best and rng.random() >= rate:
                best, place = score, i
        if place < 0:
            return cut
        cut[place : place + 2] = [cut[place] + cut[place + 1]]


def unigram(pieces: Pieces, word: str, rate: float, rng: random.Random) -> list[str]:
    """A cut with a probability proportional to p(cut)^rate, p being the unigram model's (Kudo,
    arXiv 1804.10959): forward sums over all cuts, then drawn from the end of the word.
    """
    longest = max(map(len, pieces.scores), default=1)
    least = min(pieces.scores.values(), default=0.0) - 10.0  # what the library gives the unknown
    sums = [0.0]  # log Σ p^rate over the cuts of word[:end]
    ways: list[list[tuple[float, int]]] = [[]]  # (log weight, start of the last piece)
    for end in range(1, len(word) + 1):
        mine = []
        for start in range(max(0, end - longest), end):
            score = pieces.scores.get(word[start:end])
            if score is None and end - start == 1:
                score = least
            if score is not None:
                mine.append((sums[start] + rate * score, start))
        top = max(weight for weight, _ in mine)
        sums.append(top + math.log(sum(math.exp(weight - top) for weight, _ in mine)))
        ways.append(mine)
    cut, end = [], len(word)
    while end:
        chances = [math.exp(weight - sums[end]) for weight, _ in ways[end]]
        _, start = rng.choices(ways[end], chances)[0]
        cut.append(word[start:end])
        end = start
    return cut[::-1]


# Values of `data.subwords`, and how each is drawn from.
SAMPLERS: Mapping[str, Sampler] = MappingProxyType({"bpe": bpe_dropout, "unigram": unigram})
