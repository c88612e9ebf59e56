"""UNK replacement: the source word with the largest attention weight takes the place of UNK.

Source: Luong et al. 2015 (arXiv 1410.8206) and Jean et al. 2015 (arXiv 1412.2007).
"""

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from bahdanau_jax.batch import EOS_SYMBOL, UNK_SYMBOL
from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.data import Codec, unit_spans
from bahdanau_jax.decoding.translation import distinct
from bahdanau_jax.hypothesis import Hypothesis

Lexicon = Mapping[str, str]  # source word -> target word
NO_LEXICON: Lexicon = MappingProxyType({})


def replace_unknown(
    hypothesis: Hypothesis,
    codecs: tuple[Codec, Codec],
    source: str,
    lexicon: Lexicon = NO_LEXICON,
) -> Hypothesis:
    """Replace each UNK in a hypothesis's text by the source unit with its largest weight.

    `source` is the line that was translated. The unit (never EOS) is translated by `lexicon`, which
    is asked for the unit as written and then in lower case, or else copied as written. An UNK whose
    weights are all 0 stays. Tokens and probabilities do not change. Where the text does, `original`
    is that of the search.

    >>> replace_unknown(hypothesis, run.codecs, "Mrs. Oomen-Ruijten sleeps.").text
    'Mme Oomen-Ruijten dort.'
    """
    if UNK_SYMBOL not in hypothesis.tokens or not (units := unit_spans(codecs[0], source)):
        return hypothesis
    alpha = hypothesis.alpha[:, : len(units)]
    symbols = [
        _replacement(source, units[unit], lexicon) if token == UNK_SYMBOL and weight > 0 else token
        for token, unit, weight in zip(
            hypothesis.tokens, alpha.argmax(1), alpha.max(1), strict=True
        )
        if token != EOS_SYMBOL
    ]
    ends = itertools.pairwise((0, *hypothesis.seams, len(symbols)))
    parts = [codecs[1].write(symbols[a:b]) for a, b in ends]  # joined as `long_lines.join` does
    text = " ".join(filter(None, parts))
    if text == hypothesis.text:
        return hypothesis
    original = hypothesis.text if hypothesis.original is None else hypothesis.original
    return dataclasses.replace(hypothesis, text=text, original=original)


def replace_in_all(
    ranked: Sequence[Hypothesis],
    codecs: tuple[Codec, Codec],
    source: str,
    decoding: DecodingConfig,
    lexicon: Lexicon = NO_LEXICON,
) -> list[Hypothesis]:
    """Replace UNK in the hypotheses of a line; those that now have one text become one."""
    replaced = [replace_unknown(each, codecs, source, lexicon) for each in ranked]
    return distinct(replaced, decoding)


def _replacement(source: str, span: tuple[int, int], lexicon: Lexicon) -> str:
    word = source[slice(*span)]
    return lexicon.get(word) or lexicon.get(word.lower()) or word


def read_lexicon(lines: Iterable[str], name: str) -> dict[str, str]:
    """Read lines of a source word, a tab and its target word; the first line of a word counts.

    Raises ValueError with the line's number.
    """
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
    """The numbers of links between words, and the lexicon that they give.

    >>> counts = LexiconCounts()
    >>> counts.add(["the", "cat"], ["le", "chat"], {(0, 0), (1, 1)})
    >>> counts.lexicon()
    {'cat': 'chat', 'the': 'le'}
    """

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(
        self, source: Sequence[str], target: Sequence[str], links: Iterable[tuple[int, int]]
    ) -> None:
        """Count the links (source word, target word) of a pair of sentences."""
        for i, j in links:
            self._counts[source[i]][target[j]] += 1

    def lexicon(self, least: int = 1) -> dict[str, str]:
        """Return each source word's most frequent target word with at least `least` links.

        Ties go to the first word in the order of code points.
        """
        lexicon = {}
        for word, counts in self._counts.items():
            target, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
            if count >= least:
                lexicon[word] = target
        return lexicon
