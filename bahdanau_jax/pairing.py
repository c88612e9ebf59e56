"""Lists of texts, and sequences that belong to each other, item by item."""

from collections.abc import Sized


def check_list(name: str, items: object) -> None:
    """Raise TypeError for one text in place of a list, whose items would be its characters.

    >>> check_list("lines", "The man sleeps .")
    Traceback (most recent call last):
    TypeError: expected a list of lines, but got the text 'The man sleeps .'
    """
    if isinstance(items, str):
        raise TypeError(f"expected a list of {name}, but got the text {items[:40]!r}")


def check_equal_counts(name: str, items: Sized, other_name: str, others: Sized) -> None:
    """Raise ValueError for unequal counts, and TypeError for one text in place of a list.

    >>> check_equal_counts("sources", ["a", "b"], "targets", ["x"])
    Traceback (most recent call last):
    ValueError: 2 sources but 1 targets: there should be as many of each
    """
    check_list(name, items)
    check_list(other_name, others)
    if len(items) != len(others):
        raise ValueError(
            f"{len(items)} {name} but {len(others)} {other_name}: there should be as many of each"
        )
