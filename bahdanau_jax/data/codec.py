"""From the text of one language to ids and back, and the vocabulary folder that keeps this."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bahdanau_jax.batch import EOS
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.folders import replacing
from bahdanau_jax.data.names import choose
from bahdanau_jax.data.sources import Pair
from bahdanau_jax.data.tokenizer import TOKENIZERS, Tokenizer
from bahdanau_jax.data.vocabulary import EOS_SYMBOL, VOCABULARIES, Vocabulary

SIDES = ("source", "target")
# Settings that a vocabulary folder was learned with, and is read with.
SETTINGS = (
    "source_language",
    "target_language",
    "tokenizer",
    "lowercase",
    "vocabulary",
    "source_vocabulary_size",
    "target_vocabulary_size",
    "joint_vocabulary",
)


@dataclass(frozen=True)
class Codec:
    """One side: ordinary text <-> ids.

    >>> codec.decode(codec.encode("The man sleeps."))
    'The man sleeps.'
    """

    language: str
    tokenizer: Tokenizer
    lowercase: bool
    vocabulary: Vocabulary

    def tokenize(self, text: str) -> str:
        """The tokenised sentence, in lower case where so configured."""
        return _tokenize(text, self.tokenizer, self.lowercase)

    def encode(self, text: str) -> list[int]:
        """Ids of any text, EOS last. An empty text is EOS alone."""
        return self.encode_tokenised(self.tokenize(text))

    def encode_tokenised(self, tokenised: str) -> list[int]:
        return [*self.vocabulary.encode(tokenised), EOS]

    def units(self, text: str) -> tuple[str, ...]:
        """What each id of `encode(text)` was written as: `tokens` without unknown ones."""
        return (*self.vocabulary.units(self.tokenize(text)), EOS_SYMBOL)

    def decode(self, ids: Sequence[int]) -> str:
        """Ordinary text of one line, up to the first EOS."""
        return self.tokenizer.detokenize(self.vocabulary.decode(ids))

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        """One symbol for each id; EOS is `</s>`, UNK `<unk>`."""
        return self.vocabulary.tokens(ids)


def _tokenize(text: str, tokenizer: Tokenizer, lowercase: bool) -> str:
    tokenised = tokenizer.tokenize(text)  # its rules look at capitals, so they come first
    return tokenised.lower() if lowercase else tokenised


def tokenizers(config: DataConfig) -> tuple[Tokenizer, Tokenizer]:
    make = choose(TOKENIZERS, config.tokenizer, "data.tokenizer")
    return make(config.source_language), make(config.target_language)


def tokenize_pairs(config: DataConfig, pairs: Iterable[Pair]) -> Iterable[Pair]:
    source, target = tokenizers(config)
    for pair in pairs:
        yield Pair(
            _tokenize(pair.source, source, config.lowercase),
            _tokenize(pair.target, target, config.lowercase),
        )


def learn(config: DataConfig, pairs: Iterable[Pair]) -> tuple[Codec, Codec]:
    """Both codecs from ordinary text."""
    return learn_tokenised(config, list(tokenize_pairs(config, pairs)))


def learn_tokenised(config: DataConfig, pairs: Iterable[Pair]) -> tuple[Codec, Codec]:
    """Both codecs from tokenised text, which is gone through once a side."""
    kind = choose(VOCABULARIES, config.vocabulary, "data.vocabulary")
    size, field = config.source_vocabulary_size, "data.source_vocabulary_size"
    if config.joint_vocabulary:
        joint = kind.learn(itertools.chain.from_iterable(pairs), size, field)
        return _codecs(config, joint, joint)
    source = kind.learn((pair.source for pair in pairs), size, field)
    size, field = config.target_vocabulary_size, "data.target_vocabulary_size"
    return _codecs(config, source, kind.learn((pair.target for pair in pairs), size, field))


def _codecs(config: DataConfig, source: Vocabulary, target: Vocabulary) -> tuple[Codec, Codec]:
    first, second = tokenizers(config)
    return (
        Codec(config.source_language, first, config.lowercase, source),
        Codec(config.target_language, second, config.lowercase, target),
    )


def save(folder: Path, codecs: tuple[Codec, Codec], config: DataConfig) -> None:
    """Write source.*, target.* and settings.json, which names the settings and the files' sums."""
    with replacing(folder) as new:
        sums = {}
        for side, codec in zip(SIDES, codecs, strict=True):
            data = codec.vocabulary.to_bytes()
            (new / f"{side}{codec.vocabulary.suffix}").write_bytes(data)
            sums[side] = hashlib.sha256(data).hexdigest()
        settings = {name: getattr(config, name) for name in SETTINGS}
        text = json.dumps({"settings": settings, "sha256": sums}, indent=2, ensure_ascii=False)
        (new / "settings.json").write_text(text + "\n", encoding="utf-8")


def load(folder: Path, config: DataConfig) -> tuple[Codec, Codec]:
    """What `save` wrote.

    Raises FileNotFoundError or ValueError where a file is missing or damaged, or where the folder
    was learned with other settings.
    """
    path = folder / "settings.json"
    try:
        record = json.loads(_read(path))
        settings, sums = record["settings"], [record["sha256"][side] for side in SIDES]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    for name in SETTINGS:
        if settings.get(name) != getattr(config, name):
            raise ValueError(
                f"{folder} was made with data.{name} = {settings.get(name)!r}, but it is now "
                f"{getattr(config, name)!r}: take another work folder or the old setting"
            )
    kind = choose(VOCABULARIES, config.vocabulary, "data.vocabulary")
    paths = [folder / f"{side}{kind.suffix}" for side in SIDES]
    source, target = (_load(kind, path, sum) for path, sum in zip(paths, sums, strict=True))
    return _codecs(config, source, target)


def _load(kind: type[Vocabulary], path: Path, expected: str) -> Vocabulary:
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != expected:
        raise ValueError(f"{path} is damaged: it is not the file that was saved")
    return kind.from_bytes(data)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"no file {path}: the vocabulary folder is incomplete, make the run again"
        ) from error
