"""Encoded pairs on disk as flat ids and offsets, which are memory-mapped."""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt64
from numpy.lib import format as npy

from bahdanau_jax.atomic import replaced_folder
from bahdanau_jax.batch import SIDES, UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.store import file_digests
from bahdanau_jax.data.store.chunks import Encoded
from bahdanau_jax.data.tokens import text_chunks
from bahdanau_jax.data.tokens.cleaning import DROP_REASONS, DUPLICATE
from bahdanau_jax.data.tokens.codec import Codec
from bahdanau_jax.parsing import parse_json

PARTS = ("ids", "offsets")
FORMAT = 2  # raise it when the files of a store change their meaning
# Settings that do not change the stored ids. Corpora are identified by their addresses without
# weights, and their files by name and content without the folder.
IRRELEVANT = (
    *("train", "dev", "test", "root", "processes", "limit_words"),
    *("plan", "batch_size", "batch_words", "pool_batches", "shapes"),
)


class Ragged(NamedTuple):
    """N sequences of ids, one after the other."""

    ids: Int[np.ndarray, " total"]  # uint16 or uint32
    offsets: Int[np.ndarray, " N+1"]  # int64; sequence i is ids[offsets[i]:offsets[i + 1]]

    def row(self, i: int) -> Int[np.ndarray, " length"]:
        """The ids of a sentence."""
        return self.ids[self.offsets[i] : self.offsets[i + 1]]


class Pairs:
    """N encoded sentence pairs; every sentence ends in EOS, which `lengths` counts too."""

    def __init__(self, source: Ragged, target: Ragged):
        self.sides = (source, target)
        # tokens of the source and of the target of each pair
        self.lengths: Int[np.ndarray, "N 2"] = np.stack(
            [np.diff(side.offsets).astype(np.int32) for side in self.sides], axis=1
        )

    @staticmethod
    def of(encoded: Iterable[tuple[Sequence[int], Sequence[int]]]) -> "Pairs":
        """Encoded pairs in memory.

        >>> len(Pairs.of([([5, 0], [7, 8, 0])]))
        1
        """
        sides = list(zip(*encoded, strict=True)) or [(), ()]
        return Pairs(*(_ragged(side) for side in sides))

    def __len__(self) -> int:
        return len(self.lengths)

    def source(self, i: int) -> Int[np.ndarray, " S"]:
        """The source ids of pair i, EOS last."""
        return self.sides[0].row(i)

    def target(self, i: int) -> Int[np.ndarray, " T"]:
        """The target ids of pair i, EOS last."""
        return self.sides[1].row(i)


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    lengths = [len(row) for row in rows]
    ids = [id for row in rows for id in row]
    return Ragged(np.array(ids, np.uint32), np.cumsum([0, *lengths], dtype=np.int64))


class Store(Pairs):
    """The pairs in a folder that `write` made, with its `statistics`.

    If `verify` is True, all files are compared with their digests. Raises FileNotFoundError where
    there is no store, ValueError that names a damaged file.
    """

    def __init__(self, folder: Path, verify: bool = True):
        self.folder = folder
        try:
            if verify:
                arrays = {_file(folder, side, part).name for side in SIDES for part in PARTS}
                file_digests.verify(folder, {"statistics.json", *arrays})
            self.statistics = parse_json((folder / "statistics.json").read_bytes())
            sides = [
                Ragged(*(np.load(_file(folder, side, part), mmap_mode="r") for part in PARTS))
                for side in SIDES
            ]
            super().__init__(*sides)
            if any(len(side.ids) != side.offsets[-1] for side in sides):
                raise ValueError("ids and offsets do not fit")
            rows = sum(self.statistics["corpora"]) * self.statistics["encodings"]
            if len(self) != rows:
                raise ValueError(f"{len(self)} rows, but statistics.json counts {rows}")
        except (ValueError, KeyError, TypeError, IndexError, EOFError) as error:
            raise ValueError(
                f"the store {folder} is damaged: delete it, then it is made again ({error})"
            ) from error


def _file(folder: Path, side: str, part: str) -> Path:
    return folder / f"{side}_{part}.npy"


def write(
    folder: Path,
    encoded: Iterable[Encoded],
    config: DataConfig,
    corpora: int,
    entries: tuple[int, int],
) -> Store:
    """Write encoded chunks to a new store, whose folder appears whole or not at all.

    `corpora` is their number, `entries` the sizes of the vocabularies, which decide whether an id
    takes two bytes or four. Memory does not grow with the corpus, except for eight bytes per pair
    if duplicates are dropped. Raises ValueError where no pair is left.
    """
    counts = _Counts(corpora, config.encodings)
    seen = _Seen() if config.drop_duplicates else None
    with replaced_folder(folder) as new:
        with ExitStack() as files:
            sides = [
                _SideWriter(new, side, size, files)
                for side, size in zip(SIDES, entries, strict=True)
            ]
            for chunk in encoded:
                kept = _without_repeated(chunk, seen, config.encodings) if seen else chunk
                counts.add(chunk, kept)
                for i, side in enumerate(sides):
                    side.write(kept.ids[i], kept.lengths[:, i])
        if not sum(counts.kept):
            raise ValueError(counts.nothing_left(config))
        text = json.dumps(counts.statistics(), indent=2) + "\n"
        (new / "statistics.json").write_text(text, encoding="utf-8")
        file_digests.seal(new)
    return Store(folder, verify=False)


