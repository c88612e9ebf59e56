"""Reads the words of en-fr.txt and of a user's file into a `Lexicon`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bahdanau_jax.data.sources.grammar import function_words as closed
from bahdanau_jax.data.sources.grammar.inflection import (
    Verb,
    begins_with_vowel,
    english_s,
    french_forms,
    french_plural,
    make_verb,
    needs_forms,
)
from bahdanau_jax.data.sources.grammar.lexicon import Adjective, Lexicon, Name, Noun, Sentence
from bahdanau_jax.data.sources.grammar.synchronous import Pair, parse
from bahdanau_jax.data.sources.grammar.wordfile import (
    AGENTS,
    KINDS,
    TENSES,
    Entry,
    entries,
    forms,
    slot,
    template,
)

FILE = Path(__file__).with_name("en-fr.txt")


def load(words: str | Path | None = None) -> Lexicon:
    """The built-in words, followed by those of a file in the format of docs/grammar.md.

    Raises OSError, or a ValueError with the file, the line and the expected form.

    >>> load().countries[0]
    ('Canada', '~le Canada', 0)
    """
    if words is None:
        return _BASE
    reader = _Reader(chain(entries(FILE), entries(Path(words))))
    _check_tokens(reader.used, str(Path(words)))
    return reader.lexicon()


def _check_tokens(used: Mapping[tuple[str, str], str], path: str) -> None:
    """Raise ValueError where the Moses tokeniser does not split a word from a full stop."""
    from sacremoses import MosesTokenizer

    tokenizers = {language: MosesTokenizer(language) for language in ("en", "fr")}
    for (language, word), place in used.items():
        if place.startswith(f"{path}:") and not word.endswith("'"):
            split = " ".join(tokenizers[language].tokenize(f"x {word}.", escape=False))
            if split != f"x {word} .":
                raise ValueError(
                    f'{place}: the Moses tokeniser splits "{word}." into "{split[2:]}", so '
                    f'the links would be wrong: use another word than "{word}"'
                )


class _Reader:
    """Converts entries to words, in a table for each section and kind."""

    def __init__(self, all_entries: Iterable[Entry]):
        self.used: dict[tuple[str, str], str] = {}  # (language, word) -> FILE:LINE
        self._tables: dict[tuple[str, str], list] = {}
        self._irregular: dict[str, str] = {}
        self._names: set[str] = set()
        self._misleading = {"en": set(), "fr": set(closed.MISLEADING)}
        self._translations: dict[tuple[str, str, str], tuple[Any, str]] = {}
        self._function_words()
        all_entries = list(all_entries)
        for entry in (entry for entry in all_entries if entry.section == "forms"):
            self._forms(entry)
        for entry in (entry for entry in all_entries if entry.section != "forms"):
            table = self._tables.setdefault((entry.section, entry.kind), [])
            table.append(_READERS[entry.section](self, entry))

    def lexicon(self) -> Lexicon:
        tables = {key: tuple(table) for key, table in self._tables.items()}

        def by_kind(section: str, kinds: Sequence[str] = KINDS) -> Mapping[str, tuple]:
            return MappingProxyType({kind: tables.get((section, kind), ()) for kind in kinds})

        def one(section: str) -> tuple:
            return tables.get((section, ""), ())

        times = by_kind("time", TENSES)
        more = by_kind("preposition", tuple(closed.PREPOSITIONS))
        prepositions = {kind: own + more[kind] for kind, own in closed.PREPOSITIONS.items()}
        countries = one("name country")
        return Lexicon(
            nouns=by_kind("noun"),
            before=by_kind("adjective before"),
            quality=by_kind("adjective"),
            relations=by_kind("relation"),
            modifiers=one("modifier"),
            modifiers_with_de=one("modifier de"),
            institutions=one("name institution"),
            people=one("name person"),
            countries=tuple((en, f"~{('le', 'la')[g]} {fr}", g) for en, fr, g in countries),
            in_names=_in_names(countries, one("name city"), self._misleading["fr"]),
            verbs=by_kind("verb"),
            intransitive=by_kind("verb alone", AGENTS),
            giving=one("verb giving"),
            saying=one("verb saying"),
            wanting=one("verb wanting"),
            adverbs=closed.ADVERBS + one("adverb"),
            times=tuple(own + times[t] for own, t in zip(closed.TIMES, TENSES, strict=True)),
            prepositions=MappingProxyType(prepositions),
            sentences=one("sentence"),
            names=frozenset(self._names),
            misleading=MappingProxyType({k: frozenset(v) for k, v in self._misleading.items()}),
        )

    def _function_words(self) -> None:
        tables = [("adverb", "", closed.ADVERBS)]
        tables += [("time", tense, own) for tense, own in zip(TENSES, closed.TIMES, strict=True)]
        tables += [("preposition", kind, own) for kind, own in closed.PREPOSITIONS.items()]
        for section, kind, own in tables:
            for english, french in own:
                said = french, "function_words.py"
                self._translations[section, kind, english] = said

    # -- Entries by section.

    def _forms(self, entry: Entry) -> None:
        given = entry.french.split()
        if len(given) != 7:
            raise entry.expected(
                "5 forms of the present, the stem of the future and the participle"
            )
        for form in given:
            forms(form, 1, entry)
        self._irregular[entry.english] = entry.french

    def _noun(self, entry: Entry) -> Noun:
        french, gender = self._gender(entry)
        (one, *many), star = forms(entry.english, 2, entry)
        english = one, (many or [english_s(one)])[0]
        (un, *des), étoile = forms(french, 2, entry)
        both = un, (des or [french_plural(un)])[0]
        self._use("en", english, star, entry)
        self._use("fr", both, étoile, entry)
        self._unique("noun", "", (one,), (both, gender), entry)
        return Noun(english, both, gender)

    def _adjective(self, entry: Entry) -> Adjective:
        (english,), star = forms(entry.english, 1, entry)
        before = entry.section == "adjective before"
        french, étoile = forms(entry.french, 3 if before else 2, entry)
        table = french_forms(*french[:2])
        self._use("en", (english,), star, entry)
        self._use("fr", (*chain(*table), *french[2:]), étoile, entry)
        self._unique("adjective", entry.kind, (english,), table, entry)
        return Adjective(english, table, "".join(french[2:]))

    def _verb(self, entry: Entry) -> Verb:
        english, star = forms(entry.english, 3, entry)
        french, *auxiliary = entry.french.split()
        (infinitive,), étoile = forms(french, 1, entry)
        if auxiliary not in ([], ["être"]) or (auxiliary and entry.section != "verb alone"):
            raise entry.expected(f'only an infinitive was expected, not "{entry.french}"')
        irregular = self._irregular.get(infinitive, "")
        if not irregular and needs_forms(infinitive):
            raise entry.expected(f"{infinitive} is irregular: its forms are needed in [forms]")
        verb = make_verb(english, infinitive, irregular, with_etre=bool(auxiliary))
        if verb.past == verb.base:
            raise entry.expected("a past other than the present was expected, to show the tense")
        self._use("en", (*english, verb.third, verb.past), star, entry)
        inflected = (infinitive, *verb.present, *verb.future, *chain(*verb.participle))
        self._use("fr", inflected, étoile, entry)
        said = (verb.base, verb.third, verb.past)
        self._unique(entry.section, entry.kind, said, infinitive, entry)
        return verb

    def _pair(self, entry: Entry) -> Pair:
        pair = entry.english, entry.french
        english, french = (template(text, entry) for text in pair)
        pair = self._linked(english, "en", entry), self._linked(french, "fr", entry, english)
        # The translation of a name does not depend on its section.
        section = "name" if entry.section.startswith("name") else entry.section
        self._unique(section, entry.kind, pair[:1], pair[1], entry)
        return pair

    def _name(self, entry: Entry) -> Name:
        french, gender = self._gender(entry)
        return *self._city(entry._replace(french=french)), gender

    def _city(self, entry: Entry) -> Pair:
        english, french = self._pair(entry)
        self._names.update(word for word, _ in parse(english))
        return english, french

    def _sentence(self, entry: Entry) -> Sentence:
        sides = [side.split() for side in (entry.english, entry.french)]
        marks = {side.pop() if side[-1] in (".", "?") else "." for side in sides}
        slots = [sorted(item for item in side if slot(item)) for side in sides]
        kinds = {item: slot(item) for item in slots[0]}
        known = (*KINDS, "clause")
        if len(marks) > 1:
            raise entry.expected("both sides should end with the same mark")
        if slots[0] != slots[1] or len(kinds) != len(slots[0]):
            raise entry.expected("each slot should occur once on each side")
        if not kinds or not set(kinds.values()) <= set(known):
            raise entry.expected(f"slots were expected, of {', '.join(known)}")
        english, french = (template(" ".join(i for i in s if not slot(i)), entry) for s in sides)
        self._linked(english, "en", entry)
        self._linked(french, "fr", entry, english)
        said, translated = (
            tuple(i if slot(i) else i.replace("*", "") for i in side) for side in sides
        )
        return Sentence(said, translated, MappingProxyType(kinds), marks.pop())

    # -- Common parts of the entries.

    def _gender(self, entry: Entry) -> tuple[str, int]:
        *french, gender = entry.french.split()
        if gender not in ("m", "f") or not french:
            raise entry.expected("a gender, m or f, was expected last")
        return " ".join(french), "mf".index(gender)

    def _linked(self, items: list[str], language: str, entry: Entry, other=None) -> str:
        """A template without its stars; with `other`, both must have the same numbers."""
        for item in items:
            self._use(language, (item.strip("~*").split("/")[0],), "*" in item, entry)
        text = " ".join(items).replace("*", "")
        if other is not None:
            numbers = [{abs(n) for _, n in parse(t)} for t in (text, " ".join(other))]
            for number in numbers[0] ^ numbers[1]:
                raise entry.expected(f"number {number} should occur on both sides")
        return text

    def _use(self, language: str, words: Iterable[str], star: bool, entry: Entry) -> None:
        for word in words:
            self.used.setdefault((language, word), entry.place)
            if star:
                self._misleading[language].add(word)

    def _unique(self, section: str, kind: str, words, french: Any, entry: Entry) -> None:
        for word in words:
            said = self._translations.setdefault((section, kind, word), (french, entry.place))
            if said[0] != french:
                raise entry.expected(
                    f'"{word}" has another translation at {said[1]}, but each English '
                    "word should have only one"
                )


_READERS: Mapping[str, Callable[[_Reader, Entry], Any]] = MappingProxyType(
    {
        "noun": _Reader._noun,
        **dict.fromkeys(("adjective", "adjective before", "relation"), _Reader._adjective),
        "modifier": _Reader._adjective,
        **dict.fromkeys(("modifier de", "adverb", "time", "preposition"), _Reader._pair),
        **dict.fromkeys(("name person", "name institution", "name country"), _Reader._name),
        "name city": _Reader._city,
        **dict.fromkeys(("verb", "verb alone", "verb giving"), _Reader._verb),
        **dict.fromkeys(("verb saying", "verb wanting"), _Reader._verb),
        "sentence": _Reader._sentence,
    }
)


def _in_names(countries: Sequence[Name], cities: Sequence[Pair], misleading) -> tuple[Pair, ...]:
    """Pairs with "en" before feminine countries and vowels, else "au", and "à" before cities."""
    en, au = [], []
    for english, french, gender in countries:
        vowel = begins_with_vowel(parse(french)[0][0], "fr", misleading)
        if gender or vowel:
            en.append((f"in/9 {english}", f"en/9 {french}"))
        else:
            au.append((f"in/9 {english}", f"à/9 ~le {french}"))
    return (*en, *au, *((f"in/9 {english}", f"à/9 {french}") for english, french in cities))


_BASE = _Reader(entries(FILE)).lexicon()
