"""What a user should know about the corpora of a configuration before training, a line each."""

import itertools
from collections.abc import Iterator, Sequence

from bahdanau_jax import splits
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources import addresses
from bahdanau_jax.data.tokens.codec import SIDES

SAMPLE = 1_000  # first pairs of each corpus that are looked at
LEAST = 4  # characters on average, above which a sentence without a space is hardly one word
# What an empty split means.
EMPTY = {
    "dev": "data.dev is empty: without dev scores, the newest checkpoint is used as the best",
    "test": "data.test is empty: the report has no test scores",
}


def on_splits(config: DataConfig) -> list[str]:
    """What is not measured.

    >>> on_splits(DataConfig(train="text:a.en,a.fr", dev="text:b.en,b.fr"))
    ['data.test is empty: the report has no test scores (name pairs: --data.test text:F,F)']
    """
    empty = [split for split in EMPTY if not getattr(config, split)]
    found = []
    if empty:
        means = "; ".join(EMPTY[split] for split in empty)
        options = ", ".join(f"--data.{split} text:F,F" for split in empty)
        found.append(f"{means} (name pairs: {options})")
    return found


def on_other_corpora(config: DataConfig) -> list[str]:
    """A line for each split with pairs of a built-in corpus that the model is not trained on.

    A configuration that was changed in Python has them where its `train` alone was replaced.
    """
    trained, found = splits.corpora(config.train), []
    for split in EMPTY:
        corpora = splits.corpora(getattr(config, split))
        others = sorted(each for each in corpora - trained if each.startswith("builtin:"))
        if others:
            found.append(
                f"data.{split} has pairs of {', '.join(others)}, but data.train has none of these, "
                f"so their scores would say little about this model: name other pairs by "
                f'data.{split}, or set it to ""'
            )
    return found


def on_words(config: DataConfig) -> list[str]:
    """A line for each side whose sentences are mostly one word of the vocabulary each.

    So a text without spaces between words, such as Chinese, is found in its first pairs.
    """
    if config.vocabulary != "words":
        return []
    corpora = [c.address for c in addresses.corpora(config.train)]
    pairs = [*itertools.chain.from_iterable(_first(address, config) for address in corpora)]
    sides = zip(SIDES, zip(*pairs, strict=True), strict=True) if pairs else ()
    return [
        f"most sentences on the {side} side of data.train have no space in them, and "
        "data.vocabulary words makes one word of each: set it to characters or sentencepiece"
        for side, sentences in sides
        if _is_unspaced(sentences)
    ]


def _first(address: str, config: DataConfig) -> Iterator[addresses.Pair]:
    if address.startswith("builtin:"):  # which have spaces
        return iter(())
    return itertools.islice(addresses.pairs(address, config), SAMPLE)


def _is_unspaced(sentences: Sequence[str]) -> bool:
    full = [words for words in map(str.split, sentences) if words]
    alone = [words[0] for words in full if len(words) == 1]
    return 2 * len(alone) > len(full) and sum(map(len, alone)) >= LEAST * len(alone)