class _Growing:
    """A one-dimensional .npy file of unknown length, whose header is corrected at the end.

    >>> _Growing(path, np.dtype("uint16"), files)
    """

    def __init__(self, path: Path, dtype: np.dtype, files: ExitStack):
        self._file, self._dtype, self._length = path.open("wb"), dtype, 0
        files.callback(self._file.close)
        files.callback(self._write_header)
        self._write_header()

    def _write_header(self) -> None:
        self._file.seek(0)
        header = npy.header_data_from_array_1_0(np.empty(0, self._dtype))
        npy.write_array_header_1_0(self._file, {**header, "shape": (self._length,)})

    def append(self, values: np.ndarray) -> None:
        self._length += len(values)
        self._file.write(values.astype(self._dtype).tobytes())


class _SideWriter:
    """The files of one side."""

    def __init__(self, folder: Path, side: str, entries: int, files: ExitStack):
        dtype = np.dtype(np.uint16 if entries <= 1 << 16 else np.uint32)
        self._ids = _Growing(_file(folder, side, "ids"), dtype, files)
        self._offsets = _Growing(_file(folder, side, "offsets"), np.dtype(np.int64), files)
        self._offsets.append(np.zeros(1))
        self._end = 0

    def write(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        self._ids.append(ids)
        self._offsets.append(self._end + np.cumsum(lengths))
        self._end += len(ids)


class _Seen:
    """The digests of all pairs so far, in sorted runs; a run is merged with shorter ones."""

    def __init__(self):
        self._runs: list[UInt64[np.ndarray, " run"]] = []

    def new(self, digests: UInt64[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
        """Whether each digest is new, and add the new ones; of equal ones, the first is new."""
        is_new = np.zeros(len(digests), bool)
        is_new[np.unique(digests, return_index=True)[1]] = True
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, digests), len(run) - 1)
            is_new &= run[place] != digests
        run = np.sort(digests[is_new])
        while self._runs and len(self._runs[-1]) <= len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        if len(run):
            self._runs.append(run)
        return is_new


def _without_repeated(chunk: Encoded, seen: _Seen, encodings: int) -> Encoded:
    new = seen.new(chunk.digests)
    rows = np.repeat(new, encodings)
    ids = tuple(
        side[np.repeat(rows, lengths)]
        for side, lengths in zip(chunk.ids, chunk.lengths.T, strict=True)
    )
    return chunk._replace(ids=ids, lengths=chunk.lengths[rows], words=chunk.words[new])


class _Counts:
    """Statistics of the chunks that are written."""

    def __init__(self, corpora: int, encodings: int):
        self._encodings = encodings
        self.kept = [0] * corpora  # pairs of each corpus
        self._read = self._read_tokens = 0
        self._dropped = Counter()
        self._words, self._tokens, self._unknown = Counter(), Counter(), Counter()
        self._lengths = (Counter(), Counter())
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, chunk: Encoded, kept: Encoded) -> None:
        self._read += chunk.read
        self._read_tokens += chunk.read_tokens
        self._dropped += chunk.dropped
        self._dropped[DUPLICATE] += len(chunk.words) - len(kept.words)
        self.kept[chunk.corpus] += len(kept.words)
        self._words.update(dict(zip(SIDES, kept.words.sum(0).tolist(), strict=True)))
        for side, ids, lengths, counter in zip(
            SIDES, kept.ids, kept.lengths.T, self._lengths, strict=True
        ):
            self._tokens[side] += len(ids) - len(lengths)  # EOS is no word
            self._unknown[side] += int((ids == UNK).sum())
            self._digest.update(ids.tobytes() + lengths.tobytes())
            values, counts = np.unique(lengths - 1, return_counts=True)
            counter.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    def statistics(self) -> dict[str, Any]:
        return {
            "read": self._read,
            "read_tokens": self._read_tokens,
            "kept": sum(self.kept),
            "dropped": self._by_reason(),
            "corpora": self.kept,
            "encodings": self._encodings,
            "digest": self._digest.hexdigest(),
            "words": {side: self._words[side] for side in SIDES},
            "tokens": {side: self._tokens[side] for side in SIDES},
            "unknown": {side: self._unknown[side] for side in SIDES},
            "lengths": {
                side: [[length, count[length]] for length in sorted(count)]
                for side, count in zip(SIDES, self._lengths, strict=True)
            },
        }

    def _by_reason(self) -> dict[str, int]:
        return {reason: self._dropped[reason] for reason in DROP_REASONS}

    def nothing_left(self, config: DataConfig) -> str:
        parts = []
        for name, reason in DROP_REASONS.items():
            if count := self._dropped[name]:
                limit = f" = {getattr(config, reason.limit)}" if reason.limit else ""
                parts.append(f"{count} {reason.words}{limit}")
        return (
            f"no training pair is left of {self._read}: {', '.join(parts)}; change these settings "
            "or look at data.train"
        )


def key(config: DataConfig, codecs: tuple[Codec, Codec], corpora: list[list]) -> str:
    """The name of the store of these settings: a hash of everything that shapes its ids.

    It covers the settings that are not IRRELEVANT, the identity of the training corpora
    (`addresses.identity`) and the vocabularies.
    """
    settings = {k: v for k, v in dataclasses.asdict(config).items() if k not in IRRELEVANT}
    record = {
        "format": FORMAT,
        "chunk": text_chunks.SIZE,
        "settings": settings,
        "corpora": corpora,
        "vocabularies": [
            hashlib.sha256(codec.vocabulary.to_bytes()).hexdigest() for codec in codecs
        ],
    }
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]
