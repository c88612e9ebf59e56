"""Tokenisers, vocabularies and codecs."""

import dataclasses
import gzip
import json
import os
import statistics
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bahdanau_jax.batch import EOS, RESERVED, UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources.addresses import Pair
from bahdanau_jax.data.tokens import codec, subwords
from bahdanau_jax.data.tokens.tokenizer import TOKENIZERS, Moses
from bahdanau_jax.data.tokens.vocabulary import VOCABULARIES, Characters, SentencePiece, Words

SCRIPTS = [
    "the man saw a dog .",
    "l' homme a vu un chien .",
    "我 爱 吃 苹果",
    "человек видел собаку",
    "الرجل رأى كلبا",
    "नमस्ते दुनिया",
    "cafe\u0301 naïve 👩‍👩‍👧 𝒳",
]
PAIRS = [
    Pair("The man's dog isn't here.", "Le chien de l'homme n'est pas ici."),
    Pair("I love to eat apples", "我爱吃苹果"),
    Pair("A dog, a man; a dog!", "Un chien, un homme ; un chien !"),
] * 20
HOSTILE = "a\x00b\x01\x1c\x85c\u2028d\u2029e\xa0f\u200bg\r\x0bh\t</s> <unk> DOTMULTI... &amp; | [i]"
CONFIGS = {
    "words": DataConfig(),
    "characters": DataConfig(vocabulary="characters"),
    "sentencepiece": DataConfig(
        vocabulary="sentencepiece", source_vocabulary_size=60, target_vocabulary_size=60
    ),
    "joint": DataConfig(
        vocabulary="sentencepiece", source_vocabulary_size=90, joint_vocabulary=True
    ),
    "none": DataConfig(tokenizer="none", lowercase=True),
}


@pytest.fixture(scope="module")
def codecs():
    return {name: codec.learn(config, PAIRS) for name, config in CONFIGS.items()}


# Tokenizers


def test_moses_english_and_french():
    assert Moses("en").tokenize("Mr. Smith's dog isn't here, is it?") == (
        "Mr. Smith 's dog isn 't here , is it ?"
    )
    assert Moses("fr").tokenize("L'homme n'a pas 3,5 %.") == "L' homme n' a pas 3,5 % ."


def test_moses_neither_escapes_nor_splits_hyphens_nor_lowers():
    assert Moses("en").tokenize("A well-known [&] | <b>") == "A well-known [ & ] | < b >"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The European Economic Area, it said, isn't large."),
        ("fr", "L'homme n'a pas vu la zone, aujourd'hui."),
        ("en", "AT&amp;T &lt;b&gt;"),
    ],
)
def test_moses_detokenize_undoes(language, text):
    moses = Moses(language)
    again = moses.detokenize(moses.tokenize(text))
    assert again.replace(" ", "") == text.replace(" ", "")
    if "&" not in text:
        assert again == text


def test_moses_detokenize_leaves_entities_alone():
    assert Moses("en").detokenize("a &amp; b &quot;") == "a &amp; b &quot;"


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=st.text())
@example(HOSTILE)
@example("")
@example(" \n ")
@settings(max_examples=150, deadline=None)
def test_any_text_becomes_one_line_of_tokens(name, text):
    tokenizer = TOKENIZERS[name]("en")
    tokenised = tokenizer.tokenize(text)
    assert tokenised == " ".join(tokenised.split())
    plain = tokenizer.detokenize(tokenised)
    assert len(plain.splitlines()) <= 1


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("word", ["word ", "a,", ".", "'", "&amp;", "我", "Mr. "])
def test_a_line_four_times_as_long_takes_about_four_times_as_long(name, word):
    tokenizer = TOKENIZERS[name]("en")

    def seconds(words: int) -> float:
        start = time.process_time()
        tokenizer.detokenize(tokenizer.tokenize(word * words))
        return time.process_time() - start

    short, long = ([seconds(words) for _ in range(3)] for words in (2_500, 10_000))
    assert statistics.median(long) < 8 * statistics.median(short) + 0.005


# Vocabularies


def test_words_by_frequency_then_by_code_point():
    words = Words.learn(["b a c", "c z", "c b é"], DataConfig(), 7, "")
    assert words.entries == ("</s>", "<unk>", "c", "b", "a", "z", "é")
    assert Words.learn(["b a c", "c z", "c b é"], DataConfig(), 4, "").entries[RESERVED:] == (
        "c",
        "b",
    )
    assert words.encode("c q a") == [2, UNK, 4]
    assert words.decode([2, UNK, 4, EOS, 3]) == "c <unk> a"
    assert words.tokens([2, UNK, EOS]) == ("c", "<unk>", "</s>")
    assert words.units("c q") == ["c", "q"]


