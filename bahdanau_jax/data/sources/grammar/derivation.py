"""The rules of the built-in English-French grammar: each rule writes both languages at once.

A rule takes the number of English tokens that it should write. It may write fewer or more, and the
next rule gets the rest. Links follow from the chosen words (see `synchronous`).

To extend the grammar, add words, times, prepositions and whole sentences to a file of words (see
docs/grammar.md), a new kind of predicate to `predicates`, and a new kind of sentence here.
"""

from itertools import combinations

from bahdanau_jax.data.sources.grammar import function_words as closed
from bahdanau_jax.data.sources.grammar.inflection import FUTURE, PAST, PRESENT, THEY, THIRD
from bahdanau_jax.data.sources.grammar.lexicon import SLOT, Sentence
from bahdanau_jax.data.sources.grammar.predicates import Predicates
from bahdanau_jax.data.sources.grammar.synchronous import EMPTY, Pair, Phrase, join
from bahdanau_jax.data.sources.grammar.wordfile import AGENTS

_KINDS = (*9 * ("person",), *7 * ("body",), *2 * ("measure",), "domain", "thing", "place")
_OWNERS = {"person": ("place", "body"), "thing": ("person",), "place": ("person",)}
_LINKS: tuple[Pair, ...] = (
    *3 * ((",/1 and/2", ",/1 et/2"),),
    (",/1 but/2", ",/1 mais/2"),
)
_SUBORDINATE = (  # conjunction, tense of its clause, tense of the main clause
    (("if", "si"), PRESENT, FUTURE),
    (("when", "quand"), PAST, PAST),
    (("when", "quand"), PRESENT, PRESENT),
    (("while", "pendant que"), PAST, PAST),
)
# Choices of the modifiers of a noun, by their number. The modifiers are: adjective before the
# French noun, quality, relation, modifying noun.
_SLOTS = [[list(combinations(range(n), k)) for k in range(n + 1)] for n in (3, 4)]
_POSSESSIVES = ("my", "our", "their")
_TITLED = ("the", *_POSSESSIVES)  # before a noun that a surname follows
_FIXED = 0.1  # share of sentences from templates, if there are templates
_LONGEST_FIXED = 40  # words of a sentence from a template
_COMPOUNDING = ("measure", "domain")  # kinds that take modifying nouns


