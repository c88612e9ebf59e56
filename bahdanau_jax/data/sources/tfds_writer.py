"""A TFDS builder that writes sentence pairs in their order as ArrayRecord, without TensorFlow."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import tensorflow_datasets as tfds

SHARD_PAIRS = 100_000  # pairs in a file; TFDS holds them in memory while it writes


class ParallelText(tfds.core.ShardBasedBuilder, skip_registration=True):
    """Write `splits` as DATA_DIR/NAME/VERSION; every call of a split returns the same pairs."""

    url_infos = None  # nothing is downloaded

    def __init__(
        self,
        *,
        data_dir: Path,
        name: str,
        version: str,
        description: str,
        languages: tuple[str, str],
        splits: Mapping[str, Callable[[], Iterable[tuple[str, str]]]],
    ):
        setattr(self, "name", name)  # noqa: B010, TFDS declares it as a class variable
        self.VERSION = tfds.core.Version(version)
        self._description, self._languages, self._splits = description, languages, splits
        super().__init__(data_dir=data_dir, file_format="array_record")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=self._description,
            features=tfds.features.Translation(languages=self._languages),
            supervised_keys=self._languages,
            disable_shuffling=True,
        )

    def _shard_iterators_per_split(self, dl_manager) -> dict[str, list[Callable]]:
        return {split: self._shards(pairs) for split, pairs in self._splits.items()}

    def _shards(self, pairs: Callable[[], Iterable[tuple[str, str]]]) -> list[Callable]:
        """A function for each file. TFDS calls them in turn, and each takes the next pairs."""
        count = sum(1 for _ in pairs())
        stream = enumerate(dict(zip(self._languages, pair, strict=True)) for pair in pairs())
        shard = partial(itertools.islice, stream, SHARD_PAIRS)
        return [shard] * math.ceil(count / SHARD_PAIRS)
