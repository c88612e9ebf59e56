"""Forms of English and French words by rules: plurals, conjugation, elision, contraction.

Persons are indices 0 to 4: I, we, you (plural), he or she, they. Genders are 0 (masculine) and 1
(feminine), and numbers are 0 (singular) and 1 (plural). So a table of four forms is
`forms[gender][number]`.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

PRESENT, PAST, FUTURE = range(3)
I, WE, YOU, THIRD, THEY = range(5)  # noqa: E741
NUMBER = (0, 1, 1, 0, 1)  # of each person

Persons = tuple[str, ...]  # [person]
Forms = tuple[tuple[str, str], tuple[str, str]]  # [gender][number]
Token = tuple[str, tuple[int, ...]]  # a word and its marks, which determine its links


class Verb(NamedTuple):
    base: str  # English: adopt
    third: str  # adopts
    past: str  # adopted
    done: str  # adopted: the participle
    infinitive: str  # French: adopter
    present: Persons  # adopte adoptons adoptez adopte adoptent
    future: Persons  # adopterai ...
    participle: Forms  # adopté adoptés / adoptée adoptées
    imperfect: Persons = ()  # the past, if it is not the passé composé
    auxiliary: bool = False  # questions and negations need no "do": is, can, must
    with_etre: bool = False  # the French past is formed with être: est venu


def english_s(word: str) -> str:
    """The plural of a noun or the third person of a verb: laws, cities, crosses."""
    if word.endswith("y") and word[-2:-1] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "sh", "ch")) else "s")


def english_past(verb: str) -> str:
    """The past of a regular verb: adopted, published, modified."""
    if verb.endswith("y") and verb[-2:-1] not in "aeou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def french_plural(word: str) -> str:
    """The plural of a noun or adjective: lois, pays, bureaux, journaux."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith(("au", "eu")) else "s")


# Endings of adjectives whose feminine has more than a final -e, and the feminine endings.
_FEMININE = (
    ("eux", "euse"),
    ("er", "ère"),
    ("el", "elle"),
    ("en", "enne"),
    ("on", "onne"),
    ("f", "ve"),
)


def french_forms(masculine: str, feminine: str = "") -> Forms:
    """The four forms of an adjective or participle; a missing feminine is formed by rule."""
    if not feminine:
        feminine = masculine + "e" * (not masculine.endswith("e"))
        for ending, other in _FEMININE:
            if masculine.endswith(ending):
                feminine = masculine.removesuffix(ending) + other
    return (masculine, french_plural(masculine)), (feminine, french_plural(feminine))


# Ending of the infinitive -> letters to remove for the present, its endings, letters to remove for
# the future, ending of the participle.
_REGULAR: Mapping[str, tuple[int, str, int, str]] = MappingProxyType(
    {
        "er": (2, "e ons ez e ent", 0, "é"),
        "ir": (2, "is issons issez it issent", 0, "i"),
        "re": (2, "s ons ez - ent", 1, "u"),
    }
)
_FUTURE = ("ai", "ons", "ez", "a", "ont")


def conjugate(infinitive: str, irregular: str = "") -> tuple[Persons, Persons, Forms]:
    """(present, future, participle) of a French verb, by rule or from its irregular forms.

    >>> conjugate("voir", "vois voyons voyez voit voient verr vu")[1][THIRD]
    'verra'
    """
    if irregular:
        *present, future, participle = irregular.split()
    else:
        lost, endings, shorter, ending = _REGULAR[infinitive[-2:]]
        stem = infinitive[:-lost]
        present = [stem + e.strip("-") for e in endings.split()]
        soft = {"c": "ç", "g": "ge"}.get(stem[-1:]) if infinitive.endswith("er") else None
        if soft:  # annonçons, changeons
            present[WE] = stem[:-1] + soft + "ons"
        future, participle = infinitive[: len(infinitive) - shorter], stem + ending
    return tuple(present), tuple(future + e for e in _FUTURE), french_forms(participle)


