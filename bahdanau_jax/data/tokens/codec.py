"""Conversion between the text of a side and ids, and the vocabulary folder that stores it."""

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bahdanau_jax.atomic import replaced_folder
from bahdanau_jax.batch import EOS, EOS_SYMBOL, SIDES
from bahdanau_jax.config import DataConfig, ModelConfig
from bahdanau_jax.data.sources.addresses import Pair
from bahdanau_jax.data.tokens.cleaning import clean
from bahdanau_jax.data.tokens.tokenizer import TOKENIZERS, Tokenizer
from bahdanau_jax.data.tokens.vocabulary import UNK_SYMBOL, VOCABULARIES, Vocabulary
from bahdanau_jax.names import choose
from bahdanau_jax.parsing import parse_json

# Settings of the conversion between text and tokens.
TEXT = (
    "source_language",
    "target_language",
    "unicode",
    "unescape",
    "tokenizer",
    "lowercase",
    "vocabulary",
)
# Settings that have to be the same when a vocabulary folder is learned and when it is loaded.
SETTINGS = (
    *TEXT,
    "source_vocabulary_size",
    "target_vocabulary_size",
    "joint_vocabulary",
    "subwords",
    "byte_fallback",
    "subword_sentences",
)
REMEDY = "train or copy the run again"  # where the folder of a vocabulary is damaged


