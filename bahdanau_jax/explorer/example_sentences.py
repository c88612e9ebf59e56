"""The sentences that a page offers, with their references and gold links where there are any."""

import html
import itertools
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bahdanau_jax import data
from bahdanau_jax.alignment import Gold, GoldFile
from bahdanau_jax.data import LEVELS, Codec, Segmented, overlaps, unit_spans
from bahdanau_jax.pairing import check_equal_counts, check_list
from bahdanau_jax.trained import Run

log = logging.getLogger(__name__)

EXAMPLES = 12  # sentences of a page that was given none
CANDIDATES = 400  # pairs of the test corpus that they are chosen from
SHORTEST, LONGEST = 5, 18  # tokens of a chosen sentence


class Sentence(NamedTuple):
    """A sentence of the page."""

    text: str
    reference: str | None = None
    gold: Gold | None = None
    level: str = "word"  # a key of data.LEVELS: the words that `gold` counts


def unescaped(sentence: Sentence) -> Sentence:
    """The sentence with characters in place of entities, as `data.unescape` reads it."""
    reference = sentence.reference
    return sentence._replace(
        text=html.unescape(sentence.text),
        reference=None if reference is None else html.unescape(reference),
    )


def given(
    lines: Sequence[str], references: Sequence[str] = (), gold: GoldFile | None = None
) -> list[Sentence]:
    """Return the user's own sentences.

    Raises ValueError where there are not as many references, or gold links of another text, and
    TypeError for one text in place of a list.

    >>> given(["The man sleeps ."])[0].reference is None
    True
    """
    check_list("sentences", lines)
    if not references:
        if gold is not None:
            raise ValueError("gold links belong to references, which are missing")
        return [Sentence(line) for line in lines]
    check_equal_counts("sentences", lines, "references", references)
    if gold is None:
        return [Sentence(*pair) for pair in zip(lines, references, strict=True)]
    gold.check(len(lines))
    return [
        Sentence(line, reference, gold.links(i, len(line.split()), len(reference.split())))
        for i, (line, reference) in enumerate(zip(lines, references, strict=True))
    ]


def of_test_corpus(run: Run) -> list[Sentence]:
    """Return sentences of the run's test corpus; none where it has no corpus that can be read.

    A corpus that would have to be downloaded is not read, and a warning says so.
    """
    spec, config = run.config.data.test, run.config.data
    try:
        address = data.corpora(spec)[0].address if spec else ""
        if not address:
            return []
        if not data.is_here(address, config):
            log.warning("no examples: %s is not on this machine (name a file by --input)", address)
            return []
        pairs = itertools.islice(data.pairs(address, config), CANDIDATES)
        aligned = itertools.repeat(None)
        if data.is_aligned(address):
            aligned = data.aligned_pairs(address, config)
        sentences = [
            Sentence(pair.source, pair.target, links and Gold(links.sure, links.possible), "token")
            for pair, links in zip(pairs, aligned, strict=False)
        ]
    except (OSError, ValueError):
        return []
    return _chosen(run.codecs[0], sentences)


def _chosen(codec: Codec, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The first sentences of a length that fits a screen, shortest first after the first one."""
    lengths = {i: len(codec.tokenize(s.text).split()) for i, s in enumerate(sentences)}
    fitting = [i for i, n in lengths.items() if SHORTEST <= n <= LONGEST] or [*lengths]
    chosen = sorted(fitting[:EXAMPLES], key=lambda i: lengths[i])
    middle = len(chosen) // 2  # the page opens with a sentence of a middle length
    return [sentences[i] for i in [*chosen[middle : middle + 1], *chosen[:middle]]] + [
        sentences[i] for i in chosen[middle + 1 :]
    ]


def gold_data(run: Run, sentence: Sentence) -> dict[str, Any] | None:
    """Return gold links with the units of each word, as the page merges weights; None without."""
    if sentence.gold is None or sentence.reference is None:
        return None
    config = run.config.data
    texts = sentence.text, sentence.reference
    languages = config.source_language, config.target_language
    source, target = (
        _units(codec, LEVELS[sentence.level](codec, language, text))
        for codec, language, text in zip(run.codecs, languages, texts, strict=True)
    )
    fits = all(i < len(source) and j < len(target) for i, j in sentence.gold.possible)
    if not fits:
        return None
    return {
        "source": source,
        "target": target,
        "sure": sorted(map(list, sentence.gold.sure)),
        "possible": sorted(map(list, sentence.gold.possible)),
    }


def _units(codec: Codec, line: Segmented) -> list[list[int]]:
    """The units of each word, as `aligner` joins them."""
    units = unit_spans(codec, line.text)
    if list(line.spans) == list(units):
        return [[i] for i in range(len(units))]
    inside = overlaps(line.spans, units)[:-1, :-1]
    return [np.flatnonzero(row).tolist() for row in inside]
