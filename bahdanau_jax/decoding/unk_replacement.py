"""UNK replacement: an unknown word of a translation becomes the source word it was looked at for.

Source: Luong et al. 2015 (arXiv 1410.8206) and Jean et al. 2015 (arXiv 1412.2007), with the links
from attention.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from bahdanau_jax.batch import EOS_SYMBOL, UNK_SYMBOL
from bahdanau_jax.data import Codec, unit_spans
from bahdanau_jax.hypothesis import Hypothesis

Lexicon = Mapping[str, str]  # source word -> target word
NO_LEXICON: Lexicon = MappingProxyType({})


def replace_unknown(
    hypothesis: Hypothesis,
    codecs: tuple[Codec, Codec],
    source: str,
    lexicon: Lexicon = NO_LEXICON,
) -> Hypothesis:
    """The hypothesis with a text in which each UNK is the source unit of its largest weight.

    `source` is the line that was translated. The unit, EOS never, is copied as it was written
    there, casing kept, or said as `lexicon` says it (as written, or else in lower case). An UNK
    that looked at no unit stays. Tokens and probabilities are those of the model, and `original`
    is its text.

    >>> replace_unknown(hypothesis, run.codecs, "Mrs. Oomen-Ruijten sleeps.").text
    'Mme Oomen-Ruijten dort.'
    """
    units = unit_spans(codecs[0], source)
    if UNK_SYMBOL not in hypothesis.tokens or not units:
        return hypothesis
    seen = hypothesis.alpha[:, : len(units)]
    looks = zip(hypothesis.tokens, seen.argmax(1), seen.max(1), strict=True)
    symbols = [
        _said(source, units[look], lexicon) if token == UNK_SYMBOL and weight > 0 else token
        for token, look, weight in looks
        if token != EOS_SYMBOL
    ]
    return dataclasses.replace(hypothesis, text=codecs[1].write(symbols), original=hypothesis.text)


def _said(source: str, span: tuple[int, int], lexicon: Lexicon) -> str:
    word = source[slice(*span)]
    return lexicon.get(word) or lexicon.get(word.lower()) or word


def read_lexicon(lines: Iterable[str], name: str) -> dict[str, str]:
    """Of each line a source word, a tab, and what the target says for it; the first of a word
    counts. Raises ValueError with the line's number."""
    lexicon: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            raise ValueError(
                f"{name}:{number}: a line of a lexicon is a source word, a tab and a target word, "
                f"not {line[:80]!r}"
            )
        lexicon.setdefault(*cells)
    return lexicon


class LexiconCounts:
    """How often words were linked: a lexicon learned from alignments.

    >>> counts = LexiconCounts()
    >>> counts.add(["the", "cat"], ["le", "chat"], {(0, 0), (1, 1)})
    >>> counts.lexicon()
    {'the': 'le', 'cat': 'chat'}
    """

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(
        self, source: Sequence[str], target: Sequence[str], links: Iterable[tuple[int, int]]
    ) -> None:
        for i, j in links:
            self._counts[source[i]][target[j]] += 1

    def lexicon(self, least: int = 1) -> dict[str, str]:
        """Each source word's commonest target word, where linked `least` times or more; of equals,
        the first in the order of code points."""
        best = {}
        for word, found in self._counts.items():
            said, count = min(found.items(), key=lambda item: (-item[1], item[0]))
            if count >= least:
                best[word] = said
        return best
