"""Tokenisers and vocabularies of an exported folder, in plain Python, against the package's own."""

import codecs
import dataclasses
import importlib
import io
import itertools
import json
import random
import sys
import time

import pytest

from bahdanau_jax import data
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.tokens import codec, moses_tables
from bahdanau_jax.data.tokens.tokenizer import Moses
from bahdanau_jax.data.tokens.vocabulary import SentencePiece
from bahdanau_jax.export import folder, tokenizer_rules

LANGUAGES = ("en", "fr", "de", "it", "cs", "fi", "ga", "ko", "xx")
CHARACTERS = (
    " .,'\"`!?;:%$€£()[]{}<>-–—…&@#/\\0123456789abcdefsSABCDE’“”„«»éàçœßñ中文한국ひカ"
    "\t\xa0\u200b\u0300\u0661\U00020000_|*^~+=§°№𝟘▁"
)
WORDS = [
    "<unk>",
    "<UNK>",
    "No.",
    "Mr.",
    "U.S.",
    "e.g.",
    "L'",
    "aujourd'hui",
    "n't",
    "5,300",
    "a,b",
    "...",
    "..",
    "@-@",
    "THISISPROTECTED000",
    "DOTMULTI",
    "DOTDOTMULTI",
    "Jones'",
    "'s",
    "12",
    "p.m.",
    "pp.",
    "</s>",
    "www.x.org",
]


@pytest.fixture(scope="module")
def runtime():
    """Imports a file of the exported folder."""
    sys.path.append(str(folder.RUNTIME))
    yield importlib.import_module
    sys.path.remove(str(folder.RUNTIME))


def texts(seed: int, count: int, words=WORDS):
    rng = random.Random(seed)

    def part():
        if rng.random() < 0.4:
            return rng.choice(words)
        return "".join(rng.choices(CHARACTERS, k=rng.randint(1, 6)))

    yield ""
    for _ in range(count):
        yield rng.choice(["", " ", " "]).join(part() for _ in range(rng.randint(0, 12)))


def detokenized(tokenizer, text):
    """None where sacremoses fails: it does for some Czech words with a dash."""
    try:
        return tokenizer.detokenize(text)
    except TypeError:
        return None


@pytest.mark.parametrize("language", LANGUAGES)
def test_moses_rules(runtime, language):
    ours = runtime("moses").Moses(json.loads(json.dumps(tokenizer_rules.rules(language))))
    theirs = Moses(language)
    prefixes = [f"{word.split()[0]}." for word in theirs._tokenizer.NONBREAKING_PREFIXES]
    for text in texts(1, 400, [*WORDS, *prefixes]):
        tokenised = theirs.tokenize(text)
        assert ours.tokenize(text) == tokenised, text
        for line in (text, tokenised):
            expected = detokenized(theirs, line)
            assert expected is None or ours.detokenize(line) == expected, line


def test_ranges_of_characters():
    runs = moses_tables.ranges("zabc-]^")
    assert tokenizer_rules.character_class(runs) == r"\-\]-\^a-cz"


class Pipe(io.BytesIO):
    """Bytes that arrive in parts."""

    def __init__(self, parts):
        super().__init__()
        self.parts = iter(parts)

    def read1(self, size=-1):
        return next(self.parts, b"")


@pytest.mark.parametrize(
    ("parts", "windows"),
    [
        ([], []),
        ([b"a\nb", b"c", b"\n\n", b"d"], [["a"], ["bc", ""], ["d"]]),
        ([b"\xef", b"\xbb\xbfa\n\xef\xbb\xbfb\n"], [["a", "\ufeffb"]]),
        ([codecs.BOM_UTF8 + b"a"], [["a"]]),
        ([codecs.BOM_UTF8], [[""]]),
        ([b"a\r\n\x85\xff\x0c\n"], [["a\r", "\ufffd\ufffd\x0c"]]),
        ([b"a\n" * 1500, b"b\n"], [["a"] * 1024, ["a"] * 476, ["b"]]),
    ],
)
def test_windows_of_lines(runtime, parts, windows):
    assert list(runtime("text").windows(Pipe(parts), longest=4_000)) == windows


