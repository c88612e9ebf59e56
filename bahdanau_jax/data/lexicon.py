"""The words of the built-in English-French corpus: add to a table, and the grammar uses it.

An entry is `English French`, irregular forms after a slash; commas separate entries. Nouns:
`man/men homme m`. Adjectives: `new nouveau/nouvelle`. Verbs: `see/saw voir`, with the French forms
in `_IRREGULAR` where they are. A noun with h aspiré is also listed in `inflection`. Each English
word has one translation for each kind of neighbour it may have, so that the French is a function of
the English: therefore no verb whose past is its present (put, read).

In templates (phrases given whole) a word is `text/n`: words of the same number are translations of
each other, number 1 where none is written; `~` makes its links possible ones instead of sure ones.

Kinds of things, which decide what may go with what: person, body (an institution), measure (laws,
reports), domain (what is talked about), thing, place.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from bahdanau_jax.data.inflection import (
    Forms,
    Verb,
    conjugate,
    english_past,
    english_s,
    french_forms,
    french_plural,
)


class Noun(NamedTuple):
    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    gender: int


class Adjective(NamedTuple):
    english: str
    french: Forms


def _entries(text: str) -> list[list[str]]:
    return [entry.split() for entry in text.split(",")]


def _nouns(text: str) -> tuple[Noun, ...]:
    nouns = []
    for english, french, gender in _entries(text):
        one, _, many = english.partition("/")
        un, _, des = french.partition("/")
        numbers = (one, many or english_s(one)), (un, des or french_plural(un))
        nouns.append(Noun(*numbers, "mf".index(gender)))
    return tuple(nouns)


def _adjectives(text: str) -> tuple[Adjective, ...]:
    return tuple(
        Adjective(english, french_forms(*french.split("/"))) for english, french in _entries(text)
    )


def _verbs(text: str) -> tuple[Verb, ...]:
    verbs = []
    for english, french in _entries(text):
        base, _, past = english.partition("/")
        forms = conjugate(french, _IRREGULAR.get(french, ""))
        verbs.append(Verb(base, english_s(base), past or english_past(base), french, *forms))
    return tuple(verbs)


def _by_kind(parse, **tables: str) -> Mapping:
    return MappingProxyType({kind: parse(text) for kind, text in tables.items()})


NOUNS: Mapping[str, tuple[Noun, ...]] = _by_kind(
    _nouns,
    person="""man/men homme m, woman/women femme f, child/children enfant m, minister ministre m,
        president président m, citizen citoyen m, worker travailleur m, student étudiant m,
        doctor médecin m, nurse infirmière f, lawyer avocat m, judge juge m, expert expert m,
        journalist journaliste m, author auteur m, farmer agriculteur m, engineer ingénieur m,
        neighbour voisin m, friend ami m, brother frère m, sister sœur f, mother mère f,
        father père m, daughter fille f, son fils m, boy garçon m, queen reine f,
        actress actrice f, hero/heroes héros m, inhabitant habitant m, victim victime f""",
    body="""government gouvernement m, parliament parlement m, committee comité m,
        commission commission f, council conseil m, company entreprise f, bank banque f,
        agency agence f, university université f, school école f, authority autorité f,
        institution institution f, army armée f, court tribunal m, party parti m,
        association association f, team équipe f, ministry ministère m""",
    measure="""law loi f, reform réforme f, report rapport m, plan plan m, project projet m,
        proposal proposition f, agreement accord m, treaty traité m, budget budget m,
        policy politique f, decision décision f, programme programme m, strategy stratégie f,
        measure mesure f, rule règle f, resolution résolution f, amendment amendement m,
        contract contrat m, idea idée f, objective objectif m, initiative initiative f,
        text texte m, solution solution f, increase hausse f""",
    domain="""market marché m, sector secteur m, crisis/crises crise f, problem problème m,
        situation situation f, debate débat m, economy économie f, question question f,
        conflict conflit m, system système m, history histoire f, meeting réunion f""",
    thing="""house maison f, car voiture f, book livre m, newspaper journal m, machine machine f,
        picture tableau m, tree arbre m, computer ordinateur m, plane avion m, boat bateau m,
        horse cheval m, clock horloge f, coat manteau m, bicycle vélo m, window fenêtre f,
        tool outil m, bird oiseau m, bag sac m, weapon arme f, flower fleur f""",
    place="""city ville f, country pays m, region région f, street rue f, village village m,
        office bureau m, hotel hôtel m, hospital hôpital m, church église f, airport aéroport m,
        garden jardin m, station gare f, museum musée m, factory usine f, forest forêt f,
        theatre théâtre m, library bibliothèque f, building bâtiment m, valley vallée f""",
)

_SMALL = "new nouveau/nouvelle, big grand, small petit"
ADJECTIVES_BEFORE: Mapping[str, tuple[Adjective, ...]] = _by_kind(
    _adjectives,
    person="young jeune, good bon/bonne, new nouveau/nouvelle, former ancien/ancienne",
    body=_SMALL + ", former ancien/ancienne",
    measure=_SMALL + ", good bon/bonne, bad mauvais, former ancien/ancienne, long long/longue",
    domain=_SMALL + ", long long/longue, true vrai",
    thing=_SMALL + ", beautiful beau/belle, good bon/bonne",
    place=_SMALL + ", beautiful beau/belle",
)
# Of quality: in French after the noun and after any adjective of relation; also after "to be".
ADJECTIVES: Mapping[str, tuple[Adjective, ...]] = _by_kind(
    _adjectives,
    person="""famous célèbre, responsible responsable, serious sérieux/sérieuse, tired fatigué,
        happy heureux/heureuse, honest honnête, intelligent intelligent, rich riche,
        independent indépendant, discreet discret/discrète""",
    body="""important important, independent indépendant, responsible responsable,
        effective efficace, ambitious ambitieux/ambitieuse, competent compétent""",
    measure="""important important, necessary nécessaire, clear clair, useful utile, urgent urgent,
        dangerous dangereux/dangereuse, complicated compliqué, ambitious ambitieux/ambitieuse,
        effective efficace, transparent transparent, reasonable raisonnable""",
    domain="""important important, difficult difficile, complicated compliqué, strange étrange,
        dangerous dangereux/dangereuse, different différent""",
    thing="""expensive cher/chère, modern moderne, red rouge, white blanc/blanche, black noir,
        green vert, strange étrange, empty vide""",
    place="""modern moderne, famous célèbre, quiet tranquille, dangerous dangereux/dangereuse,
        empty vide, noisy bruyant""",
)
_NATIONS = """European européen/européenne, American américain, French français, German allemand,
    Italian italien/italienne, Japanese japonais"""
_FIELDS = """, economic économique, political politique, social social, national national,
    international international, financial financier/financière, local local, legal juridique,
    industrial industriel/industrielle, military militaire, democratic démocratique,
    environmental environnemental, regional régional"""
# Of relation: in French right after the noun.
RELATIONS: Mapping[str, tuple[Adjective, ...]] = _by_kind(
    _adjectives,
    person=_NATIONS,
    body=_NATIONS + _FIELDS,
    measure=_NATIONS + _FIELDS,
    domain=_NATIONS + _FIELDS,
    thing=_NATIONS,
    place=_NATIONS,
)
# Nouns before nouns: an adjective after the French noun, or a template that follows all adjectives.
MODIFIERS = _adjectives(
    "climate climatique, budget budgétaire, trade commercial, tax fiscal, farm agricole"
)
MODIFIERS_WITH_DE: tuple[tuple[str, str], ...] = (
    ("energy", "~de ~la énergie"),
    ("labour", "~de ~le travail"),
    ("security", "~de sécurité"),
    ("housing", "~de ~le logement"),
    ("transport", "~de ~les transports"),
    ("water", "~de ~la eau"),
    ("research", "~de recherche"),
)
# Names of institutions, with "the" in front, singular: (English, French, gender).
INSTITUTIONS: tuple[tuple[str, str, int], ...] = (
    ("European/1 Economic/2 Area/3", "zone/3 économique/2 européenne/1", 1),
    ("International/1 Monetary/2 Fund/3", "Fonds/3 monétaire/2 international/1", 0),
    ("European/1 Central/2 Bank/3", "Banque/3 centrale/2 européenne/1", 1),
    ("European/1 Union/2", "Union/2 européenne/1", 1),
    ("European/1 Parliament/2", "Parlement/2 européen/1", 0),
    ("International/1 Criminal/2 Court/3", "Cour/3 pénale/2 internationale/1", 1),
    ("World/1 Health/2 Organization/3", "Organisation/3 mondiale/1 ~de/2 ~la/2 santé/2", 1),
    ("World/1 Trade/2 Organization/3", "Organisation/3 mondiale/1 ~de/2 ~le/2 commerce/2", 1),
    ("Security/1 Council/2", "Conseil/2 ~de/1 sécurité/1", 0),
    (
        "United/1 Nations/2 General/3 Assembly/4",
        "Assemblée/4 générale/3 ~de/2 ~les/2 Nations/2 unies/1",
        1,
    ),
)
PEOPLE: tuple[tuple[str, str, int], ...] = (
    ("Paul", "Paul", 0),
    ("Peter", "Pierre", 0),
    ("John", "Jean", 0),
    ("Thomas", "Thomas", 0),
    ("Mary", "Marie", 1),
    ("Anna", "Anna", 1),
    ("Julia", "Julie", 1),
    ("Sophie", "Sophie", 1),
)
_FRANCES = "France France, Germany Allemagne, Italy Italie, Spain Espagne, China Chine"
_CANADAS = "Canada Canada, Japan Japon, Portugal Portugal, Brazil Brésil"
COUNTRIES: tuple[tuple[str, str, int], ...] = tuple(
    (english, f"~{['le', 'la'][gender]} {french}", gender)
    for gender, names in enumerate((_CANADAS, _FRANCES))
    for english, french in _entries(names)
)
# Where: "in" and a name.
IN_NAMES: tuple[tuple[str, str], ...] = (
    *((f"in/1 {en}/2", f"en/1 {fr}/2") for en, fr in _entries(_FRANCES)),
    *((f"in/1 {en}/2", f"à/1 ~le/2 {fr}/2") for en, fr in _entries(_CANADAS)),
    *(
        (f"in/1 {en}/2", f"à/1 {fr}/2")
        for en, fr in _entries("Paris Paris, London Londres, Brussels Bruxelles, Geneva Genève")
    ),
)

_IRREGULAR: Mapping[str, str] = MappingProxyType(
    {
        line.split(": ")[0].strip(): line.split(": ")[1]
        for line in """acheter: achète achetons achetez achète achètent achèter acheté
        admettre: admets admettons admettez admet admettent admettr admis
        appeler: appelle appelons appelez appelle appellent appeller appelé
        avoir: ai avons avez a ont aur eu
        comprendre: comprends comprenons comprenez comprend comprennent comprendr compris
        connaître: connais connaissons connaissez connaît connaissent connaîtr connu
        construire: construis construisons construisez construit construisent construir construit
        croire: crois croyons croyez croit croient croir cru
        décrire: décris décrivons décrivez décrit décrivent décrir décrit
        devoir: dois devons devez doit doivent devr dû
        dire: dis disons dites dit disent dir dit
        dormir: dors dormons dormez dort dorment dormir dormi
        envoyer: envoie envoyons envoyez envoie envoient enverr envoyé
        espérer: espère espérons espérez espère espèrent espérer espéré
        être: suis sommes êtes est sont ser été
        interdire: interdis interdisons interdisez interdit interdisent interdir interdit
        offrir: offre offrons offrez offre offrent offrir offert
        pouvoir: peux pouvons pouvez peut peuvent pourr pu
        préférer: préfère préférons préférez préfère préfèrent préférer préféré
        prendre: prends prenons prenez prend prennent prendr pris
        protéger: protège protégeons protégez protège protègent protéger protégé
        recevoir: reçois recevons recevez reçoit reçoivent recevr reçu
        rejeter: rejette rejetons rejetez rejette rejettent rejetter rejeté
        répéter: répète répétons répétez répète répètent répéter répété
        revenir: reviens revenons revenez revient reviennent reviendr revenu
        savoir: sais savons savez sait savent saur su
        soutenir: soutiens soutenons soutenez soutient soutiennent soutiendr soutenu
        suivre: suis suivons suivez suit suivent suivr suivi
        venir: viens venons venez vient viennent viendr venu
        voir: vois voyons voyez voit voient verr vu
        vouloir: veux voulons voulez veut veulent voudr voulu""".splitlines()
    }
)
_TO_PEOPLE = """see/saw voir, meet/met rencontrer, invite inviter, thank remercier, help aider,
    hear/heard entendre, criticise critiquer, protect protéger, follow suivre, support soutenir,
    respect respecter, choose/chose choisir, forget/forgot oublier, know/knew connaître"""
# Verbs by the kind of their object.
VERBS: Mapping[str, tuple[Verb, ...]] = _by_kind(
    _verbs,
    person=_TO_PEOPLE + ", love aimer, admire admirer, call appeler",
    body=_TO_PEOPLE,
    measure="""adopt adopter, reject rejeter, support soutenir, approve approuver, sign signer,
        publish publier, prepare préparer, propose proposer, defend défendre, examine examiner,
        criticise critiquer, accept accepter, present présenter, implement appliquer,
        prohibit interdire, understand/understood comprendre, welcome saluer""",
    domain="""analyse analyser, understand/understood comprendre, change changer, study étudier,
        improve améliorer, examine examiner, follow suivre, describe décrire""",
    thing="""see/saw voir, buy/bought acheter, sell/sold vendre, find/found trouver, use utiliser,
        lose/lost perdre, repair réparer, keep/kept garder, take/took prendre, receive recevoir""",
    place="""see/saw voir, visit visiter, love aimer, know/knew connaître, leave/left quitter,
        build/built construire, find/found trouver, protect protéger""",
)
_ACTS = "work travailler, hesitate hésiter, react réagir, vote voter, wait attendre"
INTRANSITIVE: Mapping[str, tuple[Verb, ...]] = _by_kind(
    _verbs,
    person=_ACTS
    + """, arrive arriver, return revenir, come/came venir, fall/fell tomber, stay rester,
        sleep/slept dormir, speak/spoke parler, travel/travelled voyager, dance danser""",
    body=_ACTS,
)
WITH_ETRE = frozenset(["arriver", "revenir", "venir", "tomber", "rester"])
GIVING = _verbs("give/gave donner, send/sent envoyer, show montrer, offer offrir, lend/lent prêter")
SAYING = _verbs(
    """say/said dire, think/thought penser, announce annoncer, explain expliquer, add ajouter,
    know/knew savoir, believe croire, declare déclarer, repeat répéter, admit/admitted admettre"""
)
WANTING = _verbs("want vouloir, hope espérer, prefer/preferred préférer")
CAN, MUST = (v._replace(auxiliary=True) for v in _verbs("can pouvoir, must devoir"))
BECOMING_PASSIVE = _verbs("be être")[0]._replace(auxiliary=True)  # was adopted: a été adoptée
BE = BECOMING_PASSIVE._replace(imperfect=("étais", "étions", "étiez", "était", "étaient"))
HAVE = _verbs("have avoir")[0]
