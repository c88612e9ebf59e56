"""Checks a split in TFDS's notation, such as train[:1%], which TFDS reads leniently."""

import itertools
from collections.abc import Mapping
from typing import Any

from bahdanau_jax.names import choose


def check(split: str, splits: Mapping[str, Any], address: str) -> None:
    """Raise ValueError where a split is not one of a dataset, or where a slice is reversed.

    `splits` are those of the dataset's `DatasetInfo`, and `address` is in the message.
    """
    for part in split.split("+"):
        choose({**splits, "all": None}, part.partition("[")[0].strip(), f"split of tfds:{address}")
    try:
        _ = splits[split]  # raises where TFDS cannot read the notation
        if _is_reversed(split, splits):
            raise ValueError("the end lies before the start")
    except (ValueError, NotImplementedError, AssertionError) as error:
        raise ValueError(
            f"tfds:{address}: the split {split!r} should be written like train, "
            "train[:1%], train[1000:2000] or train+test"
        ) from error


def _is_reversed(split: str, splits: Mapping[str, Any]) -> bool:
    """Whether a slice ends before it starts. TFDS reads one of -1 examples to the end of a file."""
    from tensorflow_datasets.core import ReadInstruction

    slices = [part.strip() for part in split.split("+") if "[" in part]
    instructions = (ReadInstruction.from_spec(part).to_absolute(splits) for part in slices)
    return any(
        each.to is not None and each.to < (each.from_ or 0)
        for each in itertools.chain.from_iterable(instructions)
    )
