"""Statistics of translations besides scores: lengths, repetition, attention to the source."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

ORDERS = (1, 2, 3, 4)  # of n-grams
LITTLE, MUCH = 0.1, 2.0  # bounds of the total attention to a source word


def repetition(sentences: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Measure the repetition in tokenised sentences; compare it with that of the references.

    - `sentences`: share of the sentences in which an n-gram directly follows itself, for each n
      from 1 to 4 and for any of them.
    - `again`: share of the n-grams that occur earlier in the same sentence, over all sentences:
      1 − Σ different n-grams / Σ n-grams. It is seq-rep-n of Welleck et al. 2020 (arXiv
      1908.04319), pooled over the sentences, where theirs is a mean of the sentences' ratios.

    Shares of nothing are NaN.

    >>> repetition([["a", "b", "a", "b"]])["sentences"]
    {'any': 1.0, '1': 0.0, '2': 1.0, '3': 0.0, '4': 0.0}
    """
    at_once = np.array([[_follows_itself(words, n) for n in ORDERS] for words in sentences])
    at_once = at_once.reshape(-1, len(ORDERS))
    shares = [_share(at_once[:, i].sum(), len(at_once)) for i in range(len(ORDERS))]
    again = {}
    for n in ORDERS:
        grams = [[tuple(w[i : i + n]) for i in range(len(w) - n + 1)] for w in sentences]
        total = sum(map(len, grams))
        again[str(n)] = _share(total - sum(len(set(own)) for own in grams), total)
    any_order = _share(at_once.any(axis=1).sum(), len(at_once))
    by_order = {str(n): share for n, share in zip(ORDERS, shares, strict=True)}
    return {"sentences": {"any": any_order, **by_order}, "again": again}


def _follows_itself(words: Sequence[str], n: int) -> bool:
    """Whether an n-gram directly follows itself: n matches in a row at distance n."""
    run = 0
    for before, after in zip(words, words[n:], strict=False):
        run = run + 1 if before == after else 0
        if run == n:
            return True
    return False


def coverage(totals: Sequence[Float[np.ndarray, " S"]]) -> dict[str, float | int]:
    """Summarise the total attention Σ_i α_ij to each source word j, over all sentences.

    In Tu et al. 2016 (arXiv 1601.04811), a total that is too large is over-translation, and one
    that is too small is under-translation. The bounds 0.1 and 2 are this project's own choice; a
    total of 1 is the attention of one target word.

    >>> coverage([np.array([0.05, 1.0, 2.5, 0.45])])["little"]
    0.25
    """
    values = np.concatenate([np.zeros(0), *(np.asarray(total, np.float64) for total in totals)])
    return {
        "words": len(values),
        "mean": float(values.mean()) if len(values) else float("nan"),
        "little": _share((values < LITTLE).sum(), len(values)),
        "much": _share((values > MUCH).sum(), len(values)),
    }


def length_ratio(ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> float:
    """Return the words of translations over the words of references; NaN where these have none."""
    return _share(sum(map(len, ours)), sum(map(len, theirs)))


def _share(part: Any, whole: int) -> float:
    return float(part) / whole if whole else float("nan")