@dataclass(frozen=True)
class Codec:
    """One side: ordinary text <-> ids.

    >>> codec.decode(codec.encode("The man sleeps."))
    'The man sleeps.'
    """

    config: DataConfig  # the settings that the text depends on
    tokenizer: Tokenizer  # text <-> tokens, for the language of this side
    vocabulary: Vocabulary  # tokens <-> ids

    @functools.cached_property
    def identity(self) -> tuple:
        """A value that is equal for codecs with the same conversion in both directions."""
        return tuple(getattr(self.config, name) for name in TEXT), self.vocabulary.to_bytes()

    def tokenize(self, text: str) -> str:
        """Clean and tokenise a sentence; convert it to lower case if so configured."""
        return tokenize(self.config, self.tokenizer, text)

    def encode(self, text: str) -> list[int]:
        """Ids of any text, EOS last. An empty text is EOS alone."""
        return self.encode_tokenised(self.tokenize(text))

    def encode_tokenised(self, tokenised: str) -> list[int]:
        """Ids of text that `tokenize` returned, EOS last."""
        return [*self.vocabulary.encode(tokenised), EOS]

    def ids(self, symbols: Sequence[str]) -> list[int]:
        """The ids of the symbols that `tokens` returns; UNK for any other, and for `</s>`."""
        return self.vocabulary.ids(symbols)

    def units(self, text: str) -> tuple[str, ...]:
        """The part of the tokenised text for each id of `encode(text)`, also for UNK."""
        return (*self.vocabulary.units(self.tokenize(text)), EOS_SYMBOL)

    def decode(self, ids: Sequence[int]) -> str:
        """Ordinary text of one line, up to the first EOS."""
        return self.tokenizer.detokenize(self.vocabulary.decode(ids))

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The symbol of each id; EOS is `</s>`, UNK is `<unk>`."""
        return self.vocabulary.tokens(ids)

    def write(self, symbols: Sequence[str]) -> str:
        """Ordinary text of symbols without EOS, some of which may be replaced by other text."""
        return self.tokenizer.detokenize(self.vocabulary.write(symbols))


def tokenize(config: DataConfig, tokenizer: Tokenizer, text: str) -> str:
    tokenised = tokenizer.tokenize(clean(config, text))
    # The tokeniser's rules depend on capitals, so lower case comes last.
    return tokenised.lower() if config.lowercase else tokenised


def tokenizers(config: DataConfig) -> tuple[Tokenizer, Tokenizer]:
    """The tokenisers of the source and of the target."""
    make = choose(TOKENIZERS, config.tokenizer, "data.tokenizer")
    return make(config.source_language), make(config.target_language)


def sentence_tokenizers(config: DataConfig) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """The functions that clean and tokenise a sentence of the source and of the target."""
    source, target = tokenizers(config)
    return functools.partial(tokenize, config, source), functools.partial(tokenize, config, target)


def tokenize_pairs(
    tokenizers: tuple[Callable[[str], str], Callable[[str], str]], pairs: Iterable[Pair]
) -> list[Pair]:
    source, target = tokenizers
    return [Pair(source(pair.source), target(pair.target)) for pair in pairs]


def learn(config: DataConfig, pairs: Iterable[Pair]) -> tuple[Codec, Codec]:
    """Learn both codecs from ordinary text."""
    return learn_tokenised(config, tokenize_pairs(sentence_tokenizers(config), pairs))


def learn_tokenised(config: DataConfig, tokenised: Iterable[Pair]) -> tuple[Codec, Codec]:
    """Learn both codecs from tokenised text, which is iterated over once for each vocabulary."""
    kind = choose(VOCABULARIES, config.vocabulary, "data.vocabulary")
    size, field = config.source_vocabulary_size, "data.source_vocabulary_size"
    if config.joint_vocabulary:
        joint = kind.learn(itertools.chain.from_iterable(tokenised), config, size, field)
        return _codecs(config, joint, joint)
    source = kind.learn((pair.source for pair in tokenised), config, size, field)
    size, field = config.target_vocabulary_size, "data.target_vocabulary_size"
    return _codecs(
        config, source, kind.learn((pair.target for pair in tokenised), config, size, field)
    )


def _codecs(config: DataConfig, source: Vocabulary, target: Vocabulary) -> tuple[Codec, Codec]:
    first, second = tokenizers(config)
    return Codec(config, first, source), Codec(config, second, target)


def save(folder: Path, codecs: tuple[Codec, Codec], learned_from: list | None = None) -> None:
    """Write source.*, target.* and settings.json with settings, digests and types of units.

    `learned_from` is the identity (`addresses.identity`) of the corpora; None if it is unknown.
    """
    with replaced_folder(folder) as new:
        sums = {}
        for side, codec in zip(SIDES, codecs, strict=True):
            data = codec.vocabulary.to_bytes()
            (new / f"{side}{codec.vocabulary.suffix}").write_bytes(data)
            sums[side] = hashlib.sha256(data).hexdigest()
        settings = {name: getattr(codecs[0].config, name) for name in SETTINGS}
        types = {side: codec.vocabulary.types for side, codec in zip(SIDES, codecs, strict=True)}
        record = {"settings": settings, "sha256": sums, "types": types}
        record["learned_from"] = learned_from
        text = json.dumps(record, indent=2)  # in ASCII: names of files may be no UTF-8
        (new / "settings.json").write_text(text + "\n", encoding="utf-8")


def save_words(folder: Path, words: tuple[list[str], list[str]], config: DataConfig) -> None:
    """Save vocabularies of the given words, after EOS and UNK. Raises ValueError for duplicates."""
    kind = VOCABULARIES["words"]
    vocabularies = []
    for side, entries in zip(SIDES, words, strict=True):
        text = "".join(f"{entry}\n" for entry in (EOS_SYMBOL, UNK_SYMBOL, *entries))
        try:
            vocabularies.append(kind.from_bytes(text.encode("utf-8")))
        except ValueError as error:
            raise ValueError(f"the {side} words cannot be a vocabulary: {error}") from error
    save(folder, _codecs(config, *vocabularies))


def load(folder: Path, config: DataConfig) -> tuple[Codec, Codec]:
    """Load both codecs from a folder that `save` wrote.

    Raises FileNotFoundError or ValueError where a file is missing or damaged, or where the folder
    was learned with other settings.
    """
    record = _record(folder)
    for name, sides in {"settings": (), "sha256": SIDES, "types": SIDES}.items():
        if not isinstance(part := record.get(name), dict) or not part.keys() >= {*sides}:
            raise ValueError(f"{folder}/settings.json is damaged: it has no {name}; {REMEDY}")
    settings = record["settings"]
    sums, types = ([record[name][side] for side in SIDES] for name in ("sha256", "types"))
    for name in SETTINGS:
        before, now = settings.get(name), getattr(config, name)
        if before != now:
            raise ValueError(
                f"{folder} was made with data.{name} = {before!r}, but it is now {now!r}: use "
                "another work folder or the old setting"
            )
    kind = choose(VOCABULARIES, config.vocabulary, "data.vocabulary")
    paths = [folder / f"{side}{kind.suffix}" for side in SIDES]

    source, target = map(_load, (kind, kind), paths, sums, types)
    return _codecs(config, source, target)


def check_sizes(codecs: Sequence[Codec], model: ModelConfig, where: str, remedy: str) -> None:
    """Raise ValueError where a vocabulary has more or fewer entries than the model has rows for it.

    The error begins with `where` vocabulary/ is, and ends with the `remedy`.
    """
    for side, codec in zip(SIDES, codecs, strict=True):
        rows, entries = getattr(model, f"{side}_vocabulary"), len(codec.vocabulary)
        if rows != entries:
            raise ValueError(
                f"{where}vocabulary/{side} has {entries} entries, but the model's {side} embedding "
                f"has {rows} rows: {remedy}"
            )


def learned_from(folder: Path) -> list | None:
    """The identity of the corpora that `folder` was learned from; None if it is unknown."""
    return _record(folder).get("learned_from")


def _record(folder: Path) -> dict:
    path = folder / "settings.json"
    try:
        record = parse_json(_read(path))
        if not isinstance(record, dict):
            raise ValueError("it should be an object")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}; {REMEDY}") from error
    return record


def _load(kind: type[Vocabulary], path: Path, expected: str, types: int | None) -> Vocabulary:
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != expected:
        raise ValueError(f"{path} is damaged: it is not the file that was saved; {REMEDY}")
    return kind.from_bytes(data, types)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"no file {path}: the vocabulary folder is incomplete, {REMEDY}"
        ) from error
