"""A user's file of words: its entries are used and linked, and errors name the line."""

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from bahdanau_jax.data.sources.grammar import SPLITS, generate, split_of, text
from bahdanau_jax.data.sources.grammar.wordfile import SECTIONS, entries
from bahdanau_jax.data.sources.grammar.wordreader import FILE, load

OWN = """# Words of one's own, as docs/grammar.md tells.
[noun thing]
lamp = lampe f
knife/knives = couteau m
owl = *hibou/hiboux m
[noun person]
user = utilisateur m
*usurer = usurier m       # a star: "a usurer"
[adjective before thing person]
old = vieux/vieille/vieil
[adjective thing]
fragile = fragile
[adjective person]
lazy = paresseux
[verb thing]
break/broke/broken = casser
paint = peindre
[verb measure]
write/wrote/written = écrire
[verb alone person]
leave/left = partir être
[forms]
écrire = écris écrivons écrivez écrit écrivent écrir écrit
partir = pars partons partez part partent partir parti
peindre = peins peignons peignez peint peignent peindr peint
[name person]
Helen = Hélène f
[name country]
Iran = Iran m
[name city]
Athens = Athènes
[modifier]
school = scolaire
[adverb]
quickly = rapidement
[time past]
~in/2 the/1 morning/2 = le/1 matin/2
[preposition domain]
thanks/1 ~to/1 = grâce ~à
[sentence]
it/1 is/2 about/3 {measure} = il/1 ~se/2 agit/2 de/3 {measure}
is/1 it/2 true/3 that/4 {clause} ? = est-ce ~que/1 il/2 est/1 vrai/3 que/4 {clause} ?
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "own.txt"
    path.write_text(12 * OWN, encoding="utf-8")  # what stands often is drawn often
    return path


@pytest.fixture(scope="module")
def pairs(own):
    return list(islice(generate("train", seed=5, words=own), 8_000))


def with_sides(pairs, english, french):
    """Those that have both phrases, with the places where they begin."""
    english, french = english.split(), french.split()
    return [
        (pair, i, j)
        for pair in pairs
        for i in range(len(pair.source))
        if list(pair.source[i : i + len(english)]) == english
        for j in range(len(pair.target))
        if list(pair.target[j : j + len(french)]) == french
    ]


@pytest.mark.parametrize(
    ("english", "french", "sure"),
    [
        ("the lamp", "la lampe", {(0, 0), (1, 1)}),
        ("the knives", "les couteaux", {(0, 0), (1, 1)}),
        ("owls", "hiboux", {(0, 0)}),
        ("the owl", "le hibou", {(0, 0), (1, 1)}),  # a star: no elision
        ("an owl", "un hibou", {(0, 0), (1, 1)}),
        ("a user", "un utilisateur", {(0, 0), (1, 1)}),
        ("a usurer", "un usurier", {(0, 0), (1, 1)}),
        ("the user", "l' utilisateur", {(0, 0), (1, 1)}),
        ("old lamp", "vieille lampe", {(0, 0), (1, 1)}),
        ("old hero", "vieux héros", {(0, 0), (1, 1)}),
        ("old inhabitant", "vieil habitant", {(0, 0), (1, 1)}),
        ("old inhabitants", "vieux habitants", {(0, 0), (1, 1)}),
        ("fragile lamps", "lampes fragiles", {(0, 1), (1, 0)}),
        ("lazy woman", "femme paresseuse", {(0, 1), (1, 0)}),
        ("broke", "a cassé", {(0, 1)}),
        ("painted", "a peint", {(0, 1)}),
        ("was written", "a été écrite", {(0, 1), (1, 2)}),
        ("She left", "Elle est partie", {(0, 0), (1, 2)}),
        ("They leave", "Ils partent", {(0, 0), (1, 1)}),
        ("Helen", "Hélène", {(0, 0)}),
        ("in Iran", "en Iran", {(0, 0), (1, 1)}),
        ("by Iran", "par l' Iran", {(0, 0), (1, 2)}),
        ("in Athens", "à Athènes", {(0, 0), (1, 1)}),
        ("school reform", "réforme scolaire", {(0, 1), (1, 0)}),
        ("quickly", "rapidement", {(0, 0)}),
        ("in the morning", "le matin", {(1, 0), (2, 1)}),
        ("thanks to the", "grâce au", {(0, 0), (2, 1)}),
        ("It is about", "Il s' agit du", {(0, 0), (1, 2), (2, 3)}),
        ("Is it true that", "Est-ce qu' il est vrai que", {(0, 0), (0, 3), (1, 2), (2, 4), (3, 5)}),
    ],
)
def test_words_of_ones_own(pairs, english, french, sure):
    found = with_sides(pairs, english, french)
    assert found
    width = range(len(english.split())), range(len(french.split()))
    pair, i, j = min(found, key=lambda one: len(one[0].source))
    links = {(a - i, b - j) for a, b in pair.sure if a - i in width[0] and b - j in width[1]}
    assert links == sure, text(pair.target, "fr")


def test_nothing_else_is_said_of_them(pairs):
    wrong = ("l' hibou", "vieux inhabitant", "vieil hommes", "se agit", "de Athènes", "le Iran")
    wrong += ("au Iran", "cet hibou", "dans Athènes", "a parti", "peindons")
    lines = [f" {' '.join(pair.target)} " for pair in pairs]
    assert not [line for line in lines for phrase in wrong if f" {phrase} " in line]
    assert not [pair for pair in pairs if " an user " in " ".join(pair.source)]


def test_links_are_whole_and_splits_disjoint(own):
    seen = {split: set() for split in SPLITS}
    for split in SPLITS:
        for pair in islice(generate(split, 0, 3, 7, rare=20, words=own), 300):
            seen[split].add(pair.source)
            assert split_of(pair.source) == split
            assert {i for i, _ in pair.possible} == set(range(len(pair.source)))
            assert {j for _, j in pair.possible} == set(range(len(pair.target)))
    assert not seen["train"] & (seen["dev"] | seen["test"]) and not seen["dev"] & seen["test"]


def test_the_french_follows_from_the_english(own):
    seen = {}
    for pair in islice(generate("train", 1, max_words=8, words=own), 3_000):
        assert seen.setdefault(pair.source, pair.target) == pair.target


def test_moses_splits_the_text_into_the_tokens(pairs):
    tokenizers = MosesTokenizer("en"), MosesTokenizer("fr")
    for pair in pairs[:400]:
        for tokens, tokenizer, language in zip(pair[:2], tokenizers, ("en", "fr"), strict=True):
            assert tuple(tokenizer.tokenize(text(tokens, language), escape=False)) == tokens


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.integers(3, 60), st.integers(0, 100))
def test_lengths_stay_in_range(own, seed, low, rare):
    for pair in islice(generate("train", seed, low, low + 5, rare, own), 3):
        assert low <= len(pair.source) <= low + 5


def test_a_file_of_comments_changes_nothing(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("# nothing\n\n[noun thing]\n")
    first = list(islice(generate("dev"), 100))
    assert first == list(islice(generate("dev", words=str(path)), 100))


def test_the_examples_of_the_sections_are_read(tmp_path):
    for name, section in SECTIONS.items():
        path = tmp_path / "own.txt"
        header = " ".join((name, *section.kinds[-1:]))
        path.write_text(f"[{header}]\n{section.example}\n")
        (entry,) = entries(path)
        assert (entry.section, entry.place) == (name, f"{path}:2")
        load(path)


def test_the_built_in_words_are_in_the_same_format(tmp_path):
    copy = tmp_path / "copy.txt"
    copy.write_bytes(FILE.read_bytes())
    assert all(
        len(table) == 2 * len(load().nouns[kind]) for kind, table in load(copy).nouns.items()
    )


def test_other_line_ends_and_marks_of_the_encoding_are_read(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes("\ufeff[noun thing]\r\ne\u0301tui = e\u0301tui m\r\n".encode())
    assert load(path).nouns["thing"][-1].french == ("étui", "étuis")


@pytest.mark.parametrize(
    ("written", "line", "message"),
    [
        ("lamp = lampe f", 1, r'needs a section before it, such as "\[noun thing\]"'),
        ("[nouns thing]", 1, r"no section 'nouns'; known: adjective, .*\(did you mean 'noun'\?\)"),
        ("[noun things]", 1, r"no kind of \[noun\] 'things'; known: .* \(did you mean 'thing'\?\)"),
        ("[noun]", 1, r'"\[noun person\]" was expected.*kinds: person, body'),
        ("[noun thing", 1, r'a header such as "\[noun person\]" was expected'),
        ("[verb giving thing]", 1, r'such as "\[verb giving\]" was expected, not "\[verb giving t'),
        ("[noun thing]\nlamp lampe f", 2, "English and French with = between"),
        ("[noun thing]\n\nlamp = lampe", 3, "a gender, m or f, was expected last"),
        ("[noun thing]\nfloor lamp = lampe f", 2, 'a word, or up to 2 forms .*"floor lamp"'),
        ("[noun thing]\nlamp = l'ampe f", 2, 'not "l\'ampe"'),
        ("[noun place]\nbank = rive f", 2, r'"bank" has another translation at .*en-fr.txt:\d+'),
        ("[verb thing]\npush = pousser être", 2, "only an infinitive was expected"),
        ("[verb thing]\npaint = peindre", 2, r"peindre is irregular: .* needed in \[forms\]"),
        ("[verb thing]\nput/put = poser", 2, "a past other than the present"),
        ("[verb thing]\nfound/founded = fonder", 2, '"found" has another translation'),
        ("[forms]\npeindre = peins peint", 2, "5 forms of the present"),
        ("[adjective thing]\nvery old = vieux", 2, 'a word was expected, not "very old"'),
        ("[time past]\nlast/1 night/2 = hier/1", 2, "number 2 should occur on both sides"),
        ("[time past]\nlast/x night = hier", 2, 'a word with its number, .*: "last/x"'),
        ("[sentence]\nwe/1 see/2 = nous voyons/2", 2, "slots were expected, of person, body"),
        ("[sentence]\nwe {thing} = nous {place}", 2, "each slot should occur once on each side"),
        ("[sentence]\nwe {tool} = nous {tool}", 2, "slots were expected, of person, body"),
        ("[sentence]\nwe {thing} ? = nous {thing}", 2, "both sides should end with the same mark"),
        ("[preposition body]\nwith = contre", 2, '"with" has another .* at function_words.py'),
        ("[noun thing]\nflight = vol m", 2, 'the Moses tokeniser splits "vol." into "vol."'),
    ],
)
def test_mistakes_name_file_and_line(tmp_path, written, line, message):
    path = tmp_path / "own.txt"
    path.write_text(written + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"own\.txt:{line}: .*{message}") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file of words .*none\.txt"):
        load(tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes("[noun thing]\nstar = étoile f\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt:2: not valid UTF-8"):
        load(tmp_path / "latin.txt")
