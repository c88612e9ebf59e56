"""From settings to codecs and encoded training pairs, in a work folder that remembers both.

WORKDIR/vocabulary/      learned once
WORKDIR/store/KEY/       encoded once for each setting that shapes it
"""

import functools
import logging
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources import addresses
from bahdanau_jax.data.sources.addresses import Pair
from bahdanau_jax.data.store import chunks, store
from bahdanau_jax.data.store.chunks import Text
from bahdanau_jax.data.store.store import Store
from bahdanau_jax.data.store.workers import mapped
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.data.tokens.codec import SIDES, Codec
from bahdanau_jax.reporting import SILENT

log = logging.getLogger(__name__)


class Prepared(NamedTuple):
    codecs: tuple[Codec, Codec]  # of the source and of the target
    train: Store
    dev: list[Pair]  # as text; empty where there is no such corpus
    test: list[Pair]
    statistics: dict[str, Any]  # see `prepare`


class _Spool:
    """Tokenised chunks on disk, so that the corpus is tokenised once and gone through often."""

    def __init__(self, file, texts: Iterable[Text]):
        self._file, self._sizes = file, []
        for text in texts:
            record = pickle.dumps(text, pickle.HIGHEST_PROTOCOL)
            file.write(record)
            self._sizes.append(len(record))

    def records(self) -> Iterator[bytes]:
        """The chunks as they lie there, for whoever unpickles them elsewhere."""
        self._file.seek(0)
        return map(self._file.read, self._sizes)

    def __iter__(self) -> Iterator[Pair]:
        """All pairs."""
        return (pair for record in self.records() for pair in pickle.loads(record).pairs)


def prepare(
    config: DataConfig,
    workdir: Path,
    stage: Callable[[str], object] = SILENT.stage,
    trained: bool = False,
    mend: bool = True,
) -> Prepared:
    """Learn or load the vocabularies, write or open the encoded training pairs, read dev and test.

    A vocabulary that was learned from other text is learned again, unless a model is `trained`
    with it. `stage` is told what is begun: tokenise, learn, encode, as far as needed; then ready.
    Stored pairs are compared with their digests, and damaged ones are reported and made again. Of
    several processes only the first should do so: for the others, `mend` is False.

    `statistics` of the training pairs: `read`, `kept` (and of these in each of the `corpora`) and
    `dropped` by reason; a side's `words` before the vocabulary and `types` (how many different
    ones), its `tokens` after, `unknown` ones among them, `unk_rate` = unknown / tokens, and
    `lengths`: [tokens, how many sentences]; `vocabulary` = entries.

    Raises ValueError or OSError with one line for all that is wrong with the data or the folder.
    """
    workdir = Path(workdir)
    dev, test = (_read(spec, config) for spec in (config.dev, config.test))
    workdir.mkdir(parents=True, exist_ok=True)
    folder = workdir / "vocabulary"
    learned_from = addresses.identity(config.train, config)
    if folder.exists() and (trained or codec.learned_from(folder) in (None, learned_from)):
        codecs = codec.load(folder, config)
        train = _open_or_write(workdir, config, codecs, None, stage, mend)
    else:
        with tempfile.TemporaryFile(dir=workdir) as file:
            stage("tokenise")
            spool = _Spool(file, _tokenised(config))
            stage("learn")
            codecs = codec.learn_tokenised(config, spool)
            codec.save(folder, codecs, config, learned_from)
            try:
                train = _open_or_write(workdir, config, codecs, spool, stage, mend)
            except ValueError:  # no pair is left: other settings or data need another vocabulary
                shutil.rmtree(folder, ignore_errors=True)
                raise
    if addresses.identity(config.train, config) != learned_from:
        shutil.rmtree(train.folder, ignore_errors=True)
        raise ValueError(f"the files of {config.train} changed while they were read: run it again")
    stage("ready")
    return Prepared(codecs, train, dev, test, _statistics(folder, codecs, train))


def _read(spec: str, config: DataConfig) -> list[Pair]:
    return list(addresses.pairs(spec, config)) if spec else []


def _tokenised(config: DataConfig) -> Iterator[Text]:
    function = functools.partial(chunks.tokenize, config)
    return mapped(function, chunks.read(config), config.processes)


def _open_or_write(
    workdir: Path,
    config: DataConfig,
    codecs: tuple[Codec, Codec],
    spool: _Spool | None,
    stage: Callable[[str], object],
    mend: bool,
) -> Store:
    folder = workdir / "store" / store.key(config, codecs)
    if folder.exists():
        try:
            return Store(folder, verify=mend)
        except (ValueError, FileNotFoundError) as error:
            if not mend:
                raise
            log.warning("the store %s is made again: %s", folder, error.__cause__ or error)
    stage("encode" if spool else "tokenise and encode")
    vocabularies = codecs[0].vocabulary, codecs[1].vocabulary
    if spool is None:
        encoded = mapped(
            functools.partial(_encode_text, config, vocabularies),
            chunks.read(config),
            config.processes,
        )
    else:
        encoded = mapped(
            functools.partial(_encode_record, config, vocabularies),
            spool.records(),
            config.processes,
        )
    return store.write(folder, encoded, config, (len(vocabularies[0]), len(vocabularies[1])))


def _encode_text(config: DataConfig, vocabularies, text: Text) -> chunks.Encoded:
    return chunks.encode(config, vocabularies, chunks.tokenize(config, text))


def _encode_record(config: DataConfig, vocabularies, record: bytes) -> chunks.Encoded:
    return chunks.encode(config, vocabularies, pickle.loads(record))


def _statistics(folder: Path, codecs: tuple[Codec, Codec], train: Store) -> dict[str, Any]:
    counts = dict(train.statistics)
    tokens, unknown = counts["tokens"], counts["unknown"]
    counts["unk_rate"] = {side: unknown[side] / tokens[side] for side in SIDES}
    counts["vocabulary"] = {
        side: len(one.vocabulary) for side, one in zip(SIDES, codecs, strict=True)
    }
    counts["types"] = codec.types(folder)
    return counts
