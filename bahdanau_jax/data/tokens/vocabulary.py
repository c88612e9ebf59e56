"""Conversion between tokens and ids: words, characters, or pieces of words (sentencepiece).

Every vocabulary gives EOS and UNK the ids of batch.py. No text, not even `</s>`, becomes EOS.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Protocol, Self

from bahdanau_jax.batch import EOS, EOS_SYMBOL, RESERVED, UNK, UNK_SYMBOL
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.tokens import subwords
from bahdanau_jax.data.tokens.subword_sampling import SPACE, Draw, Pieces, sample_all


class Vocabulary(Protocol):
    """Conversion between a tokenised sentence and its ids, without EOS at the end."""

    suffix: ClassVar[str]  # of its file

    @property
    def types(self) -> int | None:
        """Number of different units in the training text; None where they are not counted."""
        ...

    def __len__(self) -> int: ...

    def units(self, tokenised: str) -> list[str]:
        """The part of this sentence for each id, also for UNK."""
        ...

    def spans(self, tokenised: str) -> list[tuple[int, int]]:
        """(start, end) in `tokenised` of each unit; the bytes of a character share its span."""
        ...

    def encode(self, tokenised: str) -> list[int]:
        """The ids of a tokenised sentence, without EOS."""
        ...

    def ids(self, symbols: Sequence[str]) -> list[int]:
        """The ids of the symbols that `tokens` returns; UNK for any other, and for `</s>`."""
        ...

    def encode_all(self, sentences: Sequence[str], draw: Draw | None = None) -> list[list[int]]:
        """The ids of many sentences; with `draw`, of a random segmentation."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The tokenised sentence up to the first EOS; UNK becomes `<unk>`."""
        ...

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The symbol of each id, also of EOS, `</s>`."""
        ...

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        """Whether each id of a sentence begins a token of the tokeniser."""
        ...

    def write(self, symbols: Sequence[str]) -> str:
        """The tokenised sentence of symbols without EOS, some of which may be other text."""
        ...

    @classmethod
    def learn(cls, sentences: Iterable[str], config: DataConfig, size: int, field: str) -> Self:
        """Learn at most `size` entries from tokenised text; errors name the setting `field`."""
        ...

    def to_bytes(self) -> bytes:
        """The content of the vocabulary's file."""
        ...

    @classmethod
    def from_bytes(cls, data: bytes, types: int | None = None) -> Self:
        """What `to_bytes` wrote. Raises ValueError where the bytes are no such vocabulary."""
        ...


@dataclass(frozen=True)
class Words:
    """The most frequent words, with ties in the order of their code points.

    Its file has one entry a line: `</s>`, `<unk>`, then the words by falling frequency.

    >>> Words.learn(["a b a"], DataConfig(), 3, "").encode("a b")
    [2, 1]
    """

    entries: tuple[str, ...]
    types: int | None = field(default=None, compare=False)
    suffix: ClassVar[str] = ".txt"
    between: ClassVar[str] = " "

    def __post_init__(self):
        # Words of the text that equal a reserved symbol are unknown words.
        words = {word: i for i, word in enumerate(self.entries) if i >= RESERVED}
        object.__setattr__(self, "_index", words)

    def __len__(self) -> int:
        return len(self.entries)

    def units(self, tokenised: str) -> list[str]:
        return self._split(tokenised)

    def spans(self, tokenised: str) -> list[tuple[int, int]]:
        ends = itertools.accumulate(len(unit) + len(self.between) for unit in self.units(tokenised))
        starts = [0, *ends]
        return [(a, b - len(self.between)) for a, b in itertools.pairwise(starts)]

    def encode(self, tokenised: str) -> list[int]:
        return self.ids(self._split(tokenised))

    def ids(self, symbols: Sequence[str]) -> list[int]:
        index: dict[str, int] = self._index  # type: ignore[attr-defined]
        return list(map(index.get, symbols, itertools.repeat(UNK)))

    def encode_all(self, sentences: Sequence[str], draw: Draw | None = None) -> list[list[int]]:
        del draw  # words have a single segmentation
        return [self.encode(sentence) for sentence in sentences]

    def decode(self, ids: Sequence[int]) -> str:
        return self.write([self.entries[i] for i in _before_eos(ids)])

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.entries[i] for i in ids)

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        return [True] * len(ids)

    def write(self, symbols: Sequence[str]) -> str:
        return self.between.join(symbols)

    @classmethod
    def learn(cls, sentences: Iterable[str], config: DataConfig, size: int, field: str) -> Self:
        del config, field  # a text with fewer words is no error
        counts = Counter(itertools.chain.from_iterable(map(cls._split, sentences)))
        for symbol in (EOS_SYMBOL, UNK_SYMBOL):
            counts.pop(symbol, None)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls((EOS_SYMBOL, UNK_SYMBOL, *ranked[: size - RESERVED]), len(ranked))

    def to_bytes(self) -> bytes:
        return "".join(f"{entry}\n" for entry in self.entries).encode("utf-8")

    @classmethod
    def from_bytes(cls, data: bytes, types: int | None = None) -> Self:
        *entries, end = data.decode("utf-8").split("\n")
        reserved = entries[:RESERVED] == [EOS_SYMBOL, UNK_SYMBOL]
        if end or not reserved or len(set(entries)) != len(entries):
            raise ValueError("it should have </s>, <unk> and different entries, one in each line")
        return cls(tuple(entries), types)

    @staticmethod
    def _split(tokenised: str) -> list[str]:
        return tokenised.split(" ") if tokenised else []


