"""The same function over many items in several processes, in order and with bounded memory."""

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Seconds of work that repay the start of processes, each of which imports the package.
ALONE = 3.0
WAITING = 3  # items of each process that are under way or finished before the consumer takes them


def cores() -> int:
    """That this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def mapped(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int = 0
) -> Iterator[Result]:
    """function(item) of every item, in their order; `processes` 0 takes all cores.

    Items are taken from their iterator only a few ahead of the consumer. The function travels to
    each process once. The processes start when the function has taken ALONE seconds here.

    >>> list(mapped(len, [[1], [2, 3]]))
    [1, 2]
    """
    items, processes, spent = iter(items), processes or cores(), 0.0
    for item in items:
        if processes > 1 and spent >= ALONE:
            yield from _in_processes(function, itertools.chain([item], items), processes)
            return
        began = time.perf_counter()
        result = function(item)
        spent += time.perf_counter() - began
        yield result


def _in_processes(function: Callable, items: Iterator, processes: int) -> Iterator:
    # Unlike the standard library's pool, loky's does not run the user's own script once more.
    from loky import ProcessPoolExecutor

    here = os.getpid()
    pool = ProcessPoolExecutor(processes, initializer=_install, initargs=(function, here))
    under_way = deque()
    done = False
    try:
        for item in items:
            under_way.append(pool.submit(_call, item))
            if len(under_way) >= WAITING * processes:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
        done = True
    finally:
        pool.shutdown(kill_workers=not done)


_function: Callable[[Any], Any] | None = None  # in a process of the pool: what it is there for


def _install(function: Callable[[Any], Any], parent: int) -> None:
    global _function
    _function = function
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    """End this process when its parent was killed, be it before this process had begun."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _call(item: Any) -> Any:
    assert _function is not None
    return _function(item)
