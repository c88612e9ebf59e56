"""The line from settings to encoded training pairs: open corpora, tokenised text, codecs, store.

Each stage gets the values of the stages before it. The work folder keeps two of them:

WORKDIR/vocabulary/      learned once
WORKDIR/store/KEY/       encoded once for each setting that shapes it
"""

import functools
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax import run_folder
from bahdanau_jax.batch import SIDES
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.sources import addresses
from bahdanau_jax.data.sources.addresses import Pair
from bahdanau_jax.data.store import chunks, store
from bahdanau_jax.data.store.store import Store
from bahdanau_jax.data.store.workers import mapped
from bahdanau_jax.data.tokens import codec, text_chunks
from bahdanau_jax.data.tokens.codec import Codec
from bahdanau_jax.data.tokens.text_chunks import Spool
from bahdanau_jax.reporting import SILENT

log = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """The text of a training, ready for batches."""

    codecs: tuple[Codec, Codec]  # of the source and of the target
    train: Store  # encoded pairs to train on
    dev: list[Pair]  # as text; empty without such a corpus
    test: list[Pair]  # likewise
    statistics: dict[str, Any]  # see `prepare`


def prepare(
    config: DataConfig,
    workdir: Path,
    stage: Callable[[str], object] = SILENT.stage,
    trained: bool = False,
    writes: bool = True,
) -> Prepared:
    """Learn or load the vocabularies, write or open the encoded training pairs, read dev and test.

    A vocabulary that was learned from other text is learned again, unless a model is `trained`
    with it. `stage` is called with the name of each stage that begins: "tokenise", "learn" and
    "encode" where they are needed, then "ready". Stored pairs are compared with their digests;
    damaged ones are reported and written again. Only the main process writes: the other ones pass
    `writes=False`, and open what it wrote from the same text.

    `statistics` counts the training pairs: `read` ones, their source tokens (`read_tokens`), `kept`
    ones (of each corpus in `corpora`), and those `dropped`, by reason. Each side has `words` before
    the vocabulary, `types` (different words), `tokens` after it, and `unknown` ones among them. It
    also has `unk_rate` = unknown / tokens, `lengths` as [tokens, sentences], and `vocabulary`, the
    number of entries.

    Raises ValueError or OSError, in one line, for faults of the data and of the folder.
    """
    workdir = Path(workdir)
    corpora = addresses.open_corpora(config.train, config)
    dev, test = (
        addresses.open_corpora(spec, config) if spec else [] for spec in (config.dev, config.test)
    )
    identity = addresses.identity(corpora)
    dev, test = ([pair for corpus in split for pair in corpus.pairs()] for split in (dev, test))
    workdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=workdir) as file:
        tokenize = functools.partial(text_chunks.tokenize, codec.sentence_tokenizers(config))
        text = mapped(tokenize, text_chunks.read(corpora), config.processes)
        spool = Spool(file, text, begin=lambda: stage("tokenise"))

        folder = workdir / run_folder.VOCABULARY
        is_known = folder.exists() and (trained or codec.learned_from(folder) in (None, identity))
        if is_known or not writes:
            codecs = codec.load(folder, config)
        else:
            spool.fill()
            stage("learn")
            codecs = codec.learn_tokenised(config, spool)
            codec.save(folder, codecs, identity)

        stored = workdir / run_folder.STORE / store.key(config, codecs, identity)
        train = _open_store(stored, writes)
        if train is None and not writes:
            raise ValueError(
                f"process 0 prepared another text than that of {config.train} on this host: copy "
                f"its files, and check that all hosts share {workdir}"
            )
        if train is None:
            spool.fill()
            stage("encode")
            try:
                train = _encode(stored, spool, codecs, config, len(corpora))
            except ValueError:  # no pair is left: other settings or data need another vocabulary
                if not is_known:
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            if addresses.identity(corpora) != identity:
                for made in (stored, *([] if is_known else [folder])):
                    shutil.rmtree(made, ignore_errors=True)
                raise ValueError(
                    f"the files of {config.train} changed while they were read: run it again"
                )
    stage("ready")
    return Prepared(codecs, train, dev, test, _statistics(codecs, train))


def has_vocabulary(config: DataConfig, workdir: Path) -> bool:
    """Whether the folder has a vocabulary that was learned from the training pairs of `config`.

    >>> has_vocabulary(config, Path("runs/prepared"))
    True
    """
    folder = Path(workdir) / run_folder.VOCABULARY
    if not folder.exists():
        return False
    identity = addresses.identity(addresses.open_corpora(config.train, config))
    return codec.learned_from(folder) == identity


def _encode(
    folder: Path, spool: Spool, codecs: tuple[Codec, Codec], config: DataConfig, corpora: int
) -> Store:
    """Encode the tokenised pairs of a spool, and write them to the store of a folder."""
    source, target = (side.vocabulary for side in codecs)
    encode = functools.partial(chunks.encode_record, config, (source, target))
    encoded = mapped(encode, spool.records(), config.processes)
    return store.write(folder, encoded, config, corpora, (len(source), len(target)))


def _open_store(folder: Path, writes: bool) -> Store | None:
    """The store in a folder; None if there is none, or a damaged one that is to be repaired."""
    if not folder.exists():
        return None
    try:
        return Store(folder, verify=writes)
    except (ValueError, FileNotFoundError) as error:
        if not writes:
            raise
        log.warning("the store %s is made again: %s", folder, error.__cause__ or error)
        return None


def _statistics(codecs: tuple[Codec, Codec], train: Store) -> dict[str, Any]:
    vocabularies = {side: one.vocabulary for side, one in zip(SIDES, codecs, strict=True)}
    tokens, unknown = train.statistics["tokens"], train.statistics["unknown"]
    return {
        **train.statistics,
        "unk_rate": {side: unknown[side] / tokens[side] for side in SIDES},
        "vocabulary": {side: len(vocabulary) for side, vocabulary in vocabularies.items()},
        "types": {side: vocabulary.types for side, vocabulary in vocabularies.items()},
    }
