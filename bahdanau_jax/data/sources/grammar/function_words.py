"""Function words of the built-in corpus: determiners, pronouns, numbers, times, prepositions.

A pair is an English and a French template (see `lexicon`). An entry that occurs twice is drawn
twice as often.
"""

from bahdanau_jax.data.sources.grammar.inflection import THEY, THIRD, WE, YOU, I, make_verb
from bahdanau_jax.data.sources.grammar.synchronous import Pair

DETERMINERS: tuple[tuple[tuple[str, str, str], ...], ...] = (  # English, masculine, feminine
    (
        *9 * (("the", "le", "la"),),
        *3 * (("a", "un", "une"),),
        *2 * (("this", "ce", "cette"),),
        *2 * (("my", "mon", "ma"),),
        ("our", "notre", "notre"),
        ("their", "leur", "leur"),
        ("every", "chaque", "chaque"),
    ),
    (
        *9 * (("the", "les", "les"),),
        *2 * (("these", "ces", "ces"),),
        ("my", "mes", "mes"),
        ("our", "nos", "nos"),
        ("their", "leurs", "leurs"),
        *2 * (("some", "quelques", "quelques"),),
        *2 * (("several", "plusieurs", "plusieurs"),),
        *2 * (("many", "beaucoup ~de", "beaucoup ~de"),),
        *2 * (("all/1 the/2", "tous/1 les/2", "toutes/1 les/2"),),
    ),
)
DIGITS: tuple[Pair, ...] = (
    *(("two", "deux"), ("three", "trois"), ("four", "quatre"), ("five", "cinq"), ("six", "six")),
    *(("seven", "sept"), ("eight", "huit"), ("nine", "neuf")),
)
TENS: tuple[Pair, ...] = (
    *(("ten", "dix"), ("eleven", "onze"), ("twelve", "douze"), ("fifteen", "quinze")),
    *(("twenty", "vingt"), ("thirty", "trente"), ("fifty", "cinquante")),
)
SUBJECTS = (
    *(("I", "je", I, 0), ("we", "nous", WE, 0), ("you", "vous", YOU, 0)),
    *(("he", "il", THIRD, 0), ("she", "elle", THIRD, 1), ("they", "ils", THEY, 0)),
)
OBJECTS = (  # English, direct, indirect, person, gender
    *(("me", "me", "me", I, 0), ("us", "nous", "nous", WE, 0), ("you", "vous", "vous", YOU, 0)),
    *(("him", "le", "lui", THIRD, 0), ("her", "la", "lui", THIRD, 1)),
    ("them", "les", "leur", THEY, 0),
)
NOT: Pair = ("not", "~ne pas")
DENIALS: tuple[Pair, ...] = (*4 * (NOT,), ("never", "~ne jamais"), ("no ~longer", "~ne plus"))
ADVERBS: tuple[Pair, ...] = (
    *(("often", "souvent"), ("always", "toujours"), ("also", "aussi"), ("rarely", "rarement")),
    *(("sometimes", "parfois"), ("really", "vraiment"), ("already", "déjà")),
)
YEARS = tuple((f"in/1 {year}/2", f"en/1 {year}/2") for year in range(1999, 2010))
TIMES: tuple[tuple[Pair, ...], ...] = (
    (
        *(("today", "aujourd' hui"), ("now", "maintenant")),
        *(("every/1 day/2", "chaque/1 jour/2"), ("this/1 year/2", "cette/1 année/2")),
    ),
    (
        *(("yesterday", "hier"), ("last/1 year/2", "~la/2 année/2 dernière/1")),
        ("last/1 week/2", "~la/2 semaine/2 dernière/1"),
        ("last/1 month/2", "~le/2 mois/2 dernier/1"),
        *((f"{en}/1 years/2 ago/3", f"~il/3 ~y/3 a/3 {fr}/1 ans/2") for en, fr in DIGITS),
        *YEARS,
    ),
    (
        *(("tomorrow", "demain"), ("next/1 year/2", "~la/2 année/2 prochaine/1")),
        ("next/1 week/2", "~la/2 semaine/2 prochaine/1"),
        ("next/1 month/2", "~le/2 mois/2 prochain/1"),
        *((f"in/1 {en}/2 days/3", f"dans/1 {fr}/2 jours/3") for en, fr in DIGITS),
    ),
)
PREPOSITIONS = {
    "person": (("with", "avec"), ("for", "pour"), ("without", "sans"), ("against", "contre")),
    "body": (("with", "avec"), ("for", "pour"), ("against", "contre"), ("before", "devant")),
    "domain": (("during", "pendant"), ("after", "après"), ("because/1 of/2", "~à/1 cause/1 de/2")),
    "place": (("in", "dans"), ("near", "près ~de"), ("in ~front ~of", "devant")),
}
CAN = make_verb(("can",), "pouvoir", "peux pouvons pouvez peut peuvent pourr pu")
MUST = make_verb(("must",), "devoir", "dois devons devez doit doivent devr dû")
CAN, MUST = (verb._replace(auxiliary=True) for verb in (CAN, MUST))
HAVE = make_verb(("have",), "avoir", "ai avons avez a ont aur eu")
BECOMING_PASSIVE = make_verb(  # was adopted: a été adoptée
    ("be",), "être", "suis sommes êtes est sont ser été"
)._replace(auxiliary=True)
BE = BECOMING_PASSIVE._replace(imperfect=("étais", "étions", "étiez", "était", "étaient"))
# Words whose first letter does not show whether they begin with a vowel sound: le huit, le onze.
MISLEADING = frozenset(["huit", "onze"])