def test_a_space_is_a_character():
    characters = Characters.learn(["ab a", "a b"], DataConfig(), 100, "")
    assert characters.entries == ("</s>", "<unk>", "a", " ", "b")
    assert characters.decode(characters.encode("b ab")) == "b ab"


@pytest.mark.parametrize(
    ("name", "size", "back"),
    [
        ("words", 100, "<unk> a <unk> b <unk> <s>"),
        ("characters", 100, "</s> a <unk> b </s> <s>"),
        ("sentencepiece", 11, None),  # its trainer does not learn from its own symbols
    ],
)
def test_text_never_becomes_a_reserved_id(name, size, back):
    sentence = "</s> a <unk> b </s> <s>"
    vocabulary = VOCABULARIES[name].learn([sentence] * 5, DataConfig(), size, "")
    assert vocabulary.tokens([EOS, UNK]) == ("</s>", "<unk>")
    ids = vocabulary.encode(sentence)
    assert ids and EOS not in ids
    assert back is None or vocabulary.decode(ids) == back


@pytest.mark.parametrize("name", VOCABULARIES)
def test_round_trip_in_any_script(name):
    size = 200 if name == "sentencepiece" else 1_000
    if name == "sentencepiece":
        with pytest.raises(ValueError) as caught:
            SentencePiece.learn(SCRIPTS, DataConfig(), 10_000, "size")
        size = int(str(caught.value).split()[-3])
    vocabulary = VOCABULARIES[name].learn(SCRIPTS, DataConfig(), size, "size")
    for sentence in SCRIPTS:
        ids = vocabulary.encode(sentence)
        assert UNK not in ids
        assert vocabulary.decode([*ids, EOS, 5, 5]) == sentence
        assert len(vocabulary.tokens(ids)) == len(vocabulary.units(sentence)) == len(ids)
        # A piece that begins a word has the space before it.
        starts = zip(vocabulary.spans(sentence), vocabulary.begins_word(ids), strict=True)
        words = [sentence[: start + 1].count(" ") for (start, _), begins in starts if begins]
        assert words == [*range(sentence.count(" ") + 1)]
    again = type(vocabulary).from_bytes(vocabulary.to_bytes())
    assert len(again) == len(vocabulary)
    assert [again.encode(s) for s in SCRIPTS] == [vocabulary.encode(s) for s in SCRIPTS]


@pytest.mark.parametrize("name", ["words", "characters"])
@given(texts=st.lists(st.text(), min_size=1))
@example([HOSTILE])
@settings(max_examples=100, deadline=None)
def test_any_tokenised_text_round_trips(name, texts):
    """Every symbol except the reserved ones has its own id, also after a file was read."""
    sentences = [" ".join(text.split()) for text in texts]
    vocabulary = VOCABULARIES[name].learn(sentences, DataConfig(), 1 << 20, "")
    vocabulary = VOCABULARIES[name].from_bytes(vocabulary.to_bytes())
    for sentence in sentences:
        ids = vocabulary.encode(sentence)
        assert vocabulary.ids(vocabulary.tokens(ids)) == ids
        back = vocabulary.decode(ids)
        if name == "words":  # a word that reads like EOS is an unknown one
            sentence = " ".join("<unk>" if w == "</s>" else w for w in sentence.split(" "))
        assert back == sentence


@given(text=st.text())
@example(HOSTILE)
@settings(max_examples=150, deadline=None)
def test_sentencepiece_takes_any_text(codecs, text):
    for one in codecs["sentencepiece"]:
        ids = one.encode(text)
        assert ids[-1] == EOS and EOS not in ids[:-1]
        assert all(0 <= i < len(one.vocabulary) for i in ids)
        assert one.ids(one.tokens(ids[:-1])) == ids[:-1]
        assert "\n" not in one.decode(ids)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_symbol_of_no_word_is_unknown(codecs, name):
    for one in codecs[name]:
        assert one.ids(["</s>", "<unk>", "no such symbol"]) == [UNK] * 3


