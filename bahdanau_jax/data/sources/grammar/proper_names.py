"""Proper names of the built-in corpus: those of the lexicon, and any number of rare names.

A rare name is the same word in both languages. Its ending shows its kind, so that the French
follows from the English: Komira (a woman), Kodan (a man), Kosen (a surname), Kopolis (a
city), Kodovia (a country, feminine), Korstan (a country, masculine).
"""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

from bahdanau_jax.data.sources.grammar.inflection import THIRD, begins_with_vowel
from bahdanau_jax.data.sources.grammar.lexicon import Lexicon, Name
from bahdanau_jax.data.sources.grammar.synchronous import Phrase, Writer, join

# No ending is the end of another one, and a name has only one division into syllables. So different
# ranks have different names.
ENDINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "man": ("dan", "mir", "los", "vek"),
        "woman": ("mira", "dana", "lisa", "veka"),
        "surname": ("sen", "vitz", "ley", "rand"),
        "city": ("polis", "burg", "ville", "ford"),
        "country m": ("rstan", "lgar"),
        "country f": ("dovia", "tovia"),
    }
)
# First syllables and all others, in the order of the frequency of their names.
_BEGIN = "ko a bre te o sta li u ma dra e pi zo ru i fa tri ne so va gle ba ga kre du plo mi sa"
_GO_ON = "la ri no be ka mo ti sa do ve lu ta ni ro ma gi pe so va ki ra lo du ne bi ga to mi"
_FIRST, _NEXT = tuple(_BEGIN.split()), tuple(_GO_ON.split())
_COMMON = 5  # names that share about a third of all uses
# Kind of a noun -> kind of the name after "of"; by default a country: "the law of Kodovia", "the
# house of Komira", "the church of Kopolis".
_OF = {"thing": "person", "place": "city"}


def coin(kind: str, rank: int) -> str:
    """The name of this rank, from 0, for a kind of ENDINGS; each rank has a different name.

    >>> [coin("city", rank) for rank in (0, 4, 1_000, 1_000_000)]
    ['Kopolis', 'Apolis', 'Misapolis', 'Trinevelupolis']
    """
    rest, ending = divmod(rank, len(ENDINGS[kind]))
    rest, digit = divmod(rest, len(_FIRST))
    name = _FIRST[digit]
    while rest:
        rest, digit = divmod(rest - 1, len(_NEXT))
        name += _NEXT[digit]
    return (name + ENDINGS[kind][ending]).capitalize()


class ProperNames(Writer):
    """Rules for names. `rare` is the probability of a rare name in each place for a name."""

    def __init__(self, random: Random, lexicon: Lexicon, rare: float = 0.0, linked: bool = True):
        super().__init__(random, linked)
        self._lexicon, self._rare = lexicon, rare

    def _rarely(self) -> bool:
        # Without rare names, no random number is drawn here, so the default corpus stays the same.
        return self._rare > 0 and self._random() < self._rare

    def _vowel(self, french: str) -> bool:
        return begins_with_vowel(french, "fr", self._lexicon.misleading["fr"])

    def _coined(self, kind: str) -> str:
        """A name drawn by a law like Zipf's: the share of ranks above r is (1 + r/5)^(-1/2)."""
        while True:
            rank = int(_COMMON * ((1 - self._random()) ** -2 - 1))
            name = coin(kind, rank)
            if name not in self._lexicon.names:
                return name

    def _copied(self, kind: str, person: int = THIRD, gender: int = 0, what: str = "") -> Phrase:
        # Not from a template: `parse` caches templates, and the number of names is unlimited.
        token = self._coined(kind), (self._mark() + 1,)
        return Phrase([token], [token], person, gender, what)

    def _name(self, names: tuple[Name, ...], kind: str) -> Phrase:
        english, french, gender = self._pick(names)
        return self._words((english, french), THIRD, gender, kind)

    def _person(self, size: int = 1) -> Phrase:
        """ "Peter", rarely "Kodan" or, if there is room, "Peter Kosen"."""
        if not self._rarely():
            return self._name(self._lexicon.people, "person")
        return self._rare_person(size)

    def _rare_person(self, size: int) -> Phrase:
        if size > 1 and self._random() < 0.5:
            known = self._name(self._lexicon.people, "person")
            surname = self._copied("surname")
            return known._replace(en=known.en + surname.en, fr=known.fr + surname.fr)
        gender = int(self._random() * 2)
        return self._copied(("man", "woman")[gender], THIRD, gender, "person")

    def _country(self) -> Phrase:
        if not self._rarely():
            return self._name(self._lexicon.countries, "body")
        return self._rare_country()

    def _rare_country(self) -> Phrase:
        """ "Kodovia" and "la Kodovia", with a possible link to the article."""
        gender = int(self._random() * 2)
        name = self._copied(("country m", "country f")[gender], THIRD, gender, "body")
        return name._replace(fr=[*self._article(name), *name.fr])

    def _article(self, name: Phrase) -> list:
        ((_, (mark,)),) = name.en
        return [(("le", "la")[name.gender], (-mark,))]

    def _in_name(self) -> Phrase:
        """ "in" and a name: "en Kodovia", "au Korstan", "à Kopolis"."""
        if not self._rarely():
            return self._words(self._pick(self._lexicon.in_names))
        if self._random() < 0.5:
            return join(self._words(("in", "à")), self._copied("city"))
        gender = int(self._random() * 2)
        name = self._copied(("country m", "country f")[gender], THIRD, gender)
        if gender or self._vowel(name.fr[0][0]):
            return join(self._words(("in", "en")), name)
        place = self._words(("in", "à"))
        return Phrase(place.en + name.en, [*place.fr, *self._article(name), *name.fr])

    def _rare_owner(self, kind: str) -> Phrase:
        """ "of Kodovia", "of Komira", "of Kopolis", by the kind of the noun before it."""
        of = self._words(("of", "de"))
        if (named := _OF.get(kind, "country")) == "person":
            return join(of, self._rare_person(1))
        return join(of, self._copied("city") if named == "city" else self._rare_country())
