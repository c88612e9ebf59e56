"""Phrases of two languages whose tokens have marks; the word alignment follows from the marks.

A mark is the number of a meaning that a token expresses. Tokens of the two languages with a common
mark are linked. The link is sure if the mark is positive on both sides, and only possible if it is
negative on one side.
"""

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import NamedTuple, TypeVar

from bahdanau_jax.data.sources.grammar.inflection import THIRD, Token

Pair = tuple[str, str]  # an English template and its French one
Value = TypeVar("Value")
Links = frozenset[tuple[int, int]]  # (source word, target word)


class Phrase(NamedTuple):
    """The two sides of a constituent, and the features for agreement."""

    en: list[Token]
    fr: list[Token]
    person: int = THIRD
    gender: int = 0
    kind: str = ""  # a kind of `wordfile.KINDS`; empty if no rule needs it


EMPTY = Phrase([], [])


def join(*phrases: Phrase) -> Phrase:
    """Phrases one after the other in both languages."""
    en, fr = [], []
    for phrase in phrases:
        en += phrase.en
        fr += phrase.fr
    return Phrase(en, fr)


@cache
def parse(template: str) -> tuple[tuple[str, int], ...]:
    """The words of a template and their numbers, which are negative for possible links.

    >>> parse("~ne/2 voit/1 pas/2")
    (('ne', -2), ('voit', 1), ('pas', 2))
    """
    words = []
    for item in template.split():
        word, _, number = item.partition("/")
        words.append((word.lstrip("~"), int(number or 1) * (-1 if word[0] == "~" else 1)))
    return tuple(words)


def links(source: Sequence[Token], target: Sequence[Token]) -> tuple[Links, Links]:
    """(sure, possible) links (source position, target position) of two marked sentences.

    >>> sorted(links([("the", (1,)), ("man", (2,))], [("l'", (1,)), ("homme", (2,))])[0])
    [(0, 0), (1, 1)]
    """
    places: dict[int, list[tuple[int, bool]]] = {}
    for i, (_, marks) in enumerate(source):
        for mark in marks:
            places.setdefault(abs(mark), []).append((i, mark > 0))
    sure, possible = set(), set()
    for j, (_, marks) in enumerate(target):
        for mark in marks:
            for i, certain in places.get(abs(mark), ()):
                possible.add((i, j))
                if certain and mark > 0:
                    sure.add((i, j))
    return frozenset(sure), frozenset(possible)


class Writer:
    """Random choices and new marks for the rules of a synchronous grammar.

    Without `linked`, marks are not numbered, so links have no meaning. A phrase from a template
    then depends on the template alone, and is cached.
    """

    def __init__(self, random: Random, linked: bool = True):
        self._random = random.random
        self._last = 0  # the base of the last marks
        self._step = 10 if linked else 0  # more than the numbers of a template
        if not linked:
            self._words = cache(self._words)

    def _pick(self, values: Sequence[Value]) -> Value:
        return values[int(self._random() * len(values))]

    def _mark(self) -> int:
        self._last += self._step
        return self._last

    def _tokens(self, template: str, base: int) -> list[Token]:
        return [(word, (base + n if n > 0 else n - base,)) for word, n in parse(template)]

    def _words(self, pair: Pair, person: int = THIRD, gender: int = 0, kind: str = "") -> Phrase:
        """A phrase from a pair of templates, with new marks."""
        base = self._mark()
        en, fr = self._tokens(pair[0], base), self._tokens(pair[1], base)
        return Phrase(en, fr, person, gender, kind)
