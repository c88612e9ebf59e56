"""Encoded pairs on disk: flat ids and offsets, memory-mapped, so that a corpus of any size opens at
once and nothing is tokenised twice.
"""

import dataclasses
import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from bahdanau_jax.batch import EOS, UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import sources
from bahdanau_jax.data.codec import SIDES, Codec
from bahdanau_jax.data.folders import replacing

PARTS = ("ids", "offsets")
FORMAT = 1  # raise it when the files of a store change their meaning
# Settings that leave the stored ids as they are. Files are known by their size and time instead of
# the folder that they lie in.
IRRELEVANT = ("dev", "test", "root", "batch_size", "pool_batches", "shapes")


EncodedPair = tuple[Sequence[int], Sequence[int]]  # both sides with their EOS


class Ragged(NamedTuple):
    """N sequences of ids, one after the other."""

    ids: Int[np.ndarray, " total"]  # uint16 or uint32
    offsets: Int[np.ndarray, " N+1"]  # int64; sequence i is ids[offsets[i]:offsets[i + 1]]

    def row(self, i: int) -> Int[np.ndarray, " length"]:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]


def _ragged(pairs: Iterable[EncodedPair]) -> tuple[Ragged, Ragged]:
    """Both sides in one pass, with four bytes an id in memory."""
    ids, offsets = (array("I"), array("I")), (array("q", [0]), array("q", [0]))
    for pair in pairs:
        for side in (0, 1):
            ids[side].extend(pair[side])
            offsets[side].append(len(ids[side]))
    return _narrow(ids[0], offsets[0]), _narrow(ids[1], offsets[1])


def _narrow(ids: array, offsets: array) -> Ragged:
    wide = np.array(ids, np.uint32)
    small = wide.max(initial=0) < 1 << 16
    return Ragged(wide.astype(np.uint16) if small else wide, np.array(offsets, np.int64))


class Pairs:
    """N encoded sentence pairs; every sentence ends in EOS. `lengths` counts the EOS."""

    def __init__(self, source: Ragged, target: Ragged):
        self.sides = (source, target)
        self.lengths: Int[np.ndarray, "N 2"] = np.stack(
            [np.diff(side.offsets) for side in self.sides], axis=1
        )

    @staticmethod
    def of(encoded: Iterable[EncodedPair]) -> "Pairs":
        """In memory.

        >>> len(Pairs.of([([5, 0], [7, 8, 0])]))
        1
        """
        return Pairs(*_ragged(encoded))

    def __len__(self) -> int:
        return len(self.lengths)

    def source(self, i: int) -> Int[np.ndarray, " S"]:
        return self.sides[0].row(i)

    def target(self, i: int) -> Int[np.ndarray, " T"]:
        return self.sides[1].row(i)


class Store(Pairs):
    """The pairs in a folder that `write` made. `statistics` is what `write` counted.

    Raises FileNotFoundError where there is none, ValueError where it is damaged.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            self.statistics = json.loads((folder / "statistics.json").read_text("utf-8"))
            sides = [
                Ragged(*(np.load(_file(folder, side, part), mmap_mode="r") for part in PARTS))
                for side in SIDES
            ]
            super().__init__(*sides)
            if any(len(side.ids) != side.offsets[-1] for side in sides):
                raise ValueError("ids and offsets do not fit")
            if len(self) != self.statistics["kept"]:
                raise ValueError(f"{len(self)} pairs, but statistics.json counts otherwise")
        except (ValueError, KeyError, TypeError, IndexError, EOFError) as error:
            raise ValueError(
                f"the store {folder} is damaged: delete it, and it is made again ({error})"
            ) from error


def _file(folder: Path, side: str, part: str) -> Path:
    return folder / f"{side}_{part}.npy"


def write(folder: Path, encoded: Iterable[EncodedPair], max_tokens: int = 0) -> Store:
    """Store the pairs that are fit for training: no side empty, none above `max_tokens` before EOS.

    Nothing is truncated; max_tokens 0 keeps any length. The folder appears whole or not at all.
    ValueError where no pair is left.
    """
    counts = Counter()
    sides = _ragged(_fit(encoded, max_tokens, counts))
    if not counts["kept"]:
        raise ValueError(_nothing_left(counts, max_tokens))
    statistics = {
        "read": counts["kept"] + counts["too_long"] + counts["empty"],
        "kept": counts["kept"],
        "dropped": {reason: counts[reason] for reason in ("too_long", "empty")},
        "tokens": {side: counts["tokens", side] for side in SIDES},
        "unknown": {side: counts["unknown", side] for side in SIDES},
    }
    with replacing(folder) as new:
        for side, ragged in zip(SIDES, sides, strict=True):
            for part, values in zip(PARTS, ragged, strict=True):
                np.save(_file(new, side, part), values)
        text = json.dumps(statistics, indent=2) + "\n"
        (new / "statistics.json").write_text(text, encoding="utf-8")
    return Store(folder)


def _fit(encoded: Iterable[EncodedPair], max_tokens: int, counts: Counter) -> Iterator[EncodedPair]:
    """The pairs to keep; `counts` learns of all of them."""
    for pair in encoded:
        lengths = [len(ids) - 1 for ids in pair]
        if min(lengths) == 0:
            counts["empty"] += 1
        elif max_tokens and max(lengths) > max_tokens:
            counts["too_long"] += 1
        else:
            counts["kept"] += 1
            for side, ids, length in zip(SIDES, pair, lengths, strict=True):
                counts["tokens", side] += length
                counts["unknown", side] += list(ids).count(UNK)
            yield pair


def _nothing_left(counts: Counter, max_tokens: int) -> str:
    return (
        f"no training pair is left of {counts['too_long'] + counts['empty']}: "
        f"{counts['too_long']} have more than data.max_tokens = {max_tokens} tokens on a side, "
        f"{counts['empty']} have an empty side; raise data.max_tokens or look at data.train"
    )


def key(config: DataConfig, codecs: tuple[Codec, Codec]) -> str:
    """The name of the store of these settings: a hash of all that shapes its ids.

    That is the settings but for IRRELEVANT, the size and time of each file of the training corpus,
    and the vocabularies. The code of a built-in corpus counts as its file.
    """
    settings = {k: v for k, v in dataclasses.asdict(config).items() if k not in IRRELEVANT}
    files = [(path.name, path.stat()) for path in sources.files(config.train, config)]
    record = {
        "format": FORMAT,
        "eos": EOS,
        "settings": settings,
        "files": [(name, stat.st_size, stat.st_mtime_ns) for name, stat in files],
        "vocabularies": [
            hashlib.sha256(codec.vocabulary.to_bytes()).hexdigest() for codec in codecs
        ],
    }
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]
