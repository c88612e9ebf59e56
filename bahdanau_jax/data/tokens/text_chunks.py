"""Training text in chunks of some thousands of pairs: read, tokenised in any process, spooled."""

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, NamedTuple

from bahdanau_jax.data.sources.addresses import OpenCorpus, Pair
from bahdanau_jax.data.tokens import codec

SIZE = 2_500  # pairs; sampled encodings depend on it


class TextChunk(NamedTuple):
    """Consecutive pairs of one corpus."""

    corpus: int  # position of the corpus in `data.train`
    number: int  # of the chunk
    pairs: list[Pair]


def read(opened: Iterable[OpenCorpus]) -> Iterator[TextChunk]:
    """The training pairs as they were written, corpus after corpus."""
    number = itertools.count()
    for corpus, pairs in enumerate([corpus.pairs() for corpus in opened]):
        while batch := list(itertools.islice(pairs, SIZE)):
            yield TextChunk(corpus, next(number), batch)


def tokenize(
    tokenizers: tuple[Callable[[str], str], Callable[[str], str]], chunk: TextChunk
) -> TextChunk:
    """The same chunk with tokenised sentences."""
    return chunk._replace(pairs=codec.tokenize_pairs(tokenizers, chunk.pairs))


class Spool:
    """Tokenised chunks in a file: the corpus is tokenised once and read several times."""

    def __init__(self, file: BinaryIO, chunks: Iterator[TextChunk], begin: Callable[[], object]):
        self._file, self._chunks, self._begin = file, chunks, begin
        self._sizes: list[int] = []  # bytes of each chunk

    def fill(self) -> None:
        """Call `begin` and write all chunks, unless that was done before."""
        if self._sizes:
            return
        self._begin()
        for chunk in self._chunks:
            record = pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)
            self._file.write(record)
            self._sizes.append(len(record))

    def records(self) -> Iterator[bytes]:
        """The pickled chunks, which another process can unpickle."""
        self._file.seek(0)
        return map(self._file.read, self._sizes)

    def __iter__(self) -> Iterator[Pair]:
        """All pairs."""
        return (pair for record in self.records() for pair in pickle.loads(record).pairs)
