"""Remarks on the corpora of a configuration before training: each is one line."""

import itertools
import re
from collections.abc import Iterator, Sequence

from bahdanau_jax import splits
from bahdanau_jax.batch import SIDES
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources import addresses

SAMPLE = 1_000  # pairs at the beginning of each corpus that are examined
LEAST = 4  # average characters of a sentence without spaces that is more than a single word
# Files of a side of a text corpus, the first of which ends in a language code, as a.de or a.de.gz.
CODED = re.compile(r"[^+]*?\.(?!gz|xz)([a-z]{2})(?:\.gz|\.xz)?(?:\+.*)?")
# Split, dev or test -> what follows where it is empty.
EMPTY = {
    "dev": "data.dev is empty: without dev scores, the newest checkpoint is used as the best",
    "test": "data.test is empty: the report has no test scores",
}


def on_splits(config: DataConfig) -> list[str]:
    """A line about scores that are not measured because a split is empty.

    >>> on_splits(DataConfig(train="text:a.en,a.fr", dev="text:b.en,b.fr"))
    ['data.test is empty: the report has no test scores (name pairs: --data.test text:F,F)']
    """
    empty = [split for split in EMPTY if not getattr(config, split)]
    if not empty:
        return []
    means = "; ".join(EMPTY[split] for split in empty)
    options = ", ".join(f"--data.{split} text:F,F" for split in empty)
    return [f"{means} (name pairs: {options})"]


def on_other_corpora(config: DataConfig) -> list[str]:
    """A line for each split with pairs of a built-in corpus that is not in `data.train`.

    This happens if a program replaces `train` alone in a configuration.
    """
    trained, lines = splits.corpora(config.train), []
    for split in EMPTY:
        corpora = splits.corpora(getattr(config, split))
        others = sorted(name for name in corpora - trained if name.startswith("builtin:"))
        if others:
            lines.append(
                f"data.{split} has pairs of {', '.join(others)}, but data.train has none of these, "
                f"so their scores would say little about this model: name other pairs by "
                f'data.{split}, or set it to ""'
            )
    return lines


def on_languages(config: DataConfig) -> list[str]:
    """A line if the names of training files say other languages than the settings.

    >>> on_languages(DataConfig(train="text:a.de,a.en"))[0].partition(",")[0]
    'the files of data.train end in .de and .en'
    """
    own = (config.source_language, config.target_language)
    for corpus in addresses.corpora(config.train):
        kind, _, files = corpus.address.partition(":")
        sides = [CODED.fullmatch(side) for side in files.split(",")] if kind == "text" else []
        codes = tuple(side[1] for side in sides if side)
        if len(codes) == 2 and codes != own:
            return [
                f"the files of data.train end in .{codes[0]} and .{codes[1]}, but "
                f"data.source_language is {own[0]} and data.target_language {own[1]}; to change "
                f"that: --data.source-language {codes[0]} --data.target-language {codes[1]}"
            ]
    return []


def on_words(config: DataConfig) -> list[str]:
    """A line for each side of which most sentences are a single word, as in Chinese text.

    Only the first pairs of each corpus are examined.
    """
    if config.vocabulary != "words":
        return []
    corpora = [corpus.address for corpus in addresses.corpora(config.train)]
    pairs = [*itertools.chain.from_iterable(_first(address, config) for address in corpora)]
    sides = zip(SIDES, zip(*pairs, strict=True), strict=True) if pairs else ()
    return [
        f"most sentences on the {side} side of data.train have no space in them, and "
        "data.vocabulary words makes one word of each: set it to characters or sentencepiece"
        for side, sentences in sides
        if _is_unspaced(sentences)
    ]


def _first(address: str, config: DataConfig) -> Iterator[addresses.Pair]:
    if address.startswith("builtin:"):  # its sentences have spaces
        return iter(())
    return itertools.islice(addresses.pairs(address, config), SAMPLE)


def _is_unspaced(sentences: Sequence[str]) -> bool:
    split = [words for words in map(str.split, sentences) if words]
    single = [words[0] for words in split if len(words) == 1]
    return 2 * len(single) > len(split) and sum(map(len, single)) >= LEAST * len(single)
