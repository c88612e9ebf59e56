"""The words of the built-in English-French corpus, in tables; `wordreader.load` fills them.

Each English word has one translation for each kind of neighbour it may have, so that the French is
a function of the English.

In templates (phrases given whole) a word is `text/n`: words of the same number are translations of
each other, number 1 where none is written; `~` makes its links possible ones instead of sure ones.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bahdanau_jax.data.sources.grammar.inflection import Forms, Verb
from bahdanau_jax.data.sources.grammar.synchronous import Pair

SLOT = 3  # words that a slot of a sentence takes at least
Name = tuple[str, str, int]  # English and French template, gender


class Noun(NamedTuple):
    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    gender: int


class Adjective(NamedTuple):
    english: str
    french: Forms
    before_vowel: str = ""  # the masculine singular there, where it is another: nouvel


class Sentence(NamedTuple):
    """A sentence given whole, with slots for phrases: "it is about {measure}"."""

    english: tuple[str, ...]  # items of a template, or slots
    french: tuple[str, ...]
    slots: Mapping[str, str]  # the slots and what fills them: a kind, or "clause"
    mark: str  # that ends it

    def least(self) -> int:
        """The smallest number of English words that fills it."""
        return len(self.english) + (SLOT - 1) * len(self.slots) + 1


class Lexicon(NamedTuple):
    """All words; a Mapping is by kind of thing."""

    nouns: Mapping[str, tuple[Noun, ...]]
    before: Mapping[str, tuple[Adjective, ...]]  # adjectives before the French noun
    quality: Mapping[str, tuple[Adjective, ...]]  # after it and after any of relation
    relations: Mapping[str, tuple[Adjective, ...]]
    modifiers: tuple[Adjective, ...]  # nouns before nouns, adjectives in French
    modifiers_with_de: tuple[Pair, ...]
    institutions: tuple[Name, ...]
    people: tuple[Name, ...]
    countries: tuple[Name, ...]
    in_names: tuple[Pair, ...]  # "in" and a country or city
    verbs: Mapping[str, tuple[Verb, ...]]  # by the kind of their object
    alone: Mapping[str, tuple[Verb, ...]]  # without object, by the kind of their subject
    giving: tuple[Verb, ...]
    saying: tuple[Verb, ...]
    wanting: tuple[Verb, ...]
    adverbs: tuple[Pair, ...]
    times: tuple[tuple[Pair, ...], ...]  # by tense
    prepositions: Mapping[str, tuple[Pair, ...]]
    sentences: tuple[Sentence, ...]
    names: frozenset[str]  # the English words of all names
    misleading: Mapping[str, frozenset[str]]  # words by language, see `inflection.spell`
