"""From settings to codecs and encoded training pairs, in a work folder that remembers both.

WORKDIR/vocabulary/      learned once
WORKDIR/store/KEY/       encoded once for each setting that shapes it
"""

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import codec, sources, store
from bahdanau_jax.data.codec import SIDES, Codec
from bahdanau_jax.data.sources import Pair
from bahdanau_jax.data.store import Store


class Prepared(NamedTuple):
    codecs: tuple[Codec, Codec]  # of the source and of the target
    train: Store
    dev: list[Pair]  # as text; empty where there is no such corpus
    test: list[Pair]
    statistics: dict[str, Any]  # see `prepare`


class _Spool:
    """Tokenised pairs on disk, so that the corpus is tokenised once and gone through often."""

    def __init__(self, file, pairs: Iterable[Pair]):
        self._file = file
        for pair in pairs:
            file.write("\n".join(pair) + "\n")

    def __iter__(self) -> Iterator[Pair]:
        self._file.seek(0)
        for source in self._file:
            yield Pair(source[:-1], self._file.readline()[:-1])


def prepare(config: DataConfig, workdir: Path) -> Prepared:
    """Learn or load the vocabularies, write or open the encoded training pairs, read dev and test.

    `statistics`: pairs `read`, `kept` and `dropped` (by reason); `tokens` and `unknown` a side,
    `unk_rate` = unknown / tokens, `vocabulary` = entries a side.

    Raises ValueError or OSError with one line for all that is wrong with the data or the folder.
    """
    workdir = Path(workdir)
    dev, test = (_read(spec, config) for spec in (config.dev, config.test))
    workdir.mkdir(parents=True, exist_ok=True)
    folder = workdir / "vocabulary"
    if folder.exists():
        codecs = codec.load(folder, config)
        train = _open_or_write(workdir, config, codecs, None)
    else:
        tokenised = codec.tokenize_pairs(config, sources.pairs(config.train, config))
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=workdir) as file:
            spool = _Spool(file, tokenised)
            codecs = codec.learn_tokenised(config, spool)
            train = _open_or_write(workdir, config, codecs, spool)
        codec.save(folder, codecs, config)
    return Prepared(codecs, train, dev, test, _statistics(codecs, train))


def _read(spec: str, config: DataConfig) -> list[Pair]:
    return list(sources.pairs(spec, config)) if spec else []


def _open_or_write(
    workdir: Path,
    config: DataConfig,
    codecs: tuple[Codec, Codec],
    tokenised: Iterable[Pair] | None,
) -> Store:
    folder = workdir / "store" / store.key(config, codecs)
    if folder.exists():
        return Store(folder)
    if tokenised is None:
        tokenised = codec.tokenize_pairs(config, sources.pairs(config.train, config))
    source, target = codecs
    encoded = (
        (source.encode_tokenised(pair.source), target.encode_tokenised(pair.target))
        for pair in tokenised
    )
    return store.write(folder, encoded, config.max_tokens)


def _statistics(codecs: tuple[Codec, Codec], train: Store) -> dict[str, Any]:
    counts = json.loads(json.dumps(train.statistics))  # a copy of one's own
    tokens, unknown = counts["tokens"], counts["unknown"]
    counts["unk_rate"] = {side: unknown[side] / tokens[side] for side in SIDES}
    counts["vocabulary"] = {
        side: len(one.vocabulary) for side, one in zip(SIDES, codecs, strict=True)
    }
    return counts
