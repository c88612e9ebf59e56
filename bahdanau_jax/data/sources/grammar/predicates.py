"""Predicates of the built-in grammar: verbs with negation, clitics, objects and adjuncts.

A new kind of predicate is a method like `_copula` and a line in `_FRAMES`.
"""

from functools import cache
from typing import NamedTuple

from bahdanau_jax.data.sources.grammar import function_words as closed
from bahdanau_jax.data.sources.grammar.inflection import (
    FUTURE,
    NUMBER,
    PAST,
    PRESENT,
    THEY,
    WE,
    YOU,
    Token,
    Verb,
    english_verb,
)
from bahdanau_jax.data.sources.grammar.proper_names import ProperNames
from bahdanau_jax.data.sources.grammar.synchronous import EMPTY, Pair, Phrase, join
from bahdanau_jax.data.sources.grammar.wordfile import AGENTS

_OBJECTS = {  # kinds of objects, by the kind of the subject
    "person": (*5 * ("measure",), *5 * ("person",), *2 * ("domain", "body", "thing", "place")),
    "body": (*6 * ("measure",), *3 * ("person",), *2 * ("domain", "body")),
}
# Kinds of nouns in adjuncts, by the kind of the subject.
_WHERE = {kind: ("person", "body", "domain", "place") for kind in AGENTS}
_FRAMES = (  # rule, smallest and largest number of words, kinds of the subject, weight
    ("_intransitive", 1, 9, AGENTS, 2),
    ("_transitive", 2, 99, AGENTS, 9),
    ("_copula", 2, 12, (*AGENTS, "measure", "domain", "thing", "place"), 2),
    ("_modal", 3, 99, AGENTS, 5),
    ("_giving", 5, 99, AGENTS, 3),
    ("_saying", 6, 99, AGENTS, 3),
    ("_passive", 2, 99, ("measure",), 4),
)


class Predicate(NamedTuple):
    """A clause without its subject."""

    front: list[Token]  # the English auxiliary, which a question puts before the subject
    en: list[Token]
    fr: list[Token]

    def size(self) -> int:
        return len(self.front) + len(self.en)

    def then(self, *phrases: Phrase) -> "Predicate":
        rest = join(*phrases)
        return Predicate(self.front, self.en + rest.en, self.fr + rest.fr)

    def phrase(self) -> Phrase:
        """The predicate of a statement."""
        return Phrase(self.front + self.en, self.fr)


class Setting(NamedTuple):
    """The settings that all parts of a predicate share."""

    subject: Phrase
    tense: int
    denial: Pair | None = None  # a negation; not together with an adverb
    adverb: Pair | None = None
    question: bool = False
    time: Phrase = EMPTY  # at the end in English, after the verb in French


@cache
def _frames(size: int, kind: str) -> tuple[str, ...]:
    fitting = [
        name
        for name, least, most, kinds, weight in _FRAMES
        if least <= size <= most and kind in kinds
        for _ in range(weight)
    ]
    return tuple(fitting) or (("_intransitive" if kind in AGENTS else "_copula"),)