@pytest.mark.parametrize(
    "text", ["Un <unk> dort.", "L'<unk>, l'autre <unk>.", "<unk>", "<unk> <unk> !"]
)
def test_what_was_written_for_an_unknown_word_is_one_token(text):
    moses = Moses("fr")
    tokenised = moses.tokenize(text)
    again = moses.tokenize(moses.detokenize(tokenised))
    for tokens in (tokenised.split(), again.split()):
        assert tokens.count("<unk>") == text.count("<unk>")
        assert not {"<", "unk", ">"} & set(tokens)


def test_a_sample_of_sentences_is_uniform_in_their_order_and_always_the_same():
    tenths = Counter()
    for most in range(50, 150):
        found = subwords._sample(iter(range(1_000)), most)
        assert len(found) == most and found == sorted({*found})
        assert found == subwords._sample(iter(range(1_000)), most)
        tenths.update(n // 100 for n in found)
    assert all(900 < tenths[i] < 1_100 for i in range(10))  # of 9,950
    # The last sentence is not always taken.
    assert any(subwords._sample(range(n + 1), n) == [*range(n)] for n in range(1, 200))


@pytest.mark.parametrize("most", [0, 7, 8])
def test_a_sample_that_has_room_for_all_sentences_has_all(most):
    assert subwords._sample(iter("abcdefg"), most) == [*"abcdefg"]


def test_sentencepiece_is_the_same_to_the_byte():
    text = ["the man saw a dog", "a dog saw the man"] * 10
    first, second = (SentencePiece.learn(iter(text), DataConfig(), 25, "") for _ in range(2))
    assert first.to_bytes() == second.to_bytes()


def test_sentencepiece_writes_unknown_characters_as_unknown():
    pieces = SentencePiece.learn(["a man a man", "the man"] * 9, DataConfig(), 12, "")
    ids = pieces.encode("ma☃n ☃")
    assert ids.count(UNK) == 2
    assert pieces.decode(ids) == "ma<unk>n <unk>"
    assert "☃" in pieces.units("ma☃n")


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (5_000, "data.target_vocabulary_size is 5000, but .* at most 38 pieces: lower it to 38"),
        (4, "data.target_vocabulary_size is 4, but the characters .* need 1[0-9]: raise it"),
    ],
)
def test_an_impossible_sentencepiece_size(size, message):
    config = dataclasses.replace(
        CONFIGS["sentencepiece"], source_vocabulary_size=15, target_vocabulary_size=size
    )
    text = "the man saw a dog ."
    with pytest.raises(ValueError, match=message) as caught:
        codec.learn(config, [Pair(text, text)] * 20)
    assert "\n" not in str(caught.value)


def test_the_largest_size_named_is_possible():
    with pytest.raises(ValueError, match="at most 38 pieces"):
        SentencePiece.learn(["the man saw a dog ."] * 20, DataConfig(), 39, "size")
    assert len(SentencePiece.learn(["the man saw a dog ."] * 20, DataConfig(), 38, "size")) == 38


def test_sentencepiece_without_text():
    with pytest.raises(ValueError, match="every line is empty"):
        SentencePiece.learn(["", ""], DataConfig(), 30, "size")


# Codecs


@pytest.mark.parametrize("name", CONFIGS)
def test_codecs_give_the_text_back(codecs, name):
    for side, one in enumerate(codecs[name]):
        for pair in PAIRS[:3]:
            ids = one.encode(pair[side])
            assert ids[-1] == EOS and UNK not in ids
            expected = pair[side].lower() if CONFIGS[name].lowercase else pair[side]
            assert one.decode(ids) == expected
            assert one.tokens(ids)[-1] == "</s>"
            assert len(one.units(pair[side])) == len(ids)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("text", ["", " \t\n", "\u2028", HOSTILE, "word " * 10_000])
def test_codecs_take_hostile_text(codecs, name, text):
    one = codecs[name][0]
    ids = one.encode(text)
    assert ids[-1] == EOS and EOS not in ids[:-1]
    assert len(one.decode(ids).splitlines()) <= 1
    if not text.strip():
        assert ids == [EOS]


def test_a_joint_vocabulary_is_one(codecs):
    source, target = codecs["joint"]
    assert source.vocabulary is target.vocabulary
    assert codecs["words"][0].vocabulary != codecs["words"][1].vocabulary


def test_the_rules_see_capitals_before_they_go():
    config = DataConfig(lowercase=True)
    source, _ = codec.learn(config, [Pair("x", "x")])
    assert source.tokenize("Gen. 12 left") == "gen. 12 left"
    assert source.tokenize("gen. 12 left") == "gen . 12 left"


