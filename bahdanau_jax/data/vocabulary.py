"""Tokens to ids and back: whole words, characters, or pieces of words (sentencepiece).

Every vocabulary gives EOS and UNK the ids of batch.py. What the text itself says, even `</s>`,
never becomes EOS.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol, Self

from bahdanau_jax.batch import EOS, RESERVED, UNK

EOS_SYMBOL = "</s>"
UNK_SYMBOL = "<unk>"


class Vocabulary(Protocol):
    """Both directions between a tokenised sentence and its ids, without the closing EOS."""

    suffix: ClassVar[str]  # of its file

    def __len__(self) -> int: ...

    def units(self, tokenised: str) -> list[str]:
        """What each id stands for in this very sentence: unknown words as they were written."""
        ...

    def encode(self, tokenised: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str:
        """The tokenised sentence up to the first EOS; UNK is written `<unk>`."""
        ...

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        """One symbol for each id, EOS among them, as `</s>`."""
        ...

    @classmethod
    def learn(cls, sentences: Iterable[str], size: int, field: str) -> Self:
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

    >>> Words.learn(["a b a"], 3, "").encode("a b")
    [2, 1]
    """

    entries: tuple[str, ...]
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

    def decode(self, ids: Sequence[int]) -> str:
        return self.between.join(self.entries[i] for i in _before_eos(ids))

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.entries[i] for i in ids)

    @classmethod
    def learn(cls, sentences: Iterable[str], size: int, field: str) -> Self:
        del field  # a text with fewer words is no fault
        counts = Counter()
        for sentence in sentences:
            counts.update(cls._split(sentence))
        for symbol in (EOS_SYMBOL, UNK_SYMBOL):
            counts.pop(symbol, None)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls((EOS_SYMBOL, UNK_SYMBOL, *ranked[: size - RESERVED]))

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
    """Pieces of words by byte-pair encoding (arXiv 1508.07909), with the sentencepiece library.

    The text is taken as it is, without Unicode normalisation. The same text gives the same bytes.
    """

    suffix: ClassVar[str] = ".model"

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

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def units(self, tokenised: str) -> list[str]:
        return self._processor.encode(tokenised, out_type=str)

    def encode(self, tokenised: str) -> list[int]:
        return self._processor.encode(tokenised)

    def decode(self, ids: Sequence[int]) -> str:
        return self._processor.decode([int(i) for i in _before_eos(ids)])

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._processor.id_to_piece([int(i) for i in ids]))

    @classmethod
    def learn(cls, sentences: Iterable[str], size: int, field: str) -> Self:
        from sentencepiece import SentencePieceTrainer

        model = io.BytesIO()
        try:
            SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                eos_id=EOS,
                unk_id=UNK,
                bos_id=-1,
                pad_id=-1,
                unk_surface=UNK_SYMBOL,
                character_coverage=1.0,
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
