"""The tables of words of the built-in English-French corpus; `wordreader.load` fills them.

Each English word has one translation for each kind of neighbour, so that the French is a function
of the English.

In templates (complete phrases) a word is `text/n`. Words of the same number are translations of
each other; the default number is 1. `~` makes its links possible ones instead of sure ones.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bahdanau_jax.data.sources.grammar.inflection import Forms, Verb
from bahdanau_jax.data.sources.grammar.synchronous import Pair

SLOT = 3  # the smallest number of words in a slot of a sentence
Name = tuple[str, str, int]  # English and French template, gender


class Noun(NamedTuple):
    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    gender: int


class Adjective(NamedTuple):
    english: str
    french: Forms
    before_vowel: str = ""  # the masculine singular before a vowel, if it differs: nouvel


class Sentence(NamedTuple):
    """The template of a sentence, with slots for phrases: "it is about {measure}"."""

    english: tuple[str, ...]  # items of a template, or slots
    french: tuple[str, ...]
    slots: Mapping[str, str]  # slot -> the kind of phrase that fills it, or "clause"
    mark: str  # the last token, "." or "?"

    def least(self) -> int:
        """The smallest number of English words of such a sentence."""
        return len(self.english) + (SLOT - 1) * len(self.slots) + 1


class Lexicon(NamedTuple):
    """All words; the keys of each Mapping are kinds."""

    nouns: Mapping[str, tuple[Noun, ...]]
    before: Mapping[str, tuple[Adjective, ...]]  # adjectives before the French noun
    quality: Mapping[str, tuple[Adjective, ...]]  # after the noun and its relations
    relations: Mapping[str, tuple[Adjective, ...]]
    modifiers: tuple[Adjective, ...]  # nouns before nouns that are adjectives in French
    modifiers_with_de: tuple[Pair, ...]
    institutions: tuple[Name, ...]
    people: tuple[Name, ...]
    countries: tuple[Name, ...]
    in_names: tuple[Pair, ...]  # "in" and a country or city
    verbs: Mapping[str, tuple[Verb, ...]]  # by the kind of their object
    intransitive: Mapping[str, tuple[Verb, ...]]  # by the kind of their subject
    giving: tuple[Verb, ...]
    saying: tuple[Verb, ...]
    wanting: tuple[Verb, ...]
    adverbs: tuple[Pair, ...]
    times: tuple[tuple[Pair, ...], ...]  # by tense
    prepositions: Mapping[str, tuple[Pair, ...]]
    sentences: tuple[Sentence, ...]
    names: frozenset[str]  # the English words of all names
    misleading: Mapping[str, frozenset[str]]  # language -> words, see `inflection.spell`
