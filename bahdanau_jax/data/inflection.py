"""Forms of English and French words, spelled by rule: plurals, conjugation, elision, contraction.

Persons are indices 0 to 4: I, we, you (plural), he or she, they. Genders are 0 (masculine) and 1
(feminine), numbers 0 (singular) and 1 (plural): a table of four forms is `forms[gender][number]`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

PRESENT, PAST, FUTURE = range(3)
I, WE, YOU, THIRD, THEY = range(5)  # noqa: E741
NUMBER = (0, 1, 1, 0, 1)  # of each person

Persons = tuple[str, ...]  # [person]
Forms = tuple[tuple[str, str], tuple[str, str]]  # [gender][number]
Token = tuple[str, tuple[int, ...]]  # a word and its marks, which say what it is linked to


class Verb(NamedTuple):
    base: str  # English: adopt
    third: str  # adopts
    past: str  # adopted
    infinitive: str  # French: adopter
    present: Persons  # adopte adoptons adoptez adopte adoptent
    future: Persons  # adopterai ...
    participle: Forms  # adopté adoptés / adoptée adoptées
    imperfect: Persons = ()  # the past, where it is not the passé composé
    auxiliary: bool = False  # English asks and denies with the verb itself: is, can, must


def english_s(word: str) -> str:
    """The plural of a noun, the third person of a verb: laws, cities, crosses."""
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "sh", "ch")) else "s")


def english_past(verb: str) -> str:
    """The past of a regular verb: adopted, published, modified."""
    if verb.endswith("y") and verb[-2] not in "aeou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def french_plural(word: str) -> str:
    """The plural of a noun or adjective: lois, pays, bureaux, journaux."""
    if word.endswith(("s", "x")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


def french_forms(masculine: str, feminine: str = "") -> Forms:
    """The four forms of an adjective or participle; the feminine adds -e unless it is given."""
    feminine = feminine or masculine + "e" * (not masculine.endswith("e"))
    return (masculine, french_plural(masculine)), (feminine, french_plural(feminine))


# Infinitive ending: what it loses, endings of the present, what the future stem loses, participle.
_REGULAR: Mapping[str, tuple[int, str, int, str]] = MappingProxyType(
    {
        "er": (2, "e ons ez e ent", 0, "é"),
        "ir": (2, "is issons issez it issent", 0, "i"),
        "re": (2, "s ons ez - ent", 1, "u"),
    }
)
_FUTURE = ("ai", "ons", "ez", "a", "ont")


def conjugate(infinitive: str, irregular: str = "") -> tuple[Persons, Persons, Forms]:
    """(present, future, participle) of a French verb, regular or by its line of forms.

    >>> conjugate("voir", "vois voyons voyez voit voient verr vu")[1][THIRD]
    'verra'
    """
    if irregular:
        *present, future, participle = irregular.split()
    else:
        lost, endings, shorter, ending = _REGULAR[infinitive[-2:]]
        stem = infinitive[:-lost]
        present = [stem + e.strip("-") for e in endings.split()]
        soft = {"c": "ç", "g": "ge"}.get(stem[-1]) if infinitive.endswith("er") else None
        if soft:  # annonçons, changeons
            present[WE] = stem[:-1] + soft + "ons"
        future, participle = infinitive[: len(infinitive) - shorter], stem + ending
    return tuple(present), tuple(future + e for e in _FUTURE), french_forms(participle)


def english_verb(verb: Verb, person: int, tense: int, support: bool) -> tuple[str, str]:
    """(auxiliary, verb), either of them empty; `support` asks for "do" where there is no other.

    >>> english_verb(SEE, THIRD, PAST, support=True)
    ('did', 'see')
    """
    if tense == FUTURE:
        return "will", verb.base
    singular = person == THIRD
    if verb.base == "be":
        present = "am" if person == I else "is" if singular else "are"
        past = "was" if person in (I, THIRD) else "were"
        return (past if tense == PAST else present), ""
    if verb.auxiliary:
        return verb.base, ""
    if support:
        return "did" if tense == PAST else "does" if singular else "do", verb.base
    return "", verb.past if tense == PAST else verb.third if singular else verb.base


_VOWELS = frozenset("aàâeéèêiîoôuyœhAÉEIOUH")
_ASPIRATE = frozenset(["hausse", "hausses", "héros", "huit", "onze"])
_ELIDED = frozenset(["le", "la", "de", "ne", "que", "je", "me"])
_BEFORE_VOWEL = MappingProxyType(
    {"ce": "cet", "nouveau": "nouvel", "beau": "bel", "ma": "mon"}
    | {word: word[:-1] + "'" for word in _ELIDED}
)
_CONTRACTED = MappingProxyType(
    {
        ("de", "le"): "du",
        ("de", "les"): "des",
        ("à", "le"): "au",
        ("à", "les"): "aux",
        ("can", "not"): "cannot",
    }
)
_CONSONANT_SOUND = ("Eu", "uni", "use")
_VOWEL_SOUND = ("hon", "hour")


def _french_vowel(word: str) -> bool:
    return word[0] in _VOWELS and word not in _ASPIRATE


def _english_vowel(word: str) -> bool:
    open_ = word[0] in "aeiouAEIOU" and not word.startswith(_CONSONANT_SOUND)
    return open_ or word.startswith(_VOWEL_SOUND)


def spell(tokens: Sequence[Token], language: str) -> list[Token]:
    """What neighbours do to each other: an, l', cet, du, cannot. Merged words keep all marks.

    >>> spell([("de", (1,)), ("le", (2,)), ("pays", (3,))], "fr")
    [('du', (1, 2)), ('pays', (3,))]
    """
    changes, vowel = (
        (_BEFORE_VOWEL, _french_vowel) if language == "fr" else ({"a": "an"}, _english_vowel)
    )
    spelled: list[Token] = []
    last = len(tokens) - 1
    for i, (word, marks) in enumerate(tokens):
        if word in changes and i < last and vowel(tokens[i + 1][0]):
            word = changes[word]
        elif word == "si" and tokens[i + 1][0] in ("il", "ils"):
            word = "s'"
        elif spelled and (spelled[-1][0], word) in _CONTRACTED:
            before, earlier = spelled.pop()
            word, marks = _CONTRACTED[before, word], earlier + marks
        spelled.append((word, marks))
    return spelled
