"""Sequences that belong to each other, item by item."""

from collections.abc import Sized


def check_equal_counts(name: str, items: Sized, other_name: str, others: Sized) -> None:
    """Raise ValueError for unequal counts.

    >>> check_equal_counts("sources", ["a", "b"], "targets", ["x"])
    Traceback (most recent call last):
    ValueError: 2 sources but 1 targets: there should be as many of each
    """
    if len(items) != len(others):
        raise ValueError(
            f"{len(items)} {name} but {len(others)} {other_name}: there should be as many of each"
        )
