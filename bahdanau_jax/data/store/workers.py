"""A function over many items in several processes, in order and with bounded memory."""

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Work in this process before others start: each of them imports the package, which takes seconds.
SECONDS_BEFORE_POOL = 3.0
WAITING = 3  # submitted items for each process that the consumer has not taken


def cores() -> int:
    """The number of cores that this process may use, by its affinity and its container's quota."""
    from loky import cpu_count

    try:
        return cpu_count()
    except ValueError as error:
        raise ValueError(f"LOKY_MAX_CPU_COUNT should be a number of cores: {error}") from error


def mapped(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int = 0
) -> Iterator[Result]:
    """Yield function(item) of every item, in their order; `processes` 0 uses all cores.

    Only a few items are taken ahead of the consumer. The function is sent to each process once. The
    processes start after the function has run for SECONDS_BEFORE_POOL in this process.

    >>> list(mapped(len, [[1], [2, 3]]))
    [1, 2]
    """
    items, processes, spent = iter(items), processes or cores(), 0.0
    for item in items:
        if processes > 1 and spent >= SECONDS_BEFORE_POOL:
            yield from _in_processes(function, itertools.chain([item], items), processes)
            return
        began = time.perf_counter()
        result = function(item)
        spent += time.perf_counter() - began
        yield result


def _in_processes(function: Callable, items: Iterator, processes: int) -> Iterator:
    # Unlike the standard library's pool, loky's does not run the user's own script again.
    from loky import ProcessPoolExecutor

    parent = os.getpid()
    pool = ProcessPoolExecutor(processes, initializer=_install, initargs=(function, parent))
    futures = deque()
    done = False
    try:
        for item in items:
            futures.append(pool.submit(_call, item))
            if len(futures) >= WAITING * processes:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
        done = True
    except BrokenProcessPool as error:
        if "SIGKILL" not in str(error):  # it ended by itself: loky says how
            raise
        raise OSError(
            "a process that prepared text was killed, perhaps because memory was short: set "
            "data.processes to a smaller number"
        ) from error
    finally:
        pool.shutdown(kill_workers=not done)


_function: Callable[[Any], Any] | None = None  # the function of a process of the pool


def _install(function: Callable[[Any], Any], parent: int) -> None:
    global _function
    _function = function
    ends_with_parent(parent)


def ends_with_parent(parent: int) -> None:
    """From now on this process ends after its parent, even if that has died already."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _call(item: Any) -> Any:
    assert _function is not None
    return _function(item)
