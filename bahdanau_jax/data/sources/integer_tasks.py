"""Integer tasks: reverse a sequence, copy it, or keep its primes, with gold alignments.

Each task is an endless stream, the same for the same arguments. The three splits share no source: a
hash of the source chooses its split.
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bahdanau_jax.names import choose

if TYPE_CHECKING:
    from bahdanau_jax.data.sources.grammar import AlignedPair

# Tenths of all sources. There are few lists of one or two integers, so a split may lack some.
SPLITS: Mapping[str, range] = MappingProxyType(
    {"train": range(8), "dev": range(8, 9), "test": range(9, 10)}
)
LONGEST, LARGEST = 100_000, 1_000_000_000  # integers of a source at most, and the largest limit
MOST_REJECTED = 10_000  # draws of other splits in a row after which the search ends


class Task(NamedTuple):
    """An integer task. Lengths and integers are uniform between their bounds, both included."""

    answer: Callable[[list[int]], list[int]]  # source integers -> positions that make the target
    min: int  # integers in a source, at least
    max: int  # integers in a source, at most
    limit: int  # the largest integer; the smallest is 1


def is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))


def reverse(source: list[int]) -> list[int]:
    return list(range(len(source)))[::-1]


def copy(source: list[int]) -> list[int]:
    return list(range(len(source)))


def primes(source: list[int]) -> list[int]:
    return [position for position, number in enumerate(source) if is_prime(number)]


# Name of a task, as in `builtin:NAME/SPLIT` -> the task.
TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "reverse": Task(reverse, min=1, max=10, limit=20),
        "copy": Task(copy, min=1, max=10, limit=20),
        "primes": Task(primes, min=1, max=30, limit=100),
    }
)


def generate(task: Task, split: str, seed: int = 0) -> "Iterator[AlignedPair]":
    """Endless pairs of one split, in which each target token is linked to the equal source token.

    Raises ValueError for bounds that no sequence meets and for an unknown split.

    >>> next(generate(TASKS["reverse"]._replace(min=3, max=5), "test")).target
    ('16', '8', '18', '16')
    """
    tenths = choose(SPLITS, split, "split")
    if not 1 <= task.min <= task.max <= LONGEST or not 1 <= task.limit <= LARGEST:
        raise ValueError(
            f"min={task.min}, max={task.max}, limit={task.limit} leave no sequence: 1 <= min <= "
            f"max <= {LONGEST:,} and 1 <= limit <= {LARGEST:,} are needed"
        )
    return _draw(task, split, tenths, random.Random(f"{split}/{seed}"))


def _draw(task: Task, split: str, tenths: range, rng: random.Random) -> "Iterator[AlignedPair]":
    from bahdanau_jax.data.sources.grammar import AlignedPair

    # choices() is built on random(), whose numbers are the same in every version of Python.
    lengths, integers = range(task.min, task.max + 1), range(1, task.limit + 1)
    rejected = 0
    while rejected < MOST_REJECTED:
        source = rng.choices(integers, k=rng.choices(lengths)[0])
        if _tenth(source) not in tenths:
            rejected += 1
            continue
        rejected = 0
        positions = task.answer(source)
        links = frozenset((j, i) for i, j in enumerate(positions))
        words = tuple(map(str, source))
        yield AlignedPair(words, tuple(words[j] for j in positions), links, links)
    raise ValueError(
        f"split {split} has no sequence with min={task.min}, max={task.max}, limit={task.limit}: "
        "widen the bounds"
    )


def _tenth(source: list[int]) -> int:
    digest = hashlib.blake2b(" ".join(map(str, source)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 10
