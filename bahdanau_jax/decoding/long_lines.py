"""Long lines: cut into pieces before the search, and joined after it."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from bahdanau_jax.batch import EOS, EOS_SYMBOL, UNK
from bahdanau_jax.data import Codec, unit_spans
from bahdanau_jax.decoding.ranking import Ranking
from bahdanau_jax.hypothesis import Hypothesis

LONGEST = 20_000  # tokens of a line; the attention weights of such a line take some GiB


class Prefix(NamedTuple):
    """The words that a translation begins with."""

    ids: list[int]
    tokens: tuple[str, ...]  # one for each id; for UNK, the user's own text

    @classmethod
    def of(cls, codec: Codec, text: str) -> Self:
        """The tokens of a prefix in ordinary text; none for an empty one."""
        if not text:
            return cls([], ())
        ids = codec.encode(text)[:-1]
        units = (text[slice(*span)] for span in unit_spans(codec, text))
        tokens = zip(ids, codec.tokens(ids), units, strict=True)
        return cls(ids, tuple(unit if id == UNK else token for id, token, unit in tokens))

    def written(self, codec: Codec, ids: Sequence[int]) -> tuple[str, tuple[str, ...]]:
        """Return (text, tokens) of a translation with this prefix; the tokens include EOS."""
        if UNK not in self.ids:
            return codec.decode(ids), codec.tokens(ids)
        tokens = (*self.tokens[: len(ids)], *codec.tokens(ids[len(self.ids) :]))
        return codec.write(tokens[: len(ids) - (ids[-1:] == [EOS])]), tokens


NO_PREFIX = Prefix([], ())


class Piece(NamedTuple):
    """One row of a search: a line, or a part of a long line."""

    ids: list[int]  # source ids, EOS last
    units: tuple[str, ...]  # the source tokens as written, EOS last
    prefix: Prefix
    draw: tuple[int, int]  # the number of its line, and its own number within the line


def cut(codec: Codec, line: str, most: int, prefix: Prefix, number: int) -> list[Piece]:
    """Cut a line into pieces of at most `most` tokens, EOS not counted; the first has the prefix.

    A token of the tokeniser is cut only if it is longer than a piece. A line above LONGEST tokens,
    or with a prefix above LONGEST tokens, has no piece.
    """
    tokenised = codec.tokenize(line)
    *words, eos = codec.encode_tokenised(tokenised)
    if max(len(words), len(prefix.ids)) > LONGEST:
        return []
    units = codec.vocabulary.units(tokenised)
    ends = [0, *_cuts(codec.vocabulary.begins_word(words), most), len(words)]
    return [
        Piece(
            [*words[start:end], eos],
            (*units[start:end], EOS_SYMBOL),
            prefix if part == 0 else NO_PREFIX,
            (number, part),
        )
        for part, (start, end) in enumerate(itertools.pairwise(ends))
    ]


def _cuts(begins_word: Sequence[bool], most: int) -> list[int]:
    """Return where parts of at most `most` tokens begin, except the first one.

    >>> _cuts([True, False, True, False, False, False], 3)
    [2, 5]
    """
    cuts, last = [], 0
    while last + most < len(begins_word):
        furthest = last + most
        last = next((i for i in range(furthest, last, -1) if begins_word[i]), furthest)
        cuts.append(last)
    return cuts


def join(parts: Sequence[Hypothesis], ranking: Ranking) -> Hypothesis:
    """Join the translations of a line's pieces; only the last EOS of each side remains.

    The score is that of the joined translation under `ranking`.
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
        seams=tuple(itertools.accumulate(rows[:-1])),
    )


def _heads(sequences, sizes: Sequence[int]) -> Iterator:
    """Chain the first entries of the sequences, as many of each as its size."""
    return itertools.chain.from_iterable(
        sequence[:size] for sequence, size in zip(sequences, sizes, strict=True)
    )