class Derivation(Predicates):
    """Writes random sentences, from one stream of random numbers.

    >>> [word for word, _ in Derivation(Random(1), load()).sentence(5).en]
    ['will', 'he', 'return', 'in', 'eight', 'days', '?']
    """

    def sentence(self, size: int) -> Phrase:
        """A statement or a question of about `size` English tokens, before `spell`."""
        if self._lexicon.sentences and self._random() < _FIXED:
            template = self._pick(self._lexicon.sentences)
            if template.least() <= size <= _LONGEST_FIXED:
                return self._fixed(template, size)
        if size > 26 or size < 5 or self._random() > 0.14:
            return join(self._statement(size - 1), self._words((".", ".")))
        return join(self._question(size - 1), self._words(("?", "?")))

    def _fixed(self, template: Sentence, size: int) -> Phrase:
        """A sentence of a template, with phrases in its slots."""
        room = (size - template.least()) // len(template.slots) + SLOT
        filled = {
            slot: self._clause(room, PRESENT)
            if kind == "clause"
            else self._noun(room, kind, single=True)
            for slot, kind in template.slots.items()
        }
        base = self._mark()

        def write(item: str) -> Phrase:
            tokens = self._tokens(item, base)
            return filled.get(item) or Phrase(tokens, tokens)

        en = [token for item in template.english for token in write(item).en]
        fr = [token for item in template.french for token in write(item).fr]
        return join(Phrase(en, fr), self._words((template.mark, template.mark)))

    def _statement(self, size: int) -> Phrase:
        chance, tense = self._random(), int(self._random() * 3)
        if size > 26 or (size > 9 and chance < 0.3):
            link = self._words(self._pick(_LINKS))
            left = size - len(link.en)
            head = self._statement(3 + int(self._random() * (left - 5)))
            return join(head, link, self._statement(left - len(head.en)))
        if size > 9 and chance < 0.36:
            head = self._clause(3 + int(self._random() * (size - 8)), tense)
            other = self._clause(size - 1 - len(head.en), tense)
            return join(head, self._words(("because", "parce que")), other)
        if size > 9 and chance < 0.42:
            pair, tense, other = self._pick(_SUBORDINATE)
            first = self._clause(3 + int(self._random() * (size - 8)), tense)
            rest = self._clause(size - 2 - len(first.en), other)
            return join(self._words(pair), first, self._words((",", ",")), rest)
        if size > 6 and chance < 0.5:
            time = self._words(self._pick(self._lexicon.times[tense]))
            clause = self._clause(size - 1 - len(time.en), tense, timed=True)
            return join(time, self._words((",", ",")), clause)
        return self._clause(size, tense)

    def _clause(self, size: int, tense: int, timed: bool = False) -> Phrase:
        subject = self._subject(size)
        left = size - len(subject.en)
        said = self._predicate(left, self._setting(left, subject, tense), timed)
        return join(subject, said.phrase())

    def _question(self, size: int) -> Phrase:
        why, tense = self._random(), int(self._random() * 3)
        asked = self._words(("why", "pourquoi") if why < 0.2 else ("when", "quand"))
        asked = [asked] if why < 0.35 else []
        subject = self._subject(size - len(asked) - 1)
        left = size - len(asked) - len(subject.en)
        setting = self._setting(left, subject, tense, question=True)
        said = self._predicate(left, setting, timed=bool(asked))
        mark = self._mark()  # of the question, which the auxiliary expresses beside its own meaning
        front = [(word, (mark + 1, *marks)) for word, marks in said.front]
        ask = Phrase(front, self._tokens("est-ce ~que", mark))
        return join(*asked, ask, subject, Phrase(said.en, said.fr))

    # -- Noun phrases.

    def _subject(self, size: int) -> Phrase:
        kind = self._pick(_KINDS)
        share = max(1, int(size * (0.15 + 0.35 * self._random())))
        if size < 4 or (share == 1 and kind == "person"):
            if self._random() < 0.7:
                english, french, person, gender = self._pick(closed.SUBJECTS)
                return self._words((english, french), person, gender, "person")
            return self._person(share)
        return self._noun(share, kind)

    def _noun(self, size: int, kind: str, simple: bool = False, single: bool = False) -> Phrase:
        """A noun phrase: a name or a noun with modifiers and, unless `simple`, a complement.

        A `single` one is never "X and Y", before which French would repeat the preposition.
        """
        if size == 1 and kind in AGENTS:
            return self._person() if kind == "person" else self._country()
        share = 2 + int(self._random() * 3.5)
        proper = kind == "body" and size > 2 and self._random() < 0.35
        share = size if simple or size - share < 3 else share
        if proper:
            head = self._institution()
        elif proper := self._rarely():
            head = self._rare_noun(share if size < 4 else max(share, 4), kind)
        else:
            head = self._modified(share, kind)
        left = size - len(head.en)
        if simple or left < 3 or any(word == "'s" for word, _ in head.en):
            return head
        chance = self._random()
        if chance < 0.4 and not proper and head.en[0][0] not in _POSSESSIVES:
            owner = self._noun(left - 1, self._pick(_OWNERS.get(kind, AGENTS)), single=True)
            after = join(self._words(("of", "de")), owner)
        elif chance < 0.85 or single or kind not in AGENTS:
            after = self._relative(left, head)
        else:
            other = self._noun(left - 1, "body" if kind == "person" else "person")
            after = join(self._words(("and", "et")), other)
            head = head._replace(person=THEY, gender=head.gender & other.gender)
        return head._replace(en=head.en + after.en, fr=head.fr + after.fr)

    def _rare_noun(self, size: int, kind: str) -> Phrase:
        """ "Peter Kosen", "the young minister Kosen", "the ministers of Kodovia"."""
        if size < 4 and kind in AGENTS:
            return self._rare_person(size) if kind == "person" else self._rare_country()
        head = self._modified(size - 2, kind)
        words = [word for word, _ in head.en]
        if kind == "person" and head.person == THIRD and words[0] in _TITLED and "'s" not in words:
            name = self._copied("surname")
        elif words[0] in _POSSESSIVES or "'s" in words:
            return head
        else:
            name = self._rare_owner(kind)
        return head._replace(en=head.en + name.en, fr=head.fr + name.fr)

    def _institution(self) -> Phrase:
        name = self._name(self._lexicon.institutions, "body")
        article = self._words(("the", ("le", "la")[name.gender]))
        return name._replace(en=article.en + name.en, fr=article.fr + name.fr)

    def _modified(self, size: int, kind: str) -> Phrase:
        """Determiner, noun and adjectives: "the new European climate policies"."""
        noun, number = self._pick(self._lexicon.nouns[kind]), int(self._random() < 0.4)
        agreement = noun.gender, number
        start, owner = self._determiner(size - 1, *agreement), EMPTY
        if size > 3 and self._random() < 0.3:
            start, owner = self._genitive(size - 2, *agreement)
        slots = _SLOTS[kind in _COMPOUNDING][min(max(size - 1 - len(start.en), 0), 3)]
        slots = self._pick(slots)
        words, before, quality, relation, tight, loose = self._lexicon, *5 * (EMPTY,)
        if 0 in slots:
            before = self._adjective(words.before[kind], *agreement, before=noun.french[number])
        if 1 in slots:
            quality = self._adjective(words.quality[kind], *agreement)
        if 2 in slots:
            relation = self._adjective(words.relations[kind], *agreement)
        has_adjective = self._random() < 0.4  # a random number is drawn for every noun
        if 3 in slots and has_adjective:
            tight = self._adjective(words.modifiers, *agreement)
        elif 3 in slots:
            loose = self._words(self._pick(words.modifiers_with_de))
        core = self._words((noun.english[number], noun.french[number]))
        english = (start, before, quality, relation, tight, loose, core)
        french = (start, before, core, tight, relation, loose, quality, owner)
        return Phrase(
            [token for phrase in english for token in phrase.en],
            [token for phrase in french for token in phrase.fr],
            THEY if number else THIRD,
            noun.gender,
            kind,
        )

    def _adjective(self, table, gender: int, number: int, before: str = "") -> Phrase:
        """An adjective that agrees; `before` is the French noun if the adjective precedes it."""
        english, forms, short = self._pick(table)
        if short and before and not (gender or number) and self._vowel(before):
            return self._words((english, short))
        return self._words((english, forms[gender][number]))

    def _determiner(self, room: int, gender: int, number: int) -> Phrase:
        if number and self._random() < 0.25:
            return self._number(room)
        english, *french = self._pick(closed.DETERMINERS[number])
        return self._words((english, french[gender]))

    def _genitive(self, room: int, gender: int, number: int) -> tuple[Phrase, Phrase]:
        """The genitive "the minister 's" before the English noun, and after the French noun."""
        owner = self._owner(room)
        base = self._mark()
        article = ("les" if number else ("le", "la")[gender], (-base,))
        before = Phrase([*owner.en, ("'s", (base,))], [article])
        return before, Phrase([], [("de", (base,)), *owner.fr])

    def _owner(self, room: int) -> Phrase:
        kind = self._pick(AGENTS)
        if room < 3 or self._random() < 0.4:
            return self._noun(1, kind)
        noun = self._pick(self._lexicon.nouns[kind])
        article = self._words(("the", ("le", "la")[noun.gender]))
        return join(article, self._words((noun.english[0], noun.french[0])))

    def _number(self, room: int) -> Phrase:
        """A number above one. "two hundred" has a French -s, "two hundred and five" has none."""
        chance, low = self._random(), self._pick(closed.DIGITS)
        if room < 3 or chance < 0.5:
            return self._words(low if chance < 0.3 else self._pick(closed.TENS))
        if chance < 0.65:
            thousand = self._words(("thousand", "mille"))
            return join(self._words(self._pick(closed.DIGITS + closed.TENS)), thousand)
        if room < 4 or chance < 0.8:
            return join(self._words(low), self._words(("hundred", "cents")))
        hundred = self._words(("hundred ~and", "cent"))
        return join(self._words(low), hundred, self._words(self._pick(closed.DIGITS + closed.TENS)))

    def _relative(self, size: int, head: Phrase) -> Phrase:
        """A relative clause, of which `head` is the subject or the object."""
        person, tense = head.kind == "person", int(self._random() * 3)
        if size > 7 or self._random() < 0.5:
            that = self._words(("who" if person else "that", "qui"))
            said = self._predicate(size - 1, self._setting(size - 1, head, tense), timed=True)
            return join(that, said.phrase())
        that = self._words(("whom" if person else "that", "que"))
        subject = self._subject(3) if size < 5 else self._noun(size - 3, self._pick(AGENTS), True)
        setting = self._setting(size - len(subject.en), subject, tense)
        said = self._verb(self._pick(self._lexicon.verbs[head.kind]), setting, agreeing=head)
        return join(that, subject, said.phrase())