_BY_RULE = re.compile(r".*(er|ir|([aeo]n|[eo]r)dre)")
_NOT_BY_RULE = re.compile(  # stems that change (préférer, lever, payer), and irregular verbs
    r"aller|.*(é[bcdfghjklmnpqrstvxz]+u?er|e[bcdfghjklmnpqrstvxz]er|[aou]yer|"
    r"oir|[tv]enir|[tmv]ir|[vf]rir|[cm]ourir|quérir|[cb]u?eillir|bouillir|fuir|haïr|prendre)"
)


def needs_forms(infinitive: str) -> bool:
    """Whether the ending of a French verb may be irregular, so that `conjugate` needs its forms."""
    return not _BY_RULE.fullmatch(infinitive) or bool(_NOT_BY_RULE.fullmatch(infinitive))


def make_verb(
    english: Sequence[str], infinitive: str, irregular: str = "", with_etre: bool = False
) -> Verb:
    """A verb from its English forms: base, past, participle; the last two are optional.

    >>> make_verb(["see", "saw", "seen"], "voir", "vois voyons voyez voit voient verr vu").third
    'sees'
    """
    base, *others = english
    past, *done = others or [english_past(base)]
    present, future, participle = conjugate(infinitive, irregular)
    return Verb(
        base,
        english_s(base),
        past,
        (done or [past])[0],
        infinitive,
        present,
        future,
        participle,
        with_etre=with_etre,
    )


def english_verb(verb: Verb, person: int, tense: int, support: bool) -> tuple[str, str]:
    """(auxiliary, verb), either of which may be empty; `support` adds "do" if there is no other.

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


_ELIDED = ("le", "la", "de", "ne", "que", "je", "me", "te", "se", "lorsque", "puisque")
_BEFORE_VOWEL = MappingProxyType(
    {"ce": "cet", "ma": "mon", "ta": "ton", "sa": "son"}
    | {word: word[:-1] + "'" for word in _ELIDED}
)
_CONTRACTED = MappingProxyType(  # second word, first word, both
    {
        "le": {"de": "du", "à": "au"},
        "les": {"de": "des", "à": "aux"},
        "not": {"can": "cannot"},
    }
)
_MERGING = frozenset({"si", *_CONTRACTED})  # words that change beside certain other words
_VOWELS = frozenset("aàâäeéèêëiîïoôöuùûüœæ")
_LETTERS_MISLEAD = re.compile(r"eu|uni(?![mn])|use|hon|hour", re.IGNORECASE)  # English words


def begins_with_vowel(word: str, language: str, misleading: AbstractSet[str] = frozenset()) -> bool:
    """Whether a word begins with a vowel sound; French h is mute unless the word is misleading."""
    vowel = word[0].lower() in _VOWELS or (language == "fr" and word[0] in "hH")
    by_rule = language == "en" and _LETTERS_MISLEAD.match(word)
    return vowel != (word in misleading or bool(by_rule))


def spell(
    tokens: Sequence[Token], language: str, misleading: AbstractSet[str] = frozenset()
) -> list[Token]:
    """Apply the changes between neighbours: an, l', cet, du, cannot. Merged words keep all marks.

    The first letter of a `misleading` word does not show its sound: héros, onze.

    >>> spell([("de", (1,)), ("le", (2,)), ("pays", (3,))], "fr")
    [('du', (1, 2)), ('pays', (3,))]
    """
    changes = _BEFORE_VOWEL if language == "fr" else {"a": "an"}
    spelled: list[Token] = []
    last = len(tokens) - 1
    for i, token in enumerate(tokens):
        word, marks = token
        if word not in changes and word not in _MERGING:
            spelled.append(token)  # nearly every token
            continue
        if (
            word in changes
            and i < last
            and begins_with_vowel(tokens[i + 1][0], language, misleading)
        ):
            word = changes[word]
        elif word == "si" and tokens[i + 1][0] in ("il", "ils"):
            word = "s'"
        elif word in _CONTRACTED and spelled and spelled[-1][0] in _CONTRACTED[word]:
            before, earlier = spelled.pop()
            word, marks = _CONTRACTED[word][before], earlier + marks
        spelled.append((word, marks))
    return spelled
