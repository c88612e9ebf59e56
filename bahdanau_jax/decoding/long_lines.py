"""Lines cut into what is searched at once, and the parts of a long line put together again."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from bahdanau_jax.batch import EOS, UNK
from bahdanau_jax.data import EOS_SYMBOL, Codec, unit_spans
from bahdanau_jax.decoding.ranking import Ranking
from bahdanau_jax.hypothesis import Hypothesis

LONGEST = 20_000  # tokens of a line that is translated: its weights are a matrix of some GiB


class Prefix(NamedTuple):
    """What a translation begins with."""

    ids: list[int]
    tokens: tuple[str, ...]  # of the ids; of an unknown one, the text as it was given

    @classmethod
    def of(cls, codec: Codec, text: str) -> Self:
        if not text:  # of most lines
            return cls([], ())
        ids = codec.encode(text)[:-1]
        given = (text[slice(*span)] for span in unit_spans(codec, text))
        tokens = zip(ids, codec.tokens(ids), given, strict=True)
        return cls(ids, tuple(word if id == UNK else token for id, token, word in tokens))

    def written(self, codec: Codec, ids: Sequence[int]) -> tuple[str, tuple[str, ...]]:
        """(text, tokens) of a translation that begins so, EOS last where it has ended."""
        if UNK not in self.ids:
            return codec.decode(ids), codec.tokens(ids)
        tokens = (*self.tokens[: len(ids)], *codec.tokens(ids[len(self.ids) :]))
        return codec.write(tokens[: len(ids) - (ids[-1:] == [EOS])]), tokens


NO_PREFIX = Prefix([], ())


class Piece(NamedTuple):
    """What is searched at once: a line, or a part of one that is too long."""

    ids: list[int]  # source ids, EOS last
    units: tuple[str, ...]  # the source tokens as they were written, EOS last
    prefix: Prefix
    draw: tuple[int, int]  # the number of its line, and of the piece in it


def cut(codec: Codec, line: str, most: int, prefix: Prefix, number: int) -> list[Piece]:
    """The line as pieces of at most `most` tokens, EOS not counted; the prefix is the first's.

    A line above LONGEST tokens, or with such a prefix, has no piece.
    """
    tokenised = codec.tokenize(line)
    *words, eos = codec.encode_tokenised(tokenised)
    if max(len(words), len(prefix.ids)) > LONGEST:
        return []
    units = codec.vocabulary.units(tokenised)
    return [
        Piece(
            [*words[i : i + most], eos],
            (*units[i : i + most], EOS_SYMBOL),
            prefix if i == 0 else NO_PREFIX,
            (number, part),
        )
        for part, i in enumerate(range(0, max(len(words), 1), most))
    ]


def join(parts: Sequence[Hypothesis], ranking: Ranking) -> Hypothesis:
    """The translations of the pieces of a line as one; only the last EOS of each side is kept.

    The score is that of what remains, on the scale of `ranking`.
    """
    *heads, tail = parts
    rows = [len(h.tokens) - h.finished for h in heads] + [len(tail.tokens)]
    columns = [len(h.source_tokens) - 1 for h in heads] + [len(tail.source_tokens)]
    alpha = np.zeros((sum(rows), sum(columns)), np.float32)
    i = j = 0
    for part, height, width in zip(parts, rows, columns, strict=True):
        alpha[i : i + height, j : j + width] = part.alpha[:height, :width]
        i, j = i + height, j + width
    log_p = tuple(_heads((part.log_probabilities for part in parts), rows))
    return Hypothesis(
        text=" ".join(part.text for part in parts if part.text),
        tokens=tuple(_heads((part.tokens for part in parts), rows)),
        log_probabilities=log_p,
        score=ranking.score(np.array(log_p, np.float32), alpha),
        finished=all(part.finished for part in parts),
        source_tokens=tuple(_heads((part.source_tokens for part in parts), columns)),
        alpha=alpha,
    )


def _heads(sequences, sizes: Sequence[int]) -> Iterator:
    """The first so many entries of each, one after the other."""
    return itertools.chain.from_iterable(
        sequence[:size] for sequence, size in zip(sequences, sizes, strict=True)
    )
