"""UNK replacement and lexicons: by hand, for every kind of vocabulary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax import data
from bahdanau_jax.batch import EOS, UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.decoding import LexiconCounts, Ranking, read_lexicon, replace_unknown
from bahdanau_jax.decoding.long_lines import join
from bahdanau_jax.hypothesis import EMPTY, Hypothesis

ENGLISH, FRENCH = "The man sleeps in .", "L'homme dort à ."


def codecs(**settings):
    return codec.learn(DataConfig(lowercase=True, **settings), [data.Pair(ENGLISH, FRENCH)])


WORDS = codecs()
PIECES = {"source_vocabulary_size": 30, "joint_vocabulary": True}


def hypothesis(codecs, source: str, ids: list[int], looks: list[int], finished: bool = True):
    """The hypothesis of these ids, each of which looks at one source unit only."""
    units = codecs[0].units(source)
    ids = [*ids, EOS] if finished else ids
    alpha = np.full((len(ids), len(units)), 0.01, np.float32)
    for row, column in enumerate([*looks, len(units) - 1][: len(ids)]):
        alpha[row, column] = 0.9
    return Hypothesis(
        text=codecs[1].decode(ids),
        tokens=codecs[1].tokens(ids),
        log_probabilities=(-0.5,) * len(ids),
        score=-0.5 * len(ids),
        finished=finished,
        source_tokens=units,
        alpha=alpha,
    )


def french(*words: str) -> list[int]:
    return [WORDS[1].encode(word)[0] if word else UNK for word in words]


def test_unknown_words_are_copied_as_written_and_detokenised():
    source = "The man, Mr. McNeill-Ng, sleeps in Zürich."
    units = list(WORDS[0].units(source))
    ids = french("l'", "homme", "", "dort", "à", "", ".")
    looks = [0, 1, units.index("mcneill-ng"), 6, 7, units.index("zürich"), 8]
    before = hypothesis(WORDS, source, ids, looks)
    after = replace_unknown(before, WORDS, source)
    assert before.text == "l'homme <unk> dort à <unk>."
    assert after.text == "l'homme McNeill-Ng dort à Zürich."
    assert after.original == before.text
    assert (after.tokens, after.score, after.log_probabilities) == (
        before.tokens,
        before.score,
        before.log_probabilities,
    )
    assert Hypothesis.from_json(after.to_json()) == after
    assert after.to_json()["original"] == before.text and "original" not in before.to_json()


def test_what_is_not_replaced_is_left_as_it_is():
    source = "Xyz sleeps"
    unseen = hypothesis(WORDS, source, [UNK], [0])
    unseen.alpha[:] = 0  # as after an intervention that masks every word
    assert replace_unknown(unseen, WORDS, source) is unseen
    once = replace_unknown(hypothesis(WORDS, source, [UNK], [0]), WORDS, source)
    again = replace_unknown(once, WORDS, source, {"Xyz": "Abc"})
    assert (once.text, again.text, again.original) == ("Xyz", "Abc", once.original)


def test_the_lexicon_says_it_as_written_or_else_in_lower_case():
    source = "Dogs dogs Dogs cats"
    before = hypothesis(WORDS, source, [UNK] * 4, [0, 1, 2, 3])
    lexicon = {"dogs": "chiens", "Dogs": "Chiens"}
    assert replace_unknown(before, WORDS, source, lexicon).text == "Chiens chiens Chiens cats"
    del lexicon["Dogs"]
    assert replace_unknown(before, WORDS, source, lexicon).text == "chiens chiens chiens cats"


def test_a_look_at_eos_gives_way_to_the_next():
    source = "Xyz sleeps"
    before = hypothesis(WORDS, source, [UNK], [2])
    before.alpha[0, 0] = 0.05
    assert replace_unknown(before, WORDS, source).text == "Xyz"


def test_a_word_that_looked_at_nothing_stays_unknown():
    source = "Xyz Abc"
    before = hypothesis(WORDS, source, [UNK, UNK], [1, 2])
    before.alpha[1, :2] = 0
    assert replace_unknown(before, WORDS, source).text == "Abc <unk>"


def test_nothing_unknown_leaves_the_hypothesis_as_it_is():
    source = "the man"
    before = hypothesis(WORDS, source, french("l'", "homme"), [0, 1])
    assert replace_unknown(before, WORDS, source) is before
    assert replace_unknown(EMPTY, WORDS, " ") is EMPTY
    unlooked = hypothesis(WORDS, "\x01", [UNK], [0])
    assert replace_unknown(unlooked, WORDS, "\x01") is unlooked  # there is no word to copy


def test_an_unfinished_hypothesis_keeps_its_last_word():
    before = hypothesis(WORDS, "Ab Cd", [UNK, UNK], [1, 0], finished=False)
    assert replace_unknown(before, WORDS, "Ab Cd").text == "Cd Ab"


def test_characters_and_pieces_are_replaced_by_such():
    letters = codecs(vocabulary="characters")
    ids = [*letters[1].encode("homme")[:-1], UNK]
    before = hypothesis(letters, "man ☃", ids, [0, 0, 0, 0, 0, 4])
    assert replace_unknown(before, letters, "man ☃").text == "homme☃"
    pieces = codecs(vocabulary="sentencepiece", **PIECES)
    units, ids = pieces[0].units("man QQa"), pieces[1].encode("homme QQa")[:-1]
    looks = [units.index("qq") if i == UNK else 0 for i in ids]
    before = hypothesis(pieces, "man QQa", ids, looks)
    assert before.text == "homme <unk>a"
    assert replace_unknown(before, pieces, "man QQa").text == "homme QQa"


def test_a_split_line_is_replaced_over_all_its_parts():
    # Of a line that was cut, tokens and units of all parts stand in a row, with one EOS at the end.
    source = "Ab " * 30 + "Cd"
    before = hypothesis(WORDS, source, [UNK, *french("homme"), UNK], [30, 3, 0])
    assert replace_unknown(before, WORDS, source).text == "Cd homme Ab"


@pytest.mark.parametrize("vocabulary", ["words", "characters", "sentencepiece"])
def test_the_parts_of_a_split_line_are_joined_as_without_replacement(vocabulary):
    own = codecs(vocabulary=vocabulary, **PIECES if vocabulary == "sentencepiece" else {})
    parts = [
        hypothesis(own, "q", [UNK, *own[1].encode(text)[:-1]], [0] * 9, finished)
        for text, finished in (("l'", True), ("homme", False), (".", True))
    ]
    before = join(parts, Ranking())
    expected = " ".join(part.text.replace("<unk>", "q") for part in parts)
    assert replace_unknown(before, own, "q q q").text == expected
    assert before.text.count("<unk>") == 3


def test_lexicon_files():
    lines = ["dog\tchien", "", "dog\tchienne", " New York \tla grande ville", "x\ty "]
    expected = {"dog": "chien", "New York": "la grande ville", "x": "y"}
    assert read_lexicon(lines, "f") == expected


@pytest.mark.parametrize("bad", ["dog chien", "a\tb\tc", "a\t", "\tb"])
def test_lexicon_errors_name_the_line(bad):
    with pytest.raises(ValueError, match="^f:2: a line of a lexicon is a source word, a tab"):
        read_lexicon(["a\tb", bad], "f")


def test_counts_by_hand():
    counts = LexiconCounts()
    counts.add(["a", "b"], ["x", "y"], {(0, 0), (0, 1), (1, 1)})
    counts.add(["a"], ["y"], {(0, 0)})
    assert counts.lexicon() == {"a": "y", "b": "y"}
    assert counts.lexicon(2) == {"a": "y"}
    counts.add(["a"], ["x"], {(0, 0)})
    assert counts.lexicon(2) == {"a": "x"}  # as often: the first of both


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))))
def test_a_lexicon_comes_back_from_its_file(links):
    counts = LexiconCounts()
    for source, target in links:
        counts.add([source], [target], {(0, 0)})
    lexicon = counts.lexicon()
    assert read_lexicon([f"{word}\t{said}" for word, said in lexicon.items()], "f") == lexicon
    assert set(lexicon) == {source for source, _ in links}
