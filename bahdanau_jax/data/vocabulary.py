"""Tokens to ids and back: whole words, characters, or pieces of words (sentencepiece).

Every vocabulary gives EOS and UNK the ids of batch.py. What the text itself says, even `</s>`,
never becomes EOS.
"""

import io
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Protocol, Self

from bahdanau_jax.batch import EOS, RESERVED, UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sampling import Draw, Pieces, sample_all

EOS_SYMBOL = "</s>"
UNK_SYMBOL = "<unk>"


class Vocabulary(Protocol):
    """Both directions between a tokenised sentence and its ids, without the closing EOS."""

    suffix: ClassVar[str]  # of its file

    @property
    def types(self) -> int | None:
        """Different units of the text that it was learned from, where it counts them."""
        ...

    def __len__(self) -> int: ...

    def units(self, tokenised: str) -> list[str]:
        """What each id stands for in this very sentence: unknown words as they were written."""
        ...

    def encode(self, tokenised: str) -> list[int]: ...

    def encode_all(self, sentences: Sequence[str], draw: Draw | None = None) -> list[list[int]]:
        """Many sentences; with `draw`, each in one of several ways."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The tokenised sentence up to the first EOS; UNK is written `<unk>`."""
        ...

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        """One symbol for each id, EOS among them, as `</s>`."""
        ...

    @classmethod
    def learn(cls, sentences: Iterable[str], config: DataConfig, size: int, field: str) -> Self:
        """At most `size` entries from tokenised sentences; an error names the setting `field`."""
        ...

    def to_bytes(self) -> bytes: ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises ValueError where the bytes are no such vocabulary."""
        ...


@dataclass(frozen=True)
class Words:
    """The most frequent words; equally frequent ones in the order of their code points.

    Its file has one entry a line: `</s>`, `<unk>`, then the words by falling frequency.

    >>> Words.learn(["a b a"], DataConfig(), 3, "").encode("a b")
    [2, 1]
    """

    entries: tuple[str, ...]
    types: int | None = field(default=None, compare=False)
    suffix: ClassVar[str] = ".txt"
    between: ClassVar[str] = " "

    def __post_init__(self):
        # The reserved symbols have no entry here: the same word in a text is an unknown one.
        words = {word: i for i, word in enumerate(self.entries) if i >= RESERVED}
        object.__setattr__(self, "_index", words)

    def __len__(self) -> int:
        return len(self.entries)

    def units(self, tokenised: str) -> list[str]:
        return self._split(tokenised)

    def encode(self, tokenised: str) -> list[int]:
        index: dict[str, int] = self._index  # type: ignore[attr-defined]
        return [index.get(unit, UNK) for unit in self._split(tokenised)]

    def encode_all(self, sentences: Sequence[str], draw: Draw | None = None) -> list[list[int]]:
        del draw  # there is one way to write a sentence in words
        return [self.encode(sentence) for sentence in sentences]

    def decode(self, ids: Sequence[int]) -> str:
        return self.between.join(self.entries[i] for i in _before_eos(ids))

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.entries[i] for i in ids)

    @classmethod
    def learn(cls, sentences: Iterable[str], config: DataConfig, size: int, field: str) -> Self:
        del config, field  # a text with fewer words is no fault
        counts = Counter()
        for sentence in sentences:
            counts.update(cls._split(sentence))
        for symbol in (EOS_SYMBOL, UNK_SYMBOL):
            counts.pop(symbol, None)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls((EOS_SYMBOL, UNK_SYMBOL, *ranked[: size - RESERVED]), len(ranked))

    def to_bytes(self) -> bytes:
        return "".join(f"{entry}\n" for entry in self.entries).encode("utf-8")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        *entries, end = data.decode("utf-8").split("\n")
        reserved = entries[:RESERVED] == [EOS_SYMBOL, UNK_SYMBOL]
        if end or not reserved or len(set(entries)) != len(entries):
            raise ValueError("it should be </s>, <unk> and different entries, one a line")
        return cls(tuple(entries))

    @staticmethod
    def _split(tokenised: str) -> list[str]:
        return tokenised.split(" ") if tokenised else []


class Characters(Words):
    """The most frequent characters of any script; a space between tokens is one of them."""

    between: ClassVar[str] = ""

    @staticmethod
    def _split(tokenised: str) -> list[str]:
        return list(tokenised)


class SentencePiece:
    """Pieces of words by byte-pair encoding (arXiv 1508.07909) or a unigram model (1804.10959),
    with the sentencepiece library.

    The text is taken as it is, without Unicode normalisation. The same text gives the same bytes.
    """

    suffix: ClassVar[str] = ".model"
    types: int | None = None

    def __init__(self, model: bytes):
        from sentencepiece import SentencePieceProcessor

        try:
            self._processor = SentencePieceProcessor(model_proto=model)
            ours = bool(model) and self._processor.eos_id() == EOS
        except RuntimeError as error:
            raise ValueError("it is no sentencepiece model") from error
        if not ours:
            raise ValueError("it is no sentencepiece model of this program")
        self._model = model

    def __reduce__(self):
        return SentencePiece, (self._model,)

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def units(self, tokenised: str) -> list[str]:
        return self._processor.encode(tokenised, out_type=str)

    def encode(self, tokenised: str) -> list[int]:
        return self._processor.encode(tokenised)

    def encode_all(self, sentences: Sequence[str], draw: Draw | None = None) -> list[list[int]]:
        if draw is not None:
            return sample_all(self.pieces(), sentences, draw)
        return self._processor.encode(list(sentences), num_threads=1)

    def pieces(self) -> Pieces:
        """The model as a table of what words can be cut into."""
        model, every = self._processor, range(len(self))
        plain = [i for i in every if not (model.is_control(i) or model.is_unknown(i))]
        written = {model.id_to_piece(i): i for i in plain if not model.is_byte(i)}
        return Pieces(
            ids=written,
            scores={piece: model.get_score(i) for piece, i in written.items()},
            bytes=[i for i in plain if model.is_byte(i)],
        )

    def decode(self, ids: Sequence[int]) -> str:
        return self._processor.decode([int(i) for i in _before_eos(ids)])

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._processor.id_to_piece([int(i) for i in ids]))

    @classmethod
    def learn(cls, sentences: Iterable[str], config: DataConfig, size: int, field: str) -> Self:
        from sentencepiece import SentencePieceTrainer

        sides = 2 if config.joint_vocabulary else 1
        model = io.BytesIO()
        try:
            SentencePieceTrainer.train(
                sentence_iterator=iter(_drawn(sentences, config.subword_sentences * sides)),
                model_writer=model,
                model_type=config.subwords,
                vocab_size=size,
                byte_fallback=config.byte_fallback,
                # Characters so rare that they are not worth an entry become bytes.
                character_coverage=0.9995 if config.byte_fallback else 1.0,
                eos_id=EOS,
                unk_id=UNK,
                bos_id=-1,
                pad_id=-1,
                unk_surface=UNK_SYMBOL,
                normalization_rule_name="identity",
                max_sentence_length=1 << 20,  # bytes; a longer line teaches nothing
                num_threads=1,  # the model's bytes depend on it
                minloglevel=2,
            )
        except RuntimeError as error:
            raise ValueError(_mend(str(error), size, field)) from error
        return cls(model.getvalue())

    def to_bytes(self) -> bytes:
        return self._model

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(data)


def _drawn(sentences: Iterable[str], most: int) -> list[str]:
    """Of more than `most` sentences so many, each as likely as any other; in order. 0: all."""
    if not most:
        return list(sentences)
    rng, sentences = random.Random(most), iter(sentences)
    kept = list(enumerate(itertools.islice(sentences, most)))
    for n, sentence in enumerate(sentences, start=most):
        # Of Python's random only what is made from random() stays the same in every version.
        if (place := int(rng.random() * (n + 1))) < most:
            kept[place] = (n, sentence)
    return [sentence for _, sentence in sorted(kept)]


def _mend(message: str, size: int, field: str) -> str:
    """What to do about the trainer's message."""
    if found := re.search(r"too high .* value <= (\d+)", message):
        return (
            f"{field} is {size}, but this text gives at most {found[1]} pieces: lower it to "
            f"{found[1]} or less"
        )
    if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"{field} is {size}, but the characters of this text alone need {found[1]}: raise it "
            f"to more than {found[1]}"
        )
    if "sentences_.empty()" in message:
        return "there is no text to learn pieces from: every line is empty"
    return f"sentencepiece cannot learn a vocabulary of {field} = {size}: {message}"


def _before_eos(ids: Sequence[int]) -> Sequence[int]:
    ids = list(ids)
    return ids[: ids.index(EOS)] if EOS in ids else ids


# Values of `data.vocabulary`.
VOCABULARIES: Mapping[str, type[Vocabulary]] = MappingProxyType(
    {"words": Words, "characters": Characters, "sentencepiece": SentencePiece}
)
