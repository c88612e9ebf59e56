"""The tables of the Moses rules for programs without sacremoses: the page, the exported folder."""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

Ranges = tuple[tuple[int, int], ...]  # the first and last code points of runs of characters


class MosesTables(NamedTuple):
    """The classes of characters and the abbreviations that the rules of a language use."""

    classes: dict[str, Ranges]  # alnum, alpha, number, lower, currency, letter
    prefixes: Sequence[str]  # abbreviations, after which a full stop belongs to the word
    numeric_prefixes: Sequence[str]  # those before a number alone
    cjk: Ranges  # characters that are words of their own


def moses_tables(language: str) -> MosesTables:
    """Return the tables of sacremoses for a language, by its code.

    >>> moses_tables("fr").prefixes[:3]
    ['A', 'B', 'C']
    """
    from sacremoses import MosesDetokenizer, MosesTokenizer
    from sacremoses.util import CJKChars

    tokenizer, detokenizer = MosesTokenizer(language), MosesDetokenizer
    classes = {
        "alnum": tokenizer.IsAlnum,
        "alpha": tokenizer.IsAlpha,
        "number": tokenizer.IsN,
        "lower": tokenizer.IsLower,
        "currency": detokenizer.IsSc,
        "letter": detokenizer.IsAlpha,
    }
    return MosesTables(
        {name: ranges(characters) for name, characters in classes.items()},
        list(dict.fromkeys(tokenizer.NONBREAKING_PREFIXES)),
        list(dict.fromkeys(tokenizer.NUMERIC_ONLY_PREFIXES)),
        tuple((first, last) for first, last in CJKChars().ranges),
    )


@functools.cache
def ranges(characters: str) -> Ranges:
    """Return the runs of consecutive code points among these characters.

    >>> ranges("abcx")
    ((97, 99), (120, 120))
    """
    codes = sorted(set(map(ord, characters)))
    runs = itertools.groupby(enumerate(codes), lambda item: item[1] - item[0])
    members = [[code for _, code in run] for _, run in runs]
    return tuple((run[0], run[-1]) for run in members)