class Predicates(ProperNames):
    """Rules for predicates; the subclass has those for noun phrases and clauses."""

    def _noun(self, size: int, kind: str, simple: bool = False, single: bool = False) -> Phrase:
        raise NotImplementedError

    def _adjective(self, table, gender: int, number: int, before: str = "") -> Phrase:
        raise NotImplementedError

    def _clause(self, size: int, tense: int, timed: bool = False) -> Phrase:
        raise NotImplementedError

    def _setting(self, size: int, subject: Phrase, tense: int, question: bool = False) -> Setting:
        """Draw a negation or an adverb, if there is room."""
        chance = self._random()
        if size > 2 and chance < 0.2 and not question:
            return Setting(subject, tense, denial=self._pick(closed.DENIALS))
        if size > 2 and chance > 0.85:
            return Setting(
                subject, tense, adverb=self._pick(self._lexicon.adverbs), question=question
            )
        return Setting(subject, tense, question=question)

    def _predicate(self, size: int, setting: Setting, timed: bool) -> Predicate:
        """A verb with its objects and adjuncts; `timed` if the sentence has a time elsewhere."""
        rule = self._pick(_frames(size, setting.subject.kind))
        if size > 1 and rule != "_saying" and not timed and self._random() < 0.45:
            setting = setting._replace(
                time=self._words(self._pick(self._lexicon.times[setting.tense]))
            )
            size -= len(setting.time.en)
        aside = EMPTY
        if size > 4 and self._random() < 0.25:
            aside = self._adjunct(min(size - 2, 2 + int(self._random() * 4)), setting)
            size -= len(aside.en)
        said = getattr(self, rule)(size, setting)
        left = size - said.size()
        if left > (2 if aside.en else 1):
            said = said.then(self._adjunct(left, setting))
        return said.then(aside, Phrase(setting.time.en, []))

    def _adjunct(self, size: int, setting: Setting) -> Phrase:
        if size < 3:
            return self._in_name()
        kind = self._pick(_WHERE.get(setting.subject.kind, ("domain", "place")))
        preposition = self._words(self._pick(self._lexicon.prepositions[kind]))
        single = preposition.fr[-1][0] in ("de", "à")
        left = max(size - len(preposition.en), 2)
        return join(preposition, self._noun(left, kind, single=single))

    def _verb(self, verb: Verb, setting: Setting, clitic=EMPTY, agreeing=None) -> Predicate:
        """A finite verb with auxiliary, negation, adverb and, in French, the clitic before it.

        `agreeing` is the direct object if it precedes the French participle.
        """
        subject, tense, denial, adverb, question, time = setting
        person, mark = subject.person, self._mark()
        helper, main = english_verb(verb, person, tense, question or denial == closed.NOT)
        front = [(helper, (-mark if main else mark,))] if helper else []
        middle = self._words(denial or adverb or ("", ""))
        no = middle.fr[:1] if denial else []
        if tense != PAST or verb.imperfect:
            forms = {FUTURE: verb.future, PRESENT: verb.present}.get(tense, verb.imperfect)
            finite, participle = [(forms[person], (mark,))], []
        else:
            to_have = closed.BE if verb.with_etre else closed.HAVE
            agreeing = subject if verb.with_etre else agreeing
            forms = verb.participle[agreeing.gender if agreeing else 0]
            finite = [(to_have.present[person], (-mark,))]
            participle = [(forms[NUMBER[agreeing.person] if agreeing else 0], (mark,))]
        en = middle.en + ([(main, (mark,))] if main else [])
        fr = no + clitic.fr + finite + middle.fr[len(no) :] + participle + time.fr
        return Predicate(front, en, fr)

    # -- Kinds of predicates.

    def _intransitive(self, size: int, setting: Setting) -> Predicate:
        return self._verb(self._pick(self._lexicon.intransitive[setting.subject.kind]), setting)

    def _transitive(self, size: int, setting: Setting) -> Predicate:
        """ "sees the house", "sees him", "adopts the law and publishes it"."""
        kind = self._pick(_OBJECTS[setting.subject.kind]) if size > 2 else "person"
        verb = self._pick(self._lexicon.verbs[kind])
        if kind == "person" and (size < 3 or self._random() < 0.5):
            clitic = self._clitic(setting)
            said = self._verb(verb, setting, clitic, agreeing=clitic)
            return Predicate(said.front, said.en + clitic.en, said.fr)
        said = self._verb(verb, setting)
        left = size - said.size()
        if left < 5 or setting.denial or setting.question or self._random() > 0.35:
            return said.then(self._object(left, kind, setting))
        thing = self._noun(min(left - 3, 5), kind, simple=True)
        return said.then(thing, self._words(("and", "et")), self._same_again(verb, thing, setting))

    def _object(self, size: int, kind: str, setting: Setting, simple: bool = False) -> Phrase:
        """A direct object; after a negation "un" becomes "de": "ne voit pas de maison"."""
        thing = self._noun(size, kind, simple or setting.denial is not None)
        (article, marks), *rest = thing.fr
        if setting.denial and article in ("un", "une"):
            return thing._replace(fr=[("de", marks), *rest])
        return thing

    def _same_again(self, verb: Verb, thing: Phrase, setting: Setting) -> Phrase:
        """A second verb with the same object: "publishes it", "l' a publiée"."""
        others = [other for other in self._lexicon.verbs[thing.kind] if other != verb]
        singular = "it" if thing.kind != "person" else ("him", "her")[thing.gender]
        pair = ("them", "les") if thing.person == THEY else (singular, ("le", "la")[thing.gender])
        clitic = self._words(pair, thing.person, thing.gender)
        setting = setting._replace(adverb=None, time=EMPTY)
        said = self._verb(self._pick(others), setting, clitic, clitic)
        return Phrase(said.front + said.en + clitic.en, said.fr)

    def _clitic(self, setting: Setting, indirect: bool = False) -> Phrase:
        """An object pronoun: not that of the subject, and not "them" if French shows its gender."""
        subject, ambiguous = setting.subject.person, setting.tense == PAST and not indirect
        english, direct, dative, person, gender = self._pick(
            [
                pronoun
                for pronoun in closed.OBJECTS
                if (pronoun[3] > YOU or (pronoun[3] <= WE) != (subject <= WE))
                and not (pronoun[3] == YOU == subject)
                and not (pronoun[3] == THEY and ambiguous)
            ]
        )
        pair = ("~to " + english, dative) if indirect else (english, direct)
        return self._words(pair, person, gender, "person")

    def _modal(self, size: int, setting: Setting) -> Predicate:
        """ "cannot see the house": the clitic precedes the French infinitive."""
        bare = setting.tense == PRESENT and self._random() < 0.7
        modal = self._pick((closed.CAN, closed.MUST) if bare else self._lexicon.wanting)
        said = self._verb(modal, setting._replace(time=EMPTY))
        kind = self._pick(_OBJECTS[setting.subject.kind])
        verb = self._pick(self._lexicon.verbs[kind])
        infinitive = self._words((("" if bare else "~to ") + verb.base, verb.infinitive))
        if kind == "person" and self._random() < 0.5:
            clitic = self._clitic(setting._replace(tense=PRESENT))
            fr = clitic.fr + infinitive.fr + setting.time.fr
            return said.then(Phrase(infinitive.en + clitic.en, fr))
        left = size - said.size() - len(infinitive.en)
        time = Phrase([], setting.time.fr)
        return said.then(infinitive, time, self._object(left, kind, setting))

    def _giving(self, size: int, setting: Setting) -> Predicate:
        """ "gives the book to the man", "gives the book to him"."""
        verb, kind = self._pick(self._lexicon.giving), self._pick(("measure", "thing"))
        if self._random() < 0.5:
            clitic = self._clitic(setting, indirect=True)
            said = self._verb(verb, setting, clitic)
            gift = self._object(min(size - said.size() - 2, 5), kind, setting, simple=True)
            return said.then(gift, Phrase(clitic.en, []))
        said = self._verb(verb, setting)
        gift = self._object(min(size - said.size() - 3, 5), kind, setting, simple=True)
        left = size - said.size() - len(gift.en) - 1
        receiver = self._noun(left, self._pick(AGENTS), single=True)
        return said.then(gift, self._words(("to", "à")), receiver)

    def _saying(self, size: int, setting: Setting) -> Predicate:
        said = self._verb(self._pick(self._lexicon.saying), setting._replace(denial=None))
        tense = PAST if setting.tense == PAST else int(self._random() * 3)
        clause = self._clause(size - said.size() - 1, tense)
        return said.then(self._words(("that", "que")), clause)

    def _copula(self, size: int, setting: Setting) -> Predicate:
        """ "is very important", "are clear and useful"."""
        subject = setting.subject
        said = self._verb(closed.BE, setting._replace(time=EMPTY))
        left = size - said.size()
        agreement = self._lexicon.quality[subject.kind], subject.gender, NUMBER[subject.person]
        adjective = self._adjective(*agreement)
        if left > 1 and self._random() < 0.4:
            adjective = join(self._words(("very", "très")), adjective)
        if left > 3 and self._random() < 0.4:
            other = self._adjective(*agreement)
            if other.fr[0][0] != adjective.fr[-1][0]:
                adjective = join(adjective, self._words(("and", "et")), other)
        return said.then(adjective, Phrase([], setting.time.fr))

    def _passive(self, size: int, setting: Setting) -> Predicate:
        """ "was adopted by the parliament"."""
        verb, subject = self._pick(self._lexicon.verbs["measure"]), setting.subject
        participle = verb.participle[subject.gender][NUMBER[subject.person]]
        said = self._verb(closed.BECOMING_PASSIVE, setting._replace(time=EMPTY))
        said = said.then(self._words((verb.done, participle)), Phrase([], setting.time.fr))
        left = size - said.size() - 1
        if left < 1:
            return said
        return said.then(self._words(("by", "par")), self._noun(left, self._pick(AGENTS)))
