"""Some thousands of training pairs as ids, encoded in any process."""

import hashlib
import itertools
import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt64

from bahdanau_jax.batch import EOS
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources.addresses import Pair
from bahdanau_jax.data.tokens.cleaning import DROP_REASONS
from bahdanau_jax.data.tokens.subword_sampling import Draw
from bahdanau_jax.data.tokens.text_chunks import TextChunk
from bahdanau_jax.data.tokens.vocabulary import Vocabulary


class Encoded(NamedTuple):
    """The pairs of a text chunk as ids, without those that are dropped.

    Every pair has `data.encodings` consecutive rows; both sides of a row end in EOS.
    """

    corpus: int
    read: int  # pairs
    read_tokens: int  # on the source side of the pairs read, without EOS
    ids: tuple[Int[np.ndarray, " tokens"], Int[np.ndarray, " tokens"]]  # of all rows
    lengths: Int[np.ndarray, "rows 2"]  # with EOS
    words: Int[np.ndarray, "pairs 2"]  # tokens before the vocabulary
    digests: UInt64[np.ndarray, " pairs"]  # of the text; empty unless duplicates are dropped
    dropped: Counter  # by reason


def encode_record(
    config: DataConfig, vocabularies: tuple[Vocabulary, Vocabulary], record: bytes
) -> Encoded:
    """The ids of one of the `records` of a spool."""
    return encode(config, vocabularies, pickle.loads(record))


def encode(
    config: DataConfig, vocabularies: tuple[Vocabulary, Vocabulary], chunk: TextChunk
) -> Encoded:
    """Encode tokenised pairs in `data.encodings` ways; a pair is dropped with all its rows."""
    count, rate = config.encodings, config.subword_sampling

    def sampling(side: int, encoding: int) -> Draw | None:
        seed = (chunk.number * 2 + side) * count + encoding
        return Draw(config.subwords, rate, seed) if rate else None

    sides = [list(sentences) for sentences in zip(*chunk.pairs, strict=True)]
    rows = [
        _interleave([vocabulary.encode_all(sentences, sampling(side, i)) for i in range(count)])
        for side, (vocabulary, sentences) in enumerate(zip(vocabularies, sides, strict=True))
    ]
    return pack(config, chunk, rows)


def pack(config: DataConfig, chunk: TextChunk, rows: Sequence[Sequence[Sequence[int]]]) -> Encoded:
    """Pack the rows of ids of both sides, without EOS, into arrays; unfit pairs are dropped."""
    count = config.encodings
    lengths = np.array([[len(ids) for ids in side] for side in rows], np.int64).reshape(2, -1).T
    pairs = len(lengths) // count
    reason = np.full(pairs, "", object)
    for name, each in reversed([*DROP_REASONS.items()]):  # the first reason overwrites others
        reason[each.holds(config, lengths).reshape(pairs, count).any(1)] = name
    fit = reason == ""
    keep = np.repeat(fit, count)
    words = np.array([[side.count(" ") + bool(side) for side in pair] for pair in chunk.pairs])
    digests = _digests(chunk.pairs) if config.drop_duplicates else np.zeros(0, np.uint64)
    return Encoded(
        corpus=chunk.corpus,
        read=pairs,
        read_tokens=int(lengths[::count, 0].sum()),
        ids=tuple(_flat(side, keep) for side in rows),  # pyright: ignore[reportArgumentType]
        lengths=lengths[keep] + 1,
        words=words[fit],
        digests=digests[fit] if len(digests) else digests,
        dropped=Counter(reason[~fit].tolist()),
    )


def _interleave(encodings: list[list[list[int]]]) -> list[list[int]]:
    return [row for rows in zip(*encodings, strict=True) for row in rows]


def _flat(rows: Sequence[Sequence[int]], keep: np.ndarray) -> Int[np.ndarray, " tokens"]:
    ended = zip(itertools.compress(rows, keep), itertools.repeat((EOS,)), strict=False)
    parts = itertools.chain.from_iterable(ended)
    return np.fromiter(itertools.chain.from_iterable(parts), np.int32)


def _digests(pairs: Iterable[Pair]) -> UInt64[np.ndarray, " pairs"]:
    texts = ("\n".join(pair).encode() for pair in pairs)
    joined = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(joined, np.uint64)