def test_little_more_of_a_line_is_kept_than_a_line_may_have(runtime):
    parts = [b"a\n", *[b"b" * 1_000] * 50, b"\nc\n"]
    (first,), (long, last) = runtime("text").windows(Pipe(parts), longest=4_000)
    assert (first, last) == ("a", "c") and 4_000 < len(long) <= 5_000 and set(long) == {"b"}


@pytest.fixture(scope="module")
def sentences():
    config = DataConfig(train="builtin:en-fr/train?pairs=500", dev="", test="")
    both = [side for pair in data.pairs(config.train, config) for side in pair]
    return [*both, *["日本語 の 中文 тест 🎉 ñandú"] * 3]


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pieces_of_words(runtime, sentences, kind, byte_fallback):
    config = dataclasses.replace(
        DataConfig(), vocabulary="sentencepiece", subwords=kind, byte_fallback=byte_fallback
    )
    theirs = SentencePiece.learn(iter(sentences), config, 700, "")
    ours = runtime("pieces").Pieces(theirs.to_bytes(), kind)
    rng = random.Random(2)
    for text in [*texts(3, 300), *rng.sample(sentences, 200)]:
        text = " ".join(text.split())
        assert ours.encode(text) == theirs.encode(text), text
        ids = [rng.randrange(1, len(theirs)) for _ in range(rng.randint(0, 12))]
        for line in (theirs.encode(text), ids):
            assert ours.decode(line).split() == theirs.decode(line).split(), line


@pytest.mark.parametrize("alphabet", ["ab", "aeionrst", "▁ab<unk>é"])
def test_bpe_merges_as_one_merge_after_another(runtime, sentences, alphabet):
    config = dataclasses.replace(DataConfig(), vocabulary="sentencepiece", subwords="bpe")
    theirs = SentencePiece.learn(iter(sentences), config, 700, "")
    ours, rng = runtime("pieces").Pieces(theirs.to_bytes(), "bpe"), random.Random(5)
    for scores in (ours.scores, {a + b: 1.0 for a in alphabet for b in alphabet}):
        ours.scores = scores
        for size in [*range(30)] * 5:
            word = "".join(rng.choices(alphabet, k=size))
            parts = list(word)
            while pairs := [
                (-scores[a + b], i)
                for i, (a, b) in enumerate(itertools.pairwise(parts))
                if a + b in scores
            ]:
                i = min(pairs)[1]
                parts[i : i + 2] = [parts[i] + parts[i + 1]]
            assert runtime("pieces")._merged(ours, word) == parts, word


def test_bpe_of_a_long_word_is_fast(runtime, sentences):
    """Comparing all pairs before each merge took 1.3 s for 3,000 characters, and minutes here."""
    config = dataclasses.replace(DataConfig(), vocabulary="sentencepiece", subwords="bpe")
    theirs = SentencePiece.learn(iter(sentences), config, 700, "")
    word = "".join(random.Random(6).choices("aeionrst", k=100_000))
    start = time.monotonic()
    assert runtime("pieces").Pieces(theirs.to_bytes(), "bpe").encode(word) == theirs.encode(word)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    "settings",
    [
        {"lowercase": True, "unescape": True, "unicode": "NFKC"},
        {"vocabulary": "characters", "tokenizer": "none"},
        {"vocabulary": "sentencepiece", "source_vocabulary_size": 300, "joint_vocabulary": True},
    ],
)
def test_the_codec_of_a_folder(runtime, tmp_path, sentences, settings):
    config = dataclasses.replace(DataConfig(source_language="fr"), **settings)
    pairs = [data.Pair(a, b) for a, b in zip(sentences[:-3:2], sentences[1:-3:2], strict=True)]
    codecs = codec.learn(config, pairs)
    codec.save(tmp_path / "vocabulary", codecs)
    folder._write_rules(config, tmp_path)
    for side, theirs in zip(("source", "target"), codecs, strict=True):
        ours = runtime("text").Codec(tmp_path, dataclasses.asdict(config), side)
        for text in [*texts(4, 200), "R&amp;D ﬁn"]:
            ids = theirs.encode(text)
            assert ours.encode(text) == ids, text
            begins = theirs.vocabulary.begins_word(ids[:-1])
            assert ours.begins_word(ids[:-1]) == begins, text
            for line in (ids, ids[:-1], [*ids, *ids]):
                assert ours.decode(line) == theirs.decode(line), line
