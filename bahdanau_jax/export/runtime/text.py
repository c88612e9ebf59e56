"""Lines of text to ids and back, as in the training of the model, in plain Python."""

import codecs
import html
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moses import Moses
from pieces import EOS, UNK, Pieces

RESERVED = 2  # the first id of an ordinary word; EOS and UNK come before it
WINDOW = 1024  # lines that are read at once
CHUNK = 1 << 20  # bytes that are read at once


def windows(stream: Any, longest: int) -> Iterator[list[str]]:
    """Yield at most WINDOW lines of a binary stream at a time, as soon as they arrive.

    A byte-order mark at the beginning is removed. Of a line above `longest` bytes, which the
    Translator leaves out, little more than these are kept.
    """
    pieces: list[bytes] = []  # of the line that has not ended
    mark = codecs.BOM_UTF8
    for chunk in iter(lambda: stream.read1(CHUNK), b""):
        head, *lines = chunk.split(b"\n")
        if sum(map(len, pieces)) <= longest + len(mark):
            pieces.append(head)
        if lines:
            lines, pieces = [b"".join(pieces), *lines[:-1]], lines[-1:]
            lines[0], mark = lines[0].removeprefix(mark), b""
            for at in range(0, len(lines), WINDOW):
                yield [line.decode("utf-8", "replace") for line in lines[at : at + WINDOW]]
    if last := b"".join(pieces):
        yield [last.removeprefix(mark).decode("utf-8", "replace")]


def parts(ids: Sequence[int], begins_word: Sequence[bool], most: int) -> Iterator[Sequence[int]]:
    """Cut the ids of a sentence into parts of at most `most`; a word is cut if it is longer."""
    at = 0
    while at < len(ids):
        end = furthest = at + most
        if furthest < len(ids):
            end = next((i for i in range(furthest, at, -1) if begins_word[i]), furthest)
        yield ids[at:end]
        at = end


class Whitespace:
    """Tokens are separated by spaces."""

    def tokenize(self, text: str) -> str:
        return " ".join(text.split())

    detokenize = tokenize


class Words:
    """A vocabulary of words, or of characters where `between` is empty."""

    def __init__(self, entries: Sequence[str], between: str):
        self.entries, self.between = entries, between
        self.ids = {word: i for i, word in enumerate(entries) if i >= RESERVED}

    def encode(self, tokenised: str) -> list[int]:
        words = tokenised.split(self.between) if self.between and tokenised else tokenised
        return [self.ids.get(word, UNK) for word in words]

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        before = (" ", *(self.entries[i] for i in ids))[:-1]
        return [bool(self.between) or symbol == " " for symbol in before]

    def decode(self, ids: Sequence[int]) -> str:
        return self.between.join(self.entries[i] for i in ids)


class Codec:
    """One side, "source" or "target", of a folder: ordinary text <-> ids."""

    def __init__(self, folder: Path, config: Mapping[str, Any], side: str):
        self.config, vocabulary = config, folder / "vocabulary"
        if config["tokenizer"] == "moses":
            rules = json.loads((folder / "moses.json").read_text(encoding="utf-8"))
            self.tokenizer = Moses(rules[side])
        else:
            self.tokenizer = Whitespace()
        if config["vocabulary"] == "sentencepiece":
            model = (vocabulary / f"{side}.model").read_bytes()
            self.vocabulary = Pieces(model, config["subwords"])
        else:
            text = (vocabulary / f"{side}.txt").read_bytes().decode("utf-8")
            between = " " if config["vocabulary"] == "words" else ""
            self.vocabulary = Words(text.split("\n")[:-1], between)

    def encode(self, text: str) -> list[int]:
        """Ids of any text, EOS last. An empty text is EOS alone."""
        if self.config["unescape"]:
            text = html.unescape(text)
        if self.config["unicode"] != "none":
            text = unicodedata.normalize(self.config["unicode"], text)
        text = self.tokenizer.tokenize(text)
        return [*self.vocabulary.encode(text.lower() if self.config["lowercase"] else text), EOS]

    def decode(self, ids: Sequence[int]) -> str:
        """Ordinary text of one line, up to the first EOS."""
        ids = list(ids)
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return self.tokenizer.detokenize(self.vocabulary.decode(ids))

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        """Whether each id of a sentence without EOS begins a token of the tokeniser."""
        return self.vocabulary.begins_word(ids)
