"""Batches searched two at a time: each fills the gaps that the other leaves.

XLA runs what a thread asks for one after the other. A search is a chain of small operations, many
of which one core computes while others wait; a second search, asked for by another thread, takes
these. Two threads that need the same program wait for one compilation.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import jax

AT_ONCE = 2  # three were no faster on two cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`work` of every item, in their order; what is ahead of the caller is bounded.

    JAX's default device and precision are the caller's. The first error ends it.

    >>> for found in side_by_side(lambda batch: jax.block_until_ready(search(batch)), batches): ...
    """
    settings: Any = jax.config
    device, wide = settings.jax_default_device, settings.jax_enable_x64

    def in_thread(item: Item) -> Result:
        with jax.default_device(device), jax.enable_x64(wide):
            return work(item)

    waiting: deque[Future[Result]] = deque()
    threads = ThreadPoolExecutor(AT_ONCE, "search")
    try:
        for item in items:
            waiting.append(threads.submit(in_thread, item))
            if len(waiting) > AT_ONCE:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)
