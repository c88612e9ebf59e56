"""The built-in corpus by its address: stability, rare names, splits, lengths, errors."""

import hashlib
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from bahdanau_jax.data.sources import builtin
from bahdanau_jax.data.sources import grammar as real
from bahdanau_jax.data.sources.grammar import SPLITS, generate, split_of, text
from bahdanau_jax.data.sources.grammar.proper_names import ENDINGS, coin
from bahdanau_jax.data.sources.grammar.wordfile import SECTIONS
from bahdanau_jax.data.sources.grammar.wordreader import load

DIGESTS = {  # of the first 1,000 pairs at default options, in the first release
    "train": "67fa575a2cc972efcd576c994ade136c700cd95528f2279fb8000570d60b2b83",
    "dev": "602df165e97b6170ac4e9c7c2e005da098f59af75521bd447ac7721c5c91d7ef",
    "test": "be46071df0463ef9492f2e10659d1716f991655e3f7522ed93693ae5fd24cf83",
}


@pytest.fixture(autouse=True)
def grammar():
    """The grammar itself, not the stand-in of this folder."""
    return real


@pytest.fixture(scope="module")
def rare():
    return list(islice(generate("train", seed=1, rare=100), 1_500))


def is_rare(word):
    return word[0].isupper() and any(word.endswith(e) for ends in ENDINGS.values() for e in ends)


@pytest.mark.parametrize("split", SPLITS)
def test_the_default_corpus_never_changes(split):
    digest = hashlib.sha256()
    for pair in builtin.aligned(f"en-fr/{split}"):
        lines = (text(pair.source, "en"), text(pair.target, "fr"))
        tokens = (" ".join(pair.source), " ".join(pair.target))
        for line in (*lines, *tokens, sorted(pair.sure), sorted(pair.possible)):
            digest.update(f"{line}\n".encode())
    assert digest.hexdigest() == DIGESTS[split]


def test_no_rare_names_is_the_default():
    first = list(builtin.aligned("en-fr/train?pairs=200"))
    assert first == list(builtin.aligned("en-fr/train?pairs=200&rare=0"))
    assert first != list(builtin.aligned("en-fr/train?pairs=200&rare=5"))


# -- Any options


