"""Tokenisers and vocabularies in the browser against those of Python."""

import dataclasses
import random

import pytest

from bahdanau_jax import data
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.tokens import moses_tables
from bahdanau_jax.explorer import browser_text
from tests.explorer import pages

ODD = [
    "",
    " ",
    "It 's 5,300.50 dollars, isn't it? No. 5 Mr. Smith's U.S. of A. e.g. this... and.that",
    "L'homme qu'il a vu n'est pas là, « aujourd'hui » ; c'est d'accord !",
    "'quoted' ''twice'' \"double\" “curly” `tick` rock'n'roll 90's dogs' O'Neil",
    "a,b , c,5 5,c 5,5, 5,\t tabs\x0b and\x85 odd\u3000spaces\ufeffhere \x1cend",
    "semi-detached -- dash – long — $5 €6 50% #tag @home a/b <b>bold</b> & &amp; | [x] {y} (z)",
    "<unk> and <UNK> and THISISPROTECTED000 <unk>",
    "<u\x01nk> and <unk\x02>",
    "....... .. . a.. b.' c.'",
    "ﬁne ＡＢＣ e\u0301 İstanbul ΣΑΣ straße",
    "日本語のテキスト 中文 한국어 mixed中文words",
    "😀 emoji 👩‍👩‍👧 ½ ² № ½,5",
    "<img src=x onerror=alert(1)>",
    "▁marked ▁ text @-@ joined @-@",
    "Dr. Who vs. Prof. X no. 7 No. seven art. 3 M. Dupont",
]


def texts():
    return [*ODD, *pages.lines(200, "builtin:en-fr/dev?pairs=200")]


def codec_in(tab, codec, language):
    tab.run(
        "(data) => { globalThis.codec = new modules.codec.Codec(data); }",
        browser_text.codec_data(codec, language),
    )


@pytest.fixture(scope="module")
def blank(browser):
    tab = pages.modules(browser)
    yield tab
    tab.close()


FIRST = [("en", "none"), ("fr", "NFKC")]
OTHERS = [
    pytest.param(language, form, marks=pytest.mark.slow)
    for language in ("en", "fr", "it", "de", "ja", "ko")
    for form in ("none", "NFKC")
    if (language, form) not in FIRST
]


@pytest.mark.parametrize(("language", "unicode"), [*FIRST, *OTHERS])
def test_moses_tokens_and_ordinary_text_are_those_of_python(blank, language, unicode):
    config = DataConfig(
        train=pages.CORPUS,
        source_language=language,
        target_language=language,
        lowercase=unicode != "none",
        unicode=unicode,
    )
    codec = pages.codecs(config)[0]
    codec_in(blank, codec, language)
    lines = texts()
    tokenised = blank.run("(lines) => lines.map((line) => codec.tokenize(line))", lines)
    assert tokenised == [codec.tokenize(line) for line in lines]
    ids = blank.run("(lines) => lines.map((line) => codec.encode(line).ids)", lines)
    assert ids == [codec.encode(line) for line in lines]
    tokens = [line.split() for line in tokenised]
    written = blank.run("(lines) => lines.map((tokens) => codec.write(tokens))", tokens)
    assert written == [codec.write(each) for each in tokens]


KINDS = {
    "bpe": {"vocabulary": "sentencepiece"},
    "unigram": {"vocabulary": "sentencepiece", "subwords": "unigram"},
    "bytes": {"vocabulary": "sentencepiece", "byte_fallback": True, "lowercase": True},
    "characters": {"vocabulary": "characters"},
    "words without a tokeniser": {"tokenizer": "none"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_each_vocabulary_are_those_of_python(blank, kind):
    config = DataConfig(train=pages.CORPUS, **KINDS[kind])
    codec = pages.codecs(config, size=400 if kind == "bytes" else 250)[0]
    codec_in(blank, codec, "en")
    repeated = [piece * n for piece in ("0", ".", "ha", "é") for n in range(2, 40)]
    # The sum of the words before a word decides between its segmentations that are equally likely.
    draw = random.Random(1)
    words = [letter * n for letter in "abestnlo" for n in range(1, 7)]
    sentences = [" ".join(draw.choices(words, k=draw.randint(2, 20))) for _ in range(400)]
    lines = [*texts(), *repeated, *sentences]
    found = blank.run(
        "(lines) => lines.map((line) => { const { ids, units } = codec.encode(line);"
        " const symbols = ids.slice(0, -1).map((id) => codec.vocabulary.symbol(id));"
        " return [ids, units, codec.write(symbols)]; })",
        lines,
    )
    for line, (ids, units, text) in zip(lines, found, strict=True):
        assert (ids, units) == (codec.encode(line), list(codec.units(line)))
        symbols = codec.tokens(codec.encode(line)[:-1])
        assert text == codec.write(symbols)


def test_bytes_that_make_no_character_are_written_as_in_python(blank):
    config = DataConfig(train=pages.CORPUS, **KINDS["bytes"])
    codec = pages.codecs(config, size=400)[0]
    codec_in(blank, codec, "en")
    pieces = [
        [f"<0x{byte:02X}>" for byte in data]
        for data in (b"\xe2\x82", b"\xe2\x82\xac", b"a\xff\xc3\xa9\xf0\x9f", b"\xed\xa0\x80")
    ]
    written = blank.run("(lines) => lines.map((tokens) => codec.write(tokens))", pieces)
    assert written == [codec.write(each) for each in pieces]
    assert written[0] == "\ufffd" * 2 and written[1] == "€"


def test_classes_of_characters_are_runs():
    runs = moses_tables.ranges("xabc")
    assert browser_text.character_class(runs) == r"\u{61}-\u{63}\u{78}"


def test_what_the_page_does_not_do_is_said():
    codecs = pages.codecs(DataConfig(train=pages.CORPUS))
    changed = dataclasses.replace(codecs[0].config, unescape=True, target_language="cs")
    codec = data.Codec(changed, codecs[0].tokenizer, codecs[0].vocabulary)
    assert browser_text.remarks(codecs) == []
    entities, detokenizer = browser_text.remarks((codec, codec))
    assert "entities" in entities and "detokeniser" in detokenizer
