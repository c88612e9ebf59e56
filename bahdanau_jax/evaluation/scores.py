"""Scores of translations: BLEU and chrF of text; exact match, PSA and LCSR of sequences."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bahdanau_jax.batch import UNK_SYMBOL
from bahdanau_jax.evaluation.tally import Tally, bleu_tally, check_counts, chrf_tally
from bahdanau_jax.names import choose


class Bleu(NamedTuple):
    """Corpus BLEU."""

    score: float  # 0 to 100
    signature: str  # of sacreBLEU, with its version, to be quoted with the score


class SequenceScores(NamedTuple):
    """Means over pairs, 0 to 1; psa <= geo_mean <= lcsr."""

    psa: float  # position-specific accuracy
    lcsr: float  # ratio of the longest common subsequence
    geo_mean: float  # mean over pairs of sqrt(PSA * LCSR), not sqrt of the means


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Bleu:
    """Return corpus BLEU by sacreBLEU, with one reference for each sentence.

    For tokenised text, as in the paper, pass tokenize="none"; other tokenisers take ordinary text.
    Raises ValueError for no sentences, unequal counts, or an unknown tokeniser.

    >>> bleu(["the cat sat on the mat"], ["the cat sat on the mat"]).score
    100.0
    """
    tally = bleu_tally(hypotheses, references, tokenize, lowercase)
    return Bleu(tally.score(), tally.signature)


def accuracy(
    predictions: Sequence[Sequence[Hashable]], targets: Sequence[Sequence[Hashable]]
) -> float:
    """Return the exact match, the share of predictions that equal their target in every token.

    Raises ValueError for no pairs or unequal counts.

    >>> accuracy([[7, 6], [5]], [[7, 6], [5, 4]])
    0.5
    """
    check_counts("predictions", predictions, "targets", targets)
    pairs = zip(predictions, targets, strict=True)
    return sum(tuple(p) == tuple(t) for p, t in pairs) / len(targets)


# Name of a rule -> function (whether the prediction is empty) -> score against an empty target.
EMPTY_TARGET: Mapping[str, Callable[[bool], float]] = MappingProxyType(
    {"seed": lambda prediction_is_empty: 0.0, "corrected": float}
)


def psa_lcsr(
    predictions: Sequence[Sequence[Hashable]],
    targets: Sequence[Sequence[Hashable]],
    empty: str = "seed",
) -> SequenceScores:
    """PSA = matching positions / n, LCSR = longest common subsequence / n, n the target's length.

    The caller cuts both sides before EOS. Both measures read the first n tokens of the prediction
    only. Against the target 2 3, the prediction 9 2 3 therefore has LCSR 1/2, and 2 3 5 has the
    score 1; `accuracy` counts extra tokens. Matching positions are a common subsequence, so
    PSA <= LCSR for every pair.

    An empty target scores 0 with empty="seed", as in the primes experiment. With "corrected" it
    scores 1 where the prediction is empty, too, and else 0. Raises ValueError for no pairs, unequal
    counts, or an unknown `empty`.

    >>> psa_lcsr([[2, 3, 7]], [[2, 5, 3, 7]])
    SequenceScores(psa=0.25, lcsr=0.75, geo_mean=0.4330127018922193)
    """
    of_empty = choose(EMPTY_TARGET, empty, "rule for empty targets")
    check_counts("predictions", predictions, "targets", targets)
    psa = lcsr = geo_mean = 0.0
    for prediction, target in zip(predictions, targets, strict=True):
        if n := len(target):
            cut = prediction[:n]
            matches = sum(p == t for p, t in zip(cut, target, strict=False)) / n
            common = longest_common_subsequence(cut, target) / n
        else:
            matches = common = of_empty(len(prediction) == 0)
        psa += matches
        lcsr += common
        geo_mean += math.sqrt(matches * common)
    pairs = len(targets)
    return SequenceScores(psa / pairs, lcsr / pairs, geo_mean / pairs)


def longest_common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    >>> longest_common_subsequence("abcbdab", "bdcaba")
    4
    """
    return len(first) - _table_of_lengths(first, second)[-1].bit_count()