UNELIDED = ("le", "la", "de", "ne", "que", "je", "me", "ce", "ma", "nouveau", "beau")
ASPIRATE = ("hausse", "hausses", "héros", "huit", "onze")
CONTRACTED = {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les")}


def bad_french(pair):
    """Neighbours that French would have merged or elided."""
    words = [word.lower() for word in pair.target]
    return [
        (one, two)
        for one, two in zip(words, words[1:], strict=False)
        if (one, two) in CONTRACTED
        or (one in UNELIDED and two[0] in "aeiouâàéèêîôœh" and two not in ASPIRATE)
    ]


@settings(max_examples=60, deadline=None)
@given(
    split=st.sampled_from(SPLITS),
    seed=st.integers(0, 99),
    low=st.integers(0, 70),
    more=st.integers(3, 10),
    rare=st.integers(0, 100),
)
def test_any_options_give_what_they_say(split, seed, low, more, rare):
    options = f"pairs=4&min={low}&max={low + more}&seed={seed}&rare={rare}"
    pairs = list(builtin.aligned(f"en-fr/{split}?{options}"))
    assert pairs == list(builtin.aligned(f"en-fr/{split}?{options}"))
    for pair in pairs:
        assert low <= len(pair.source) <= low + more
        assert split_of(pair.source) == split
        assert pair.sure <= pair.possible
        assert {i for i, _ in pair.possible} == set(range(len(pair.source)))
        assert {j for _, j in pair.possible} == set(range(len(pair.target)))
        assert not bad_french(pair)


def test_rare_sentences_of_the_splits_are_disjoint():
    sources = {
        split: {p.source for seed in (0, 1) for p in islice(generate(split, seed, 3, 5, 30), 400)}
        for split in SPLITS
    }
    assert not sources["train"] & (sources["dev"] | sources["test"])
    assert not sources["dev"] & sources["test"]


# -- Rare names


def test_names_of_all_ranks_differ():
    ranks = (*range(3_000), *(10**n + k for n in range(5, 30) for k in range(20)))
    names = [coin(kind, rank) for kind in ENDINGS for rank in ranks]
    assert len(set(names)) == len(names)
    assert all(name.isalpha() and name == name.capitalize() for name in names)


def test_rare_says_how_many_names():
    shares = []
    for rare in (0, 5, 20, 100):
        pairs = list(islice(generate("dev", rare=rare, max_words=20), 300))
        words = [word for pair in pairs for word in pair.source]
        shares.append(sum(map(is_rare, words)) / len(words))
    assert shares[0] == 0 < 0.004 < shares[1] < 0.015 < shares[2] < 0.05 < 0.1 < shares[3]


def test_some_names_come_often_and_always_new_ones_come(rare):
    names = [word for pair in rare for word in pair.source if is_rare(word)]
    half = len(names) // 2
    before, after = Counter(names[:half]), Counter(names[half:])
    new = sum(count for name, count in after.items() if name not in before)
    assert 0.15 < new / half < 0.6
    assert 0.1 < sum(count for _, count in before.most_common(20)) / half < 0.5


def test_a_rare_name_is_surely_its_copy_and_nothing_else(rare):
    for pair in rare:
        english, french = ([w for w in side if is_rare(w)] for side in (pair.source, pair.target))
        assert sorted(english) == sorted(french)
        for i, word in enumerate(pair.source):
            if is_rare(word):
                (j,) = [j for k, j in pair.sure if k == i]
                assert pair.target[j] == word
                others = {pair.target[j] for k, j in pair.possible if k == i} - {word}
                assert others <= {"le", "la", "l'", "Le", "La", "L'", "du", "au", "Du", "Au"}


def test_articles_and_prepositions_suit_the_name(rare):
    seen = Counter()
    for pair in rare:
        for before, name in zip(pair.target, pair.target[1:], strict=False):
            for kind in ("city", "country m", "country f"):
                if is_rare(name) and name.endswith(ENDINGS[kind]):
                    vowel = name[0] in "AEIOU"
                    seen[kind, vowel, before.lower()] += 1
    found = {key: {b for k, v, b in seen if (k, v) == key} for key in {k[:2] for k in seen}}
    assert found == {
        ("city", False): {"à", "de"},
        ("city", True): {"à", "d'"},
        ("country m", False): {"le", "au", "du"},
        ("country m", True): {"l'", "en"},
        ("country f", False): {"la", "en"},
        ("country f", True): {"l'", "en"},
    }


def test_people_agree_by_the_ending_of_their_name(rare):
    seen = Counter()
    for pair in rare:
        for one, two, three in zip(pair.target, pair.target[1:], pair.target[2:], strict=False):
            for gender, kind in enumerate(("man", "woman")):
                was = is_rare(one) and one.endswith(ENDINGS[kind]) and two in ("est", "sera")
                if was and three in ("heureux", "heureuse", "sérieux", "sérieuse"):
                    seen[gender, three[-2:] == "se"] += 1
    assert set(seen) == {(0, False), (1, True)}


# -- Text and files


@pytest.mark.parametrize("rare", [0, 20])
def test_moses_splits_the_text_into_the_tokens(rare):
    tokenizers = MosesTokenizer("en"), MosesTokenizer("fr")
    for pair in islice(generate("train", seed=3, rare=rare), 5_000):
        for tokens, tokenizer, language in zip(pair[:2], tokenizers, ("en", "fr"), strict=True):
            assert tuple(tokenizer.tokenize(text(tokens, language), escape=False)) == tokens


def test_the_words_count_as_files_of_the_corpus(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("[noun thing]\nlamp = lampe f\n")
    files = builtin.files(f"en-fr/train?words={own}")
    assert own in files and {"en-fr.txt", "derivation.py"} <= {path.name for path in files}
    assert own not in builtin.files("en-fr/train")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("rare=101", "rare=101, but a percentage from 0 to 100"),
        ("rare=x", "rare should be a whole number, not 'x'"),
        ("rare=-1", "rare should be a whole number, not '-1'"),
        ("min=9&max=8", "no English sentence has 9 to 8 tokens"),
        ("max=2", "and from 3 to 10,000"),
        ("max=10001", "and from 3 to 10,000"),
        ("words=nowhere.txt", "words should be a file, but 'nowhere.txt' is none"),
        ("words", "words should be a file, but '' is none"),
        ("word=x", "no option of builtin:en-fr 'word'; .*mean 'words'"),
    ],
)
def test_mistakes_are_named_at_once(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        builtin.aligned(f"en-fr/train?{options}")
    assert "\n" not in str(caught.value)


# -- The manual

MANUAL = (Path(__file__).parents[3] / "docs" / "grammar.md").read_text(encoding="utf-8")


def test_the_manual_has_all_sections_and_options_and_its_example_is_read(tmp_path):
    assert [name for name in SECTIONS if f"`[{name}" not in MANUAL] == []
    assert [name for name in builtin.BUILTINS["en-fr"].options if f"`{name}`" not in MANUAL] == []
    path = tmp_path / "example.txt"
    path.write_text(MANUAL.split("```\n")[1], encoding="utf-8")
    assert len(load(path).sentences) == 2


@pytest.mark.parametrize(
    ("place", "address"), [(1248, "train?pairs=2000&max=10"), (190, "dev?pairs=200&max=9&rare=20")]
)
def test_the_pairs_of_the_manual_are_drawn_as_they_are(place, address):
    assert f"`builtin:en-fr/{address}`" in MANUAL
    pair = next(islice(builtin.aligned(f"en-fr/{address}"), place, None))
    assert "  ".join(pair.target) in MANUAL
    for i, word in enumerate(pair.source):
        marks = [
            "■" if (i, j) in pair.sure else "□" if (i, j) in pair.possible else "·"
            for j in range(len(pair.target))
        ]
        assert any(line.split() == [word, *marks] for line in MANUAL.splitlines())
