"""Spans of words, tokens and units in the original line, before cleaning and lower case."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax import data
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import LEVELS, Pair, overlaps, token_spans, unit_spans
from bahdanau_jax.data.tokens import codec as codecs

LINES = [
    "The man's dog, R&amp;D and Mr. Ng didn't see 3.5 % of Zürich!",
    "L'homme n'a pas vu l'ÉTÉ, aujourd'hui.",
    "Ｆｕｌｌ ﬁne İstanbul ΣΊΣΥΦΟΣ ẞ ...",
    "tab\there  two\u3000three\u200bfour",
]
SETTINGS = {
    "words": {"vocabulary": "words"},
    "characters": {"vocabulary": "characters"},
    "bpe": {"vocabulary": "sentencepiece", "subwords": "bpe", "source_vocabulary_size": 70},
    "bytes": {
        "vocabulary": "sentencepiece",
        "source_vocabulary_size": 320,
        "byte_fallback": True,
    },
}
CONTROL = re.compile(r"[\0-\x1f]")
CLEANING = {"lowercase": True, "unicode": "NFKC", "unescape": True}


def codec(kind: str, **settings) -> data.Codec:
    config = DataConfig(joint_vocabulary=True, **SETTINGS[kind] | settings)
    return codecs.learn(config, [Pair(LINES[0], LINES[1])])[0]


@pytest.fixture(scope="module", params=[(k, c) for k in SETTINGS for c in ("plain", "cleaned")])
def learned(request):
    kind, cleaning = request.param
    return codec(kind, **(CLEANING if cleaning == "cleaned" else {}))


def written(text, spans):
    return [text[a:b] for a, b in spans]


def test_words_by_hand():
    text = "M. Ng's ÉTÉ, hier."
    french = codec("words", lowercase=True, source_language="fr")
    expected = ["M.", "Ng'", "s", "ÉTÉ", ",", "hier", "."]
    assert written(text, token_spans(french, text)) == expected
    assert written(text, unit_spans(french, text)) == expected
    assert list(french.units(text)[:-1]) == [token.lower() for token in expected]
    members = overlaps(LEVELS["word"](french, "fr", text).spans, unit_spans(french, text))
    np.testing.assert_array_equal(members.argmax(axis=0), [0, 1, 1, 2, 2, 3, 3, 4])
    assert members.sum() == 8


def test_what_cleaning_changed_is_found_where_it_was_written():
    ours = codec("words", **CLEANING)
    text = "R&amp;D, ﬁne Ｆｕ."
    assert ours.units(text)[:-1] == ("r", "&", "d", ",", "fine", "fu", ".")
    assert written(text, unit_spans(ours, text)) == ["R", "&amp;", "D", ",", "ﬁne", "Ｆｕ", "."]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("fr", "&laquo;&nbsp;qu&#39;il", ["&laquo;", "qu&#39;", "il"]),
        ("fr", "l&#39;an&nbsp;&raquo;", ["l&#39;", "an", "&raquo;"]),
        ("fr", "s&#39;s&amp;", ["s&#39;", "s", "&amp;"]),
        ("en", "a&amp;x&#39;a", ["a", "&amp;", "x", "&#39;a"]),
        ("en", "AT&T is &copyright", ["AT", "&", "T", "is", "&copy", "right"]),
        ("en", "x&copy=2", ["x", "&copy", "=", "2"]),
        ("en", "a &amp b", ["a", "&amp", "b"]),
    ],
)
def test_a_character_reference_is_one_part(language, text, expected):
    ours = codec("words", source_language=language, unicode="NFKC", unescape=True)
    assert written(text, token_spans(ours, text)) == expected


PARTS = st.sampled_from(
    ["a", "l", "amp", "&amp;", "&#39;", "&laquo;", "&nbsp;", "&", ";", "½", " "]
)


@given(st.lists(PARTS, max_size=8).map("".join))
def test_no_span_of_cleaned_text_is_empty(text):
    spans = token_spans(CLEANED, text)
    assert len(spans) == len(CLEANED.tokenize(text).split())
    assert all(0 <= a < b <= len(text) for a, b in spans)
    assert spans == sorted(spans)


def test_pieces_and_characters_by_hand():
    pieces = codec("bpe", lowercase=True)
    text = "Did  THE man☃see"
    spans = unit_spans(pieces, text)
    assert len(spans) == len(pieces.encode(text)) - 1
    shown = [unit.replace("▁", "") for unit in pieces.units(text)[:-1]]
    assert [w.lower() for w, s in zip(written(text, spans), shown, strict=True) if s] == [
        s for s in shown if s
    ]
    letters = codec("characters")
    assert written("a  b", unit_spans(letters, "a  b")) == ["a", "b", "b"]  # a space: what follows


def test_bytes_of_a_character_stand_where_it_does():
    ours = codec("bytes")
    spans = unit_spans(ours, "☃ man")
    assert len(spans) == len(ours.encode("☃ man")) - 1
    assert spans.count((0, 1)) >= 3


@pytest.mark.parametrize("text", ["", " ", "\x01", "\x01 \x02", "☃", *LINES])
def test_every_unit_has_a_place_in_every_line(learned, text):
    spans = unit_spans(learned, text)
    assert len(spans) == len(learned.encode(text)) - 1
    assert all(0 <= a <= b <= len(text) for a, b in spans)
    starts = [a for a, _ in spans]
    assert starts == sorted(starts)


@given(st.text(max_size=30))
@pytest.mark.parametrize("name", ["moses", "none"])
def test_tokens_of_any_text_lie_in_order_and_say_what_they_are(name, text):
    ours = TOKENIZED[name]
    tokens, spans = ours.tokenize(text).split(" "), token_spans(ours, text)
    if not ours.tokenize(text):
        assert not spans
    elif "DOTMULTI" not in text:  # which Moses takes for dots
        dropped = CONTROL if name == "moses" else re.compile("(?!)")
        assert [dropped.sub("", word) for word in written(text, spans)] == tokens


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_pieces_of_any_text_cover_it_in_order(text):
    spans = unit_spans(PIECES, text)
    assert len(spans) == len(PIECES.encode(text)) - 1
    members = overlaps(LEVELS["token"](PIECES, "en", text).spans, spans)
    assert members.any(axis=0).all()  # each piece belongs to a token


@given(st.text(max_size=20))
def test_lower_case_moves_nothing(text):
    assert token_spans(LOWERED, text) == token_spans(TOKENIZED["moses"], text)
    assert len(unit_spans(LOWERED, text)) == len(LOWERED.encode(text)) - 1


TOKENIZED = {name: codec("words", tokenizer=name) for name in ("moses", "none")}
LOWERED = codec("words", lowercase=True)
CLEANED = codec("words", unicode="NFKC", unescape=True)
PIECES = codec("bpe", lowercase=True)


def test_levels_count_what_they_say():
    line = "Mr. Ng's dog."
    found = {name: level(PIECES, "en", line).words for name, level in LEVELS.items()}
    assert found["word"] == ("Mr.", "Ng's", "dog.")
    assert found["token"] == ("Mr.", "Ng", "'s", "dog", ".")
    assert found["piece"] == PIECES.units(line)[:-1]
    assert found["hansards"] == found["word"]
    french = dataclasses.replace(PIECES, config=PIECES.config)
    assert LEVELS["hansards"](french, "fr", "de le an").text == "de l'an"


def test_a_word_of_nothing_readable_has_no_unit():
    ours = TOKENIZED["moses"]
    text = "a \x01 b"
    members = overlaps(LEVELS["word"](ours, "en", text).spans, unit_spans(ours, text))
    np.testing.assert_array_equal(members.sum(axis=1), [1, 0, 1, 1])
