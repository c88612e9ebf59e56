"""How good translations are: BLEU and chrF of text, exact match, PSA and LCSR of sequences."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from bahdanau_jax.evaluation.tally import Tally, bleu_tally, check_counts, chrf_tally


class Bleu(NamedTuple):
    """Corpus BLEU."""

    score: float  # 0 to 100
    signature: str  # sacreBLEU's, with its version: quote it beside the score


class Chrf(NamedTuple):
    """Corpus chrF2."""

    score: float  # 0 to 100
    signature: str  # as of Bleu


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
    """Corpus BLEU by sacreBLEU, one reference a sentence.

    Text that is tokenised already, as the paper's, takes tokenize="none"; any other name wants
    ordinary text. Raises ValueError for no sentences, unequal counts, or an unknown tokeniser.

    >>> bleu(["the cat sat on the mat"], ["the cat sat on the mat"]).score
    100.0
    """
    tally = bleu_tally(hypotheses, references, tokenize, lowercase)
    return Bleu(tally.score(), tally.signature)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Chrf:
    """Corpus chrF2 (characters to 6-grams) by sacreBLEU, one reference a sentence.

    Raises ValueError for no sentences or unequal counts.
    """
    tally = chrf_tally(hypotheses, references)
    return Chrf(tally.score(), tally.signature)


def accuracy(
    predictions: Sequence[Sequence[Hashable]], targets: Sequence[Sequence[Hashable]]
) -> float:
    """Exact match: the share of predictions that equal their target in every token.

    Raises ValueError for no pairs or unequal counts.

    >>> accuracy([[7, 6], [5]], [[7, 6], [5, 4]])
    0.5
    """
    check_counts("predictions", predictions, "targets", targets)
    pairs = zip(predictions, targets, strict=True)
    return sum(tuple(p) == tuple(t) for p, t in pairs) / len(targets)


# What a pair with an empty target scores, given whether its prediction is empty too.
EMPTY_TARGET: Mapping[str, Callable[[bool], float]] = MappingProxyType(
    {"seed": lambda prediction_is_empty: 0.0, "corrected": float}
)


def psa_lcsr(
    predictions: Sequence[Sequence[Hashable]],
    targets: Sequence[Sequence[Hashable]],
    empty: str = "seed",
) -> SequenceScores:
    """PSA = matching positions / n, LCSR = longest common subsequence / n, n the target's length.

    The caller cuts both sides before EOS. The prediction is then cut to its first n tokens, and a
    shorter one padded with what matches nothing, for BOTH measures. So LCSR too looks no further
    than n: against target 2 3, the prediction 9 2 3 has LCSR 1/2, not 1; and tokens after a
    complete target cost nothing: 2 3 5 scores 1 (`accuracy` is what counts those). Matching
    positions are a common subsequence, hence PSA <= LCSR for every pair.

    An empty target scores 0 with empty="seed" (primes experiment, whose best is then the share of
    targets with a token), and with "corrected" 1 where the prediction is empty too, else 0. Raises
    ValueError for no pairs, unequal counts, or an unknown `empty`.

    >>> psa_lcsr([[2, 3, 7]], [[2, 5, 3, 7]])
    SequenceScores(psa=0.25, lcsr=0.75, geo_mean=0.4330127018922193)
    """
    if empty not in EMPTY_TARGET:
        raise ValueError(f"no rule {empty!r} for empty targets; known: {', '.join(EMPTY_TARGET)}")
    check_counts("predictions", predictions, "targets", targets)
    psa = lcsr = geo_mean = 0.0
    for prediction, target in zip(predictions, targets, strict=True):
        if n := len(target):
            cut = prediction[:n]
            matches = sum(p == t for p, t in zip(cut, target, strict=False)) / n
            common = longest_common_subsequence(cut, target) / n
        else:
            matches = common = EMPTY_TARGET[empty](len(prediction) == 0)
        psa += matches
        lcsr += common
        geo_mean += math.sqrt(matches * common)
    pairs = len(targets)
    return SequenceScores(psa / pairs, lcsr / pairs, geo_mean / pairs)


def longest_common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest sequence that both contain in order, gaps allowed.

    A row of the usual table grows by 0 or 1 from cell to cell, so it fits the bits of one integer,
    0 where it grows, and each token of `second` costs one addition (Hyyrö 2004).

    >>> longest_common_subsequence("abcbdab", "bdcaba")
    4
    """
    positions: dict[Hashable, int] = {}
    for i, token in enumerate(first):
        positions[token] = positions.get(token, 0) | 1 << i
    every = (1 << len(first)) - 1
    row = every
    for token in second:
        matches = row & positions.get(token, 0)
        row = ((row + matches) | (row - matches)) & every
    return len(first) - row.bit_count()


# The metrics of text, and of each whether it is of tokenised text, and of text in lower case.
BLEUS: Mapping[str, tuple[bool, bool]] = MappingProxyType(
    {
        "BLEU": (False, False),
        "BLEU-lowercased": (False, True),
        "BLEU-tokenized": (True, False),
        "BLEU-tokenized-lowercased": (True, True),
    }
)


def tallies(
    translations: Sequence[str],
    references: Sequence[str],
    tokenize: Callable[[str], str],
    tokenizer: str = "13a",
) -> dict[str, Tally]:
    """BLEU and chrF by name, counted and not yet summed.

    BLEU and chrF are of ordinary text, the former with sacreBLEU's `tokenizer`; "-tokenized" is
    BLEU of `tokenize`d text, as the paper's and older tables have it.
    """
    tokenised = [tokenize(line) for line in translations], [tokenize(line) for line in references]
    sides: dict[bool, tuple[Sequence[str], Sequence[str]]]
    sides = {False: (translations, references), True: tokenised}
    found = {
        name: bleu_tally(sides[tok][0], sides[tok][1], "none" if tok else tokenizer, lowercase)
        for name, (tok, lowercase) in BLEUS.items()
    }
    return {**found, "chrF": chrf_tally(translations, references)}


def table(
    translations: Sequence[str],
    references: Sequence[str],
    tokenize: Callable[[str], str],
    tokenizer: str = "13a",
) -> dict[str, float | int | str]:
    """All scores of a system's output by name, for text and for the integer tasks alike.

    Those of `tallies`; PSA and LCSR compare tokens, and "-seed" counts empty targets as 0.
    """
    counted = tallies(translations, references, tokenize, tokenizer)
    return {
        "sentences": len(references),
        **{name: tally.score() for name, tally in counted.items()},
        **sequence_table(translations, references, tokenize),
        "signature": counted["BLEU"].signature,
    }


def sequence_table(
    translations: Sequence[str], references: Sequence[str], tokenize: Callable[[str], str]
) -> dict[str, float]:
    """The scores of `table` that compare whole sequences."""
    words = [[tokenize(line).split() for line in side] for side in (translations, references)]
    corrected, seed = (psa_lcsr(*words, empty=rule) for rule in ("corrected", "seed"))
    return {
        "exact": accuracy(translations, references),
        "PSA": corrected.psa,
        "LCSR": corrected.lcsr,
        "GeoMean": corrected.geo_mean,
        "PSA-seed": seed.psa,
        "LCSR-seed": seed.lcsr,
        "GeoMean-seed": seed.geo_mean,
    }
