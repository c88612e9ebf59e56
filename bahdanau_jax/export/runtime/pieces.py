"""Pieces of words: reads a sentencepiece model, segments text with it, and joins pieces, in Python.

The results are those of the library sentencepiece 0.2, without its normalisation of text.
"""

import functools
import heapq
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

EOS, UNK = 0, 1  # ids
SPACE = "▁"  # stands for a space, and begins every word
UNKNOWN = "<unk>"
NORMAL, BYTE = 1, 6  # types of pieces
LESS_THAN_ALL = 10.0  # the score of an unknown character lies this far below that of all pieces


class Pieces:
    """A vocabulary of pieces; `kind` is "bpe" or "unigram"."""

    def __init__(self, model: bytes, kind: str):
        entries = [_piece(value) for field, value in _fields(model) if field == 1]
        self.texts = [text for text, _, _ in entries]
        self.ids = {text: i for i, (text, _, type) in enumerate(entries) if type == NORMAL}
        self.scores = {text: score for text, score, type in entries if type == NORMAL}
        self.bytes = [i for i, (_, _, type) in enumerate(entries) if type == BYTE]
        self.longest = max(map(len, self.ids), default=1)
        self.unknown = np.float32(min(self.scores.values(), default=0.0)) - np.float32(
            LESS_THAN_ALL
        )
        self.segment = KINDS[kind]
        self.merged = functools.lru_cache(1 << 16)(functools.partial(_merged, self))

    def encode(self, tokenised: str) -> list[int]:
        """Ids without EOS. An unknown character becomes its bytes, or UNK with its neighbours."""
        if not tokenised:
            return []
        ids: list[int] = []
        for piece in self.segment(self, (SPACE + tokenised.replace(" ", SPACE)).rstrip(SPACE)):
            if piece in self.ids:
                ids.append(self.ids[piece])
            elif self.bytes:
                ids += [self.bytes[byte] for byte in piece.encode()]
            elif not ids or ids[-1] != UNK:
                ids.append(UNK)
        return ids

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        return [self.texts[i].startswith(SPACE) for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        text, data = "", b""
        for i in ids:
            if i in self.bytes:
                data += bytes([self.bytes.index(i)])
                continue
            text += _characters(data) + (UNKNOWN if i == UNK else self.texts[i])
            data = b""
        return (text + _characters(data)).replace(SPACE, " ")


def _bpe(pieces: Pieces, text: str) -> list[str]:
    """Merge pairs of pieces, the pair with the highest score first, in each word by itself."""
    return [
        piece for word in re.findall(f"{SPACE}[^{SPACE}]*", text) for piece in pieces.merged(word)
    ]


def _merged(pieces: Pieces, word: str) -> list[str]:
    """The pieces of a word. Of pairs with equal scores, the first is merged first."""
    parts = list(word)  # each at the place of its first character; "" elsewhere
    before = list(range(-1, len(word)))  # the place of the part before
    queue: list[tuple[float, int, str]] = []  # (-score, place, pair), also of pairs that are gone

    def add(i: int) -> None:
        """Queue the pair of the part at i and the next one."""
        j = i + len(parts[i])
        pair = parts[i] + parts[j] if i >= 0 and j < len(word) else ""
        if pair in pieces.scores:
            heapq.heappush(queue, (-pieces.scores[pair], i, pair))

    for i in range(len(word)):
        add(i)
    while queue:
        _, i, pair = heapq.heappop(queue)
        j = i + len(parts[i])
        if not parts[i] or j == len(word) or parts[i] + parts[j] != pair:
            continue
        parts[i : j + 1] = [pair, *[""] * (j - i)]
        before[i + len(pair)] = i
        add(before[i])
        add(i)
    return list(filter(None, parts))


def _unigram(pieces: Pieces, text: str) -> list[str]:
    """Return the segmentation with the highest sum of scores, by Viterbi's algorithm."""
    best = [(np.float32(0), 0)] + [(np.float32(-np.inf), -1)] * len(
        text
    )  # (sum, start of the last)
    for start in range(len(text)):
        so_far = best[start][0]
        for end in range(start + 1, min(start + pieces.longest, len(text)) + 1):
            score = pieces.scores.get(text[start:end])
            if score is None:
                if end > start + 1:
                    continue
                score = pieces.unknown
            total = np.float32(score) + so_far
            if total > best[end][0]:
                best[end] = total, start
    parts, end = [], len(text)
    while end:
        start = best[end][1]
        parts.append(text[start:end])
        end = start
    return parts[::-1]


KINDS: Mapping[str, Callable[[Pieces, str], list[str]]] = {"bpe": _bpe, "unigram": _unigram}


def _characters(utf8: bytes) -> str:
    """UTF-8 as text; each byte that belongs to no character becomes U+FFFD."""
    text = ""
    while utf8:
        size = next((n for n in range(1, 5) if _is_character(utf8[:n])), 0)
        text += utf8[:size].decode() if size else "\ufffd"
        utf8 = utf8[max(size, 1) :]
    return text


def _is_character(utf8: bytes) -> bool:
    try:
        return len(utf8.decode()) == 1
    except UnicodeDecodeError:
        return False


def _piece(message: bytes) -> tuple[str, float, int]:
    """(text, score, type) of a piece in a sentencepiece model."""
    fields = dict(_fields(message))
    (score,) = struct.unpack("<f", fields.get(2, bytes(4)))
    return fields[1].decode(), score, fields.get(3, NORMAL)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message of Protocol Buffers."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte, at = message[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
            continue
        size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
        at += size
        yield number, message[at - size : at]
