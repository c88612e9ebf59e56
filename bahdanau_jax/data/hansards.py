"""Ordinary text from the words of the HLT-NAACL 2003 English-French data (Canadian Hansards).

Its tokeniser set hyphens apart and spelt out what French elides and contracts:

    le heure · je ai · que il · ce est · jusque ici     l'heure · j'ai · qu'il · c'est · jusqu'ici
    de le public · à les tâches · permettez - moi       du public · aux tâches · permettez-moi

A model of ordinary text reads the right column; the spans are the positions in it of each word on
the left. Some forms are ambiguous: "de le" becomes "du" before a noun, but remains before an
infinitive (de le faire); endings and lists of words decide.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class _Form(NamedTuple):
    text: str
    words: int  # number of original words
    glued: bool  # no space before the next form


CONTRACTED: Mapping[tuple[str, str], str] = MappingProxyType(
    {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
)

# Word -> pattern of the words before which it is elided; "" is any vowel or mute h.
ELIDED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("le", "de", "je", "me", "te", "se", "ne", "que"), ""),
        **dict.fromkeys(("jusque", "lorsque", "puisque", "quoique"), ""),
        "ce": "[eéê]",  # c'est, c'était, c'en; "cet" before other vowels
        "si": "ils?$",
        "quelque": "une?$",
    }
)

# Beginnings of words with an aspirated h, and of other words that prevent elision.
UNELIDED = re.compile(
    r"h(a(ch|ie|in|ïr|ïs|lète|ll|lt|meau|nch|ndicap|ngar|nt|rass|rceler|rcèl|rdi|reng|rgn|ricot"
    r"|rpe|sard|ât|uss|ut|vre)|âte|éri?ss|éros|être|ein|ennir|ernie|eurt|ibou|iérarch|isser|och"
    r"|ockey|oll|omard|ong|ont|oquet|ors|ouill|oule|ousse|ublot|uche|uée|uit(?!r)|url|utte)|onz"
    r"|oui$|ouistiti|ululer",
    re.IGNORECASE,
)

# After "le", these words are infinitives, and so are words in -er that the second pattern does not
# list as nouns. After "les" the ending suffices: nouns end in s or x.
INFINITIVES = re.compile(
    r"faire|dire|lire|écrire|croire|voir|avoir|savoir|recevoir|devoir|vouloir|être|mettre|battre"
    r"|connaître|suivre|vivre|rendre|prendre|comprendre|apprendre|entendre|attendre|défendre|vendre"
    r"|perdre|répondre|étudier|modifier|vérifier|apprécier|publier|justifier|changer|partager"
    r"|chercher|empêcher|toucher|obliger|protéger|corriger|engager|soutenir|obtenir|tenir|maintenir"
    r"|servir|sortir|définir|fournir|garantir|établir"
)
NOUNS = re.compile(
    r"(i|g|ch)er$|^(hiver|fer|cancer|leader|foyer|loyer|conseiller|amer|enfer|dîner|souper)$"
)


def check_language(language: str) -> None:
    """Raise ValueError for a language without rules."""
    if language not in RULES:
        raise ValueError(
            f"the Hansards' words are English or French, not of language {language!r}: set "
            f"data.source_language and data.target_language to one of {', '.join(RULES)}"
        )


def ordinary(words: Sequence[str], language: str) -> tuple[str, list[tuple[int, int]]]:
    """Join the words to ordinary text; returns it with the span of each word.

    >>> ordinary(["le", "heure", "de", "le", "vote"], "fr")
    ("l'heure du vote", [(0, 2), (2, 7), (8, 10), (8, 10), (11, 15)])

    Raises ValueError for a language without rules.
    """
    check_language(language)
    text, spans, place, glued = "", [], 0, True
    while place < len(words):
        form = RULES[language](words, place)
        text += form.text if glued else f" {form.text}"
        spans += [(len(text) - len(form.text), len(text))] * form.words
        place, glued = place + form.words, form.glued
    return text, spans


def _english(words: Sequence[str], place: int) -> _Form:
    return _Form(words[place], 1, _hyphenated(words, place))


def _french(words: Sequence[str], place: int) -> _Form:
    word = words[place]
    following = words[place + 1] if place + 1 < len(words) else ""
    after = words[place + 2] if place + 2 < len(words) else ""
    if (contracted := _contracted(word, following, after)) and not _is_elided(following, after):
        return _Form(contracted, 2, _hyphenated(words, place + 1))
    if _is_elided(word, following) and not (place and words[place - 1] == "-"):
        return _Form(word[:-1] + "'", 1, True)
    return _Form(word, 1, word.endswith("'") or _hyphenated(words, place))


RULES: Mapping[str, Callable[[Sequence[str], int], _Form]] = MappingProxyType(
    {"en": _english, "fr": _french}
)


def _hyphenated(words: Sequence[str], place: int) -> bool:
    """Whether a hyphen between two words joins this one to the next."""
    hyphen = place if words[place] == "-" else place + 1
    if not 0 < hyphen < len(words) - 1 or words[hyphen] != "-":
        return False
    return words[hyphen - 1][-1].isalnum() and words[hyphen + 1][0].isalnum()


def _contracted(word: str, following: str, after: str) -> str:
    form = CONTRACTED.get((word.lower(), following.lower()), "")
    if not form or _is_pronoun(following.lower(), after):
        return ""
    return form.capitalize() if word[0].isupper() else form


def _is_pronoun(article: str, after: str) -> bool:
    """Whether le or les is a pronoun, that is, the next word is an infinitive."""
    if article == "les":
        return after.endswith(("er", "ir", "re"))
    return bool(INFINITIVES.fullmatch(after)) or (after.endswith("er") and not NOUNS.search(after))


def _is_elided(word: str, following: str) -> bool:
    before = ELIDED.get(word.lower())
    if before is None or not following or UNELIDED.match(following):
        return False
    plain = unicodedata.normalize("NFD", following[0].lower())[0]
    vowel = plain in "aeiouhœæ" or bool(re.match(r"y($|[^aeiou])", following, re.IGNORECASE))
    return vowel and bool(re.match(before, following.lower()))
