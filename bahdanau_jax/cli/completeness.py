"""Warnings about translations that are missing or cut off."""

import logging
from collections.abc import Sequence

from bahdanau_jax.hypothesis import TOO_LONG, Hypothesis

log = logging.getLogger(__name__)


class Completeness:
    """Warn about each line that is too long to translate, and count translations without EOS.

    >>> watch = Completeness(max_ratio=3.0)
    >>> watch(0, run.translate(lines, n_best=2))
    >>> watch.report()
    """

    def __init__(self, max_ratio: float, prefixed: bool = False):
        self._max_ratio, self._prefixed = max_ratio, prefixed
        self._written = self._cut = 0
        self._first = -1  # line of the first translation without EOS

    def __call__(self, first: int, ranked: Sequence[Sequence[Hypothesis]]) -> None:
        """Check the hypotheses of each line; `first` is the number of the first line, from 0."""
        for number, hypotheses in enumerate(ranked, start=first):
            if hypotheses[0] == TOO_LONG:
                what = f"line {number + 1}" + " or its prefix" * self._prefixed
                log.warning(f"{_too_long(what)}; its output is blank: break it into sentences")
                continue
            cut = sum(not hypothesis.finished for hypothesis in hypotheses)
            self._first = number if cut and not self._cut else self._first
            self._cut += cut
            self._written += len(hypotheses)

    def report(self) -> None:
        """Warn about the number of translations without EOS, if there are any."""
        if self._cut:
            log.warning(
                f"{self._cut:,} of {self._written:,} translations are cut off at "
                f"{self._max_ratio:g} tokens for each source token, the first in line "
                f"{self._first + 1}: give a larger --max-ratio"
            )


def _too_long(what: str) -> str:
    from bahdanau_jax import decoding

    return f"{what} has more than {decoding.LONGEST:,} tokens"