@pytest.mark.parametrize("name", CONFIGS)
def test_save_and_load(codecs, tmp_path, name):
    config = CONFIGS[name]
    codec.save(tmp_path / "vocabulary", codecs[name])
    for before, after in zip(
        codecs[name], codec.load(tmp_path / "vocabulary", config), strict=True
    ):
        assert after.vocabulary.to_bytes() == before.vocabulary.to_bytes()
        for text in (*map(" ".join, PAIRS[:3]), HOSTILE):
            assert after.encode(text) == before.encode(text)
    assert {p.name for p in tmp_path.iterdir()} == {"vocabulary"}


def test_a_words_file_has_one_entry_a_line(codecs, tmp_path):
    codec.save(tmp_path, codecs["words"])
    entries = (tmp_path / "source.txt").read_text("utf-8").split("\n")
    assert entries[:2] == ["</s>", "<unk>"] and entries[-1] == ""
    assert len(entries) - 1 == len(codecs["words"][0].vocabulary)


@pytest.mark.parametrize("name", ["words", "sentencepiece"])
@pytest.mark.parametrize("file", ["source", "target", "settings"])
@pytest.mark.parametrize("harm", ["missing", "cut", "empty", "flipped"])
def test_missing_or_damaged_files(codecs, tmp_path, name, file, harm):
    codec.save(tmp_path, codecs[name])
    (path,) = tmp_path.glob(f"{file}.*")
    data = path.read_bytes()
    kind, message = ValueError, f"{file}.* is damaged"
    if harm == "missing":
        path.unlink()
        kind, message = FileNotFoundError, f"no file .*{file}"
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 128]) + data[middle + 1 :]
        path.write_bytes({"cut": data[:-9], "empty": b"", "flipped": flipped}[harm])
    with pytest.raises(kind, match=message) as caught:
        codec.load(tmp_path, CONFIGS[name])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", [[], "words", None])
def test_settings_that_are_no_table(codecs, tmp_path, settings):
    codec.save(tmp_path, codecs["words"])
    record = json.loads((tmp_path / "settings.json").read_text())
    (tmp_path / "settings.json").write_text(json.dumps(record | {"settings": settings}))
    with pytest.raises(ValueError, match="settings.json is damaged: it has no settings"):
        codec.load(tmp_path, CONFIGS["words"])


def test_a_folder_of_other_settings(codecs, tmp_path):
    codec.save(tmp_path, codecs["words"])
    with pytest.raises(ValueError, match="data.lowercase = False, but it is now True"):
        codec.load(tmp_path, DataConfig(lowercase=True))
    codec.load(tmp_path, DataConfig(train="text:other.en,other.fr", batch_size=7))


def test_entries_that_are_no_vocabulary():
    for data in (b"a\nb\n", b"</s>\n<unk>\na\na\n", b"</s>\n<unk>\na", b""):
        with pytest.raises(ValueError, match="different entries, one in each line"):
            Words.from_bytes(data)
    for data in (b"", b"no model"):
        with pytest.raises(ValueError, match="not a sentencepiece model"):
            SentencePiece.from_bytes(data)


@pytest.mark.parametrize("field", ["tokenizer", "vocabulary"])
def test_unknown_names(field):
    with pytest.raises(ValueError, match=f"no data.{field} 'wrods'; known: "):
        codec.learn(DataConfig(**{field: "wrods"}), PAIRS)


def test_settings_are_readable(codecs, tmp_path):
    codec.save(tmp_path, codecs["words"])
    record = json.loads((tmp_path / "settings.json").read_text("utf-8"))
    assert record["settings"]["vocabulary"] == "words"


@pytest.mark.parametrize("language", ["en", "fr"])
def test_real_captions_come_back(language):
    """Moses loses almost nothing but the spaces of unusual punctuation."""
    path = Path(os.environ.get("BAHDANAU_DATA", "data")) / f"multi30k/val.{language}.gz"
    if not path.exists():
        pytest.skip("Multi30k is not in BAHDANAU_DATA")
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        captions = [line.rstrip("\n") for line in file]
    moses = Moses(language)
    back = [moses.detokenize(moses.tokenize(caption)) for caption in captions]
    same = sum(a == b.strip() for a, b in zip(back, captions, strict=True))
    assert same > 0.9 * len(captions)
