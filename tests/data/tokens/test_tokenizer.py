"""Words that are tokenised once give the same tokens as whole sentences."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.data.tokens import tokenizer as tokenizers
from bahdanau_jax.data.tokens.tokenizer import Moses

MOSES = {language: Moses(language) for language in ("en", "fr", "de", "cs", "zh")}
# Where the rules look at neighbours: full stops, abbreviations, commas, apostrophes, spaces.
PARTS = (
    *(
        "a",
        "No",
        "Mr",
        "St",
        "e.g",
        "d",
        "n't",
        "\u00e9",
        "\u00df",
        "\u0153",
        "5",
        "12",
        "12,",
        " ?",
        "3.5",
        "'s",
    ),
    *("'", "-", "--", ",", ".", "...", "?", "!", "%", "<unk>", "(", "\u00d7", "\u0149", "\u4e2d"),
    *(" ", " ", " ", "  ", "\t", "\x00", "\x1c", "\u00a0", "\u2028"),
)


@given(st.sampled_from(sorted(MOSES)), st.lists(st.sampled_from(PARTS), max_size=9).map("".join))
def test_tokens_by_word_are_those_of_the_rules(language, text):
    assert MOSES[language].tokenize(text) == MOSES[language]._by_rules(text)


@pytest.mark.parametrize("end", [".", "?", " ?", " !"])
@pytest.mark.parametrize("language", MOSES)
def test_a_known_word_asks_no_rule(language, end, monkeypatch):
    tokenizer = MOSES[language]
    text = f"En 2009, la vice-ministre n'a pas vu 12 maisons{end}"
    expected = tokenizer.tokenize(text)
    monkeypatch.setattr(tokenizer, "_by_rules", lambda text: pytest.fail(f"asked for {text!r}"))
    assert tokenizer.tokenize(text) == expected


def test_a_tokenizer_can_be_sent_to_another_process():
    sent = pickle.loads(pickle.dumps(Moses("fr")))
    assert sent.tokenize("L'homme dort.") == Moses("fr").tokenize("L'homme dort.")


@pytest.mark.parametrize("symbol", ["<unk>", "<UNK>", "<u\x00nk>"])
@pytest.mark.parametrize("count", [1_000, 1_001, 3_000])
def test_a_text_of_many_unk(count, symbol):
    tokens = Moses("en").tokenize(" ".join(["<unk>,", *[symbol] * (count - 1)])).split()
    assert tokens == ["<unk>", ",", *[symbol.replace("\0", "")] * (count - 1)]
    assert Moses("fr").tokenize("<unk>" * count) == "<unk>" * count


@pytest.mark.parametrize(
    ("text", "inner", "last"),
    [
        ("a<unk>b", "a<unk>b", "a<unk>b"),
        ("a<unk>b ", "a<unk>b ", "a<unk>b"),
        ("-<unk>'", "-<unk> ' ", "-<unk>'"),
    ],
)
@pytest.mark.parametrize("count", [2, 1_000, 1_001, 3_000])
def test_a_text_of_many_unk_within_words(count, text, inner, last):
    assert Moses("en").tokenize(text * count) == inner * (count - 1) + last


UNKS = ("<unk>", "<UNK>")


@given(
    st.sampled_from(sorted(MOSES)),
    st.lists(st.sampled_from((*PARTS, *(f" {unk} " for unk in UNKS * 9))), max_size=40),
)
def test_the_pieces_of_a_text_with_many_unk_have_the_tokens_of_the_whole(language, parts):
    text = "".join(part for part in parts if part != "<unk>")
    whole = MOSES[language]._by_rules(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizers, "MOST_UNKNOWN", 3)
        assert MOSES[language]._by_rules(text) == whole
