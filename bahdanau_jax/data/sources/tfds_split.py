"""Checks a split in TFDS's notation, such as train[:1%], which TFDS reads leniently."""

import itertools
from collections.abc import Mapping
from typing import Any

from bahdanau_jax.names import choose

ALL = "all"  # the examples of every split


def check(split: str, splits: Mapping[str, Any], address: str) -> None:
    """Raise ValueError where a split is not one of a dataset, or where a slice is reversed.

    `splits` are those of the dataset's `DatasetInfo`, and `address` is in the message.
    """
    for part in split.split("+"):
        choose({**splits, ALL: None}, part.partition("[")[0].strip(), f"split of tfds:{address}")
    try:
        if splits[split].num_examples < 0 or _is_reversed(split, splits):
            raise ValueError("the end lies before the start")
    except (ValueError, NotImplementedError, AssertionError) as error:
        raise ValueError(
            f"tfds:{address}: the split {split!r} should be written like train, "
            "train[:1%], train[1000:2000] or train+test"
        ) from error


def _is_reversed(split: str, splits: Mapping[str, Any]) -> bool:
    """Whether a part ends before it starts. TFDS reads one of -1 examples as all that follow."""
    from tensorflow_datasets.core import ReadInstruction

    parts = [part.strip() for part in split.split("+") if part.strip() != ALL]
    found = [ReadInstruction.from_spec(part).to_absolute(splits) for part in parts]
    return any(
        each.to is not None and each.to < (each.from_ or 0)
        for each in itertools.chain.from_iterable(found)
    )
