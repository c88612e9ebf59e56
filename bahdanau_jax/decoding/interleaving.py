"""Work on two batches at once, in two threads: each uses the cores that the other leaves idle.

XLA runs the operations of one thread one after the other. A search is a chain of small operations,
and many of them use a single core. A second search in another thread uses the other cores. Two
threads that need the same program wait for one compilation.
"""

import contextvars
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from types import MappingProxyType
from typing import Any, TypeVar

import jax

AT_ONCE = 2  # three threads are no faster on two cores
THREAD = "bahdanau search"

# Settings of JAX that hold for one thread: name -> the context manager that sets it.
SETTINGS: Mapping[str, Callable[[Any], AbstractContextManager]] = MappingProxyType(
    {
        "jax_default_device": jax.default_device,
        "jax_default_matmul_precision": jax.default_matmul_precision,
        "jax_default_prng_impl": jax.default_prng_impl,
        "jax_enable_x64": jax.enable_x64,
        "jax_disable_jit": jax.disable_jit,
        "jax_debug_nans": jax.debug_nans,
    }
)

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield `work(item)` of every item, in order; at most AT_ONCE results wait for the caller.

    The threads take over the caller's SETTINGS of JAX and its context variables. A single item runs
    without a thread. The first error, or Ctrl-C, ends the iteration at once; results of work in
    progress are dropped.

    >>> for n_best in side_by_side(lambda batch: jax.block_until_ready(search(batch)), batches): ...
    """
    items = iter(items)
    ahead = list(itertools.islice(items, 2))
    if len(ahead) < 2:
        yield from map(work, ahead)
        return
    callers = {name: getattr(jax.config, name) for name in SETTINGS}

    def in_thread(item: Item) -> Result:
        with ExitStack() as settings:
            for name, value in callers.items():
                settings.enter_context(SETTINGS[name](value))
            return work(item)

    waiting: deque[Future[Result]] = deque()
    threads = ThreadPoolExecutor(AT_ONCE, THREAD)
    try:
        for item in itertools.chain(ahead, items):
            waiting.append(threads.submit(contextvars.copy_context().run, in_thread, item))
            if len(waiting) > AT_ONCE:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # only after an error work is in progress