def in_common_subsequence(
    first: Sequence[Hashable], second: Sequence[Hashable]
) -> Bool[np.ndarray, " F"]:
    """Return which of the F tokens of `first` are in a longest common subsequence with `second`.

    Where there are several subsequences of this length, each token is one of the same subsequence.

    >>> in_common_subsequence("abcd", "bxd").tolist()
    [False, True, False, True]
    """
    rows, found = _table_of_lengths(first, second), np.zeros(len(first), bool)
    i, j = len(first), len(second)
    while i and j:
        before, upto = (1 << i) - 1 & rows[j - 1], (1 << i) - 1 & rows[j]
        if upto >> i - 1:  # without this token of `first`, the subsequence is as long
            i -= 1
        elif before.bit_count() == upto.bit_count():  # or without this one of `second`
            j -= 1
        else:
            i, j = i - 1, j - 1
            found[i] = True
    return found


def _table_of_lengths(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[int]:
    """The rows of the usual table, one for each number of tokens of `second` from 0.

    A row grows by 0 or 1 from cell to cell, one for each token of `first`. The bits of one integer
    hold it, 0 where it grows, and each token of `second` costs one addition (Hyyrö 2004).
    """
    positions: dict[Hashable, int] = {}
    for i, token in enumerate(first):
        positions[token] = positions.get(token, 0) | 1 << i
    every = (1 << len(first)) - 1
    rows = [every]
    for token in second:
        matches = rows[-1] & positions.get(token, 0)
        rows.append(((rows[-1] + matches) | (rows[-1] - matches)) & every)
    return rows


# Name of a metric -> (whether it takes tokenised text, whether it takes text in lower case).
BLEUS: Mapping[str, tuple[bool, bool]] = MappingProxyType(
    {
        "BLEU": (False, False),
        "BLEU-lowercased": (False, True),
        "BLEU-tokenized": (True, False),
        "BLEU-tokenized-lowercased": (True, True),
    }
)


def with_unknown_words(text: str) -> str:
    """The text as it is scored: UNK is one wrong word. Tokenisers would split `<unk>` into three.

    >>> with_unknown_words("la <unk> dort .")
    'la UNK dort .'
    """
    return text.replace(UNK_SYMBOL, "UNK")


def tallies(
    translations: Sequence[str],
    references: Sequence[str],
    tokenize: Callable[[str], str],
    tokenizer: str = "13a",
) -> dict[str, Tally]:
    """Count the statistics of BLEU and chrF in each sentence, by name.

    BLEU and chrF are of ordinary text; BLEU uses sacreBLEU's `tokenizer`. The "-tokenized" scores
    are BLEU of text from `tokenize`, as in the paper and in older tables. UNK in a translation
    counts as one wrong word.
    """
    translations = [*map(with_unknown_words, translations)]
    plain = translations, references
    tokenised = [tokenize(line) for line in translations], [tokenize(line) for line in references]
    bleus = {
        name: bleu_tally(*(tokenised if tok else plain), "none" if tok else tokenizer, lowercase)
        for name, (tok, lowercase) in BLEUS.items()
    }
    return {**bleus, "chrF": chrf_tally(translations, references)}


def table(
    translations: Sequence[str],
    references: Sequence[str],
    tokenize: Callable[[str], str],
    tokenizer: str = "13a",
) -> dict[str, float | int | str]:
    """Return all scores of a system's output by name, for text and for the integer tasks.

    These are the scores of `tallies` and of `sequence_table`.
    """
    by_name = tallies(translations, references, tokenize, tokenizer)
    return {
        "sentences": len(references),
        **{name: tally.score() for name, tally in by_name.items()},
        **sequence_table(translations, references, tokenize),
        "signature": by_name["BLEU"].signature,
    }


def sequence_table(
    translations: Sequence[str], references: Sequence[str], tokenize: Callable[[str], str]
) -> dict[str, float]:
    """Return exact match, PSA and LCSR; "-seed" counts empty targets as 0.

    Exact match compares the lines as they are, except for the amount of white space, such as the
    carriage return of a file from Windows.
    """
    words = [[tokenize(line).split() for line in side] for side in (translations, references)]
    corrected, seed = (psa_lcsr(*words, empty=rule) for rule in ("corrected", "seed"))
    return {
        "exact": accuracy(
            *([line.split() for line in side] for side in (translations, references))
        ),
        "PSA": corrected.psa,
        "LCSR": corrected.lcsr,
        "GeoMean": corrected.geo_mean,
        "PSA-seed": seed.psa,
        "LCSR-seed": seed.lcsr,
        "GeoMean-seed": seed.geo_mean,
    }