class Characters(Words):
    """The most frequent characters of any script, including the space between tokens."""

    between: ClassVar[str] = ""

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        return [symbol == " " for symbol in (" ", *self.tokens(ids))[:-1]]

    @staticmethod
    def _split(tokenised: str) -> list[str]:
        return list(tokenised)


class SentencePiece:
    """Pieces of words from the sentencepiece library.

    They are learned by byte-pair encoding (arXiv 1508.07909) or as a unigram model (arXiv
    1804.10959), without Unicode normalisation. The same text gives the same bytes of the model.
    """

    suffix: ClassVar[str] = ".model"
    types: int | None = None

    def __init__(self, model: bytes):
        from sentencepiece import SentencePieceProcessor

        try:
            self._processor = SentencePieceProcessor(model_proto=model)
            has_our_ids = bool(model) and self._processor.eos_id() == EOS
        except RuntimeError as error:
            raise ValueError("it is not a sentencepiece model") from error
        if not has_our_ids:
            raise ValueError("it is not a sentencepiece model of this program")
        self._model = model

    def __reduce__(self):
        return SentencePiece, (self._model,)

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def units(self, tokenised: str) -> list[str]:
        return self._processor.encode(tokenised, out_type=str)

    def spans(self, tokenised: str) -> list[tuple[int, int]]:
        # A piece is a part of the text, in which ▁ stands for a space, or a single byte of it. The
        # text of the first piece begins with an additional ▁.
        spans, end, character = [], -1, b""
        for i, piece in zip(self.encode(tokenised), self.units(tokenised), strict=True):
            start, size = end, len(piece)
            if self._processor.is_byte(i):
                character += bytes([int(piece[1:-1], 16)])
                size = int(_is_character(character))
                character = b"" if size else character
            end = start + size
            spans.append((max(start, 0), max(end, start + 1)))
        return spans

    def encode(self, tokenised: str) -> list[int]:
        return self._processor.encode(tokenised)

    def ids(self, symbols: Sequence[str]) -> list[int]:
        ids = (self._processor.piece_to_id(symbol) for symbol in symbols)
        return [UNK if i == EOS else i for i in ids]

    def encode_all(self, sentences: Sequence[str], draw: Draw | None = None) -> list[list[int]]:
        if draw is not None:
            return sample_all(self.pieces(), sentences, draw)
        return self._processor.encode(list(sentences), num_threads=1)

    def pieces(self) -> Pieces:
        """The pieces of the model with ids and scores."""
        model = self._processor
        plain = [i for i in range(len(self)) if not (model.is_control(i) or model.is_unknown(i))]
        ids = {model.id_to_piece(i): i for i in plain if not model.is_byte(i)}
        return Pieces.of(
            ids=ids,
            scores={piece: model.get_score(i) for piece, i in ids.items()},
            byte_ids=[i for i in plain if model.is_byte(i)],
        )

    def decode(self, ids: Sequence[int]) -> str:
        return self._processor.decode([int(i) for i in _before_eos(ids)])

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._processor.id_to_piece([int(i) for i in ids]))

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        return [piece.startswith(SPACE) for piece in self.tokens(ids)]

    def write(self, symbols: Sequence[str]) -> str:
        return self._processor.decode(list(symbols))

    @classmethod
    def learn(cls, sentences: Iterable[str], config: DataConfig, size: int, field: str) -> Self:
        return cls(subwords.learn(sentences, config, size, field))

    def to_bytes(self) -> bytes:
        return self._model

    @classmethod
    def from_bytes(cls, data: bytes, types: int | None = None) -> Self:
        del types  # pieces are not counted
        return cls(data)


def _is_character(utf8: bytes) -> bool:
    try:
        return len(utf8.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


def _before_eos(ids: Sequence[int]) -> Sequence[int]:
    ids = list(ids)
    return ids[: ids.index(EOS)] if EOS in ids else ids


# Values of `data.vocabulary`.
VOCABULARIES: Mapping[str, type[Vocabulary]] = MappingProxyType(
    {"words": Words, "characters": Characters, "sentencepiece": SentencePiece}
)
