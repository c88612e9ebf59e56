"""Batching of requests: those with equal options, which arrive within some milliseconds, share
one computation, in a thread of their own.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

# (options that all items share, items) -> a result for each item
Compute = Callable[[Any, list[Any]], Sequence[Any]]
Observe = Callable[[int, int], object]  # (requests of a batch, its items)


class Full(Exception):
    """There is no place for the items of another request."""


@dataclass(eq=False)
class _Waiting:
    """A request that waits: hashable by identity."""

    options: Hashable
    items: list[Any]
    answer: asyncio.Future[list[Any]]
    deadline: float  # its batch begins at this time of the loop at the latest


class Batcher:
    """Computes the items of requests in batches, the oldest request first.

    All methods belong to one event loop; `compute` runs in a thread, one batch at a time. While a
    batch is computed, further requests collect, and the next batch takes them without waiting. A
    request waits for others only if one arrived shortly before it: a lone client does not wait.

    >>> batcher = Batcher(compute, wait=0.005, most=32, capacity=512)
    >>> await batcher.submit("upper", ["a", "b"])

    Args:
        wait: seconds that a request waits for others at most. It does not wait where no other
            request arrived within this time before it.
        most: items of a batch; a request with more items has a batch of its own.
        capacity: items that may wait.
        observe: is called for each batch that was computed without an error.
    """

    def __init__(
        self,
        compute: Compute,
        wait: float,
        most: int,
        capacity: int,
        observe: Observe = lambda requests, items: None,
    ):
        self._compute, self._observe = compute, observe
        self._wait, self._most, self._capacity = wait, most, capacity
        self._waiting: dict[_Waiting, None] = {}  # in the order of arrival
        self._changed = asyncio.Event()
        self._arrival = float("-inf")  # the time of the loop when the last request arrived
        self._thread = ThreadPoolExecutor(1, "bahdanau worker")
        self._worker: asyncio.Task[None] | None = None
        self._last: Future[Any] | None = None  # what the thread was given last

    @property
    def is_busy(self) -> bool:
        """Whether the thread computes, also for a request whose client went away."""
        return self._last is not None and not self._last.done()

    @property
    def queued(self) -> int:
        """The number of items that wait for their computation."""
        return sum(len(request.items) for request in self._waiting)

    async def submit(self, options: Hashable, items: Sequence[Any]) -> list[Any]:
        """Return the results of the items. Raises Full, or what `compute` raises.

        Where the calling task is cancelled, the items leave the queue.
        """
        if not items:
            return []
        if self.queued + len(items) > self._capacity:
            raise Full
        loop = asyncio.get_running_loop()
        now = loop.time()
        wait = self._wait if now - self._arrival < self._wait else 0.0
        self._arrival = now
        request = _Waiting(options, [*items], loop.create_future(), now + wait)
        self._waiting[request] = None
        self._changed.set()
        if self._worker is None:
            self._worker = loop.create_task(self._work())
        try:
            return await request.answer
        finally:
            self._waiting.pop(request, None)
            self._changed.set()

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """Run other work in the thread of the batches, in turn with them."""
        self._last = self._thread.submit(work)
        return await asyncio.wrap_future(self._last)

    def close(self) -> None:
        """Stop: requests without an answer are cancelled; a computation in progress ends later."""
        if self._worker is not None:
            self._worker.cancel()
        for request in self._waiting:
            request.answer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        while True:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            await self._collect(next(iter(self._waiting)))
            if batch := self._take():
                try:
                    await self._answer(batch)
                finally:  # `close` may end the worker before these requests have their answers
                    for request in batch:
                        request.answer.cancel()

    async def _collect(self, oldest: _Waiting) -> None:
        """Wait until the batch of the oldest request is full, or until its time is over."""
        while oldest in self._waiting:
            shared = [r for r in self._waiting if r.options == oldest.options]
            remaining = oldest.deadline - asyncio.get_running_loop().time()
            if remaining <= 0 or sum(len(request.items) for request in shared) >= self._most:
                return
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), remaining)
            except TimeoutError:
                return

    def _take(self) -> list[_Waiting]:
        """Take the oldest request and later ones with equal options, as many as fit."""
        batch: list[_Waiting] = []
        size = 0
        for request in [*self._waiting]:
            if batch and request.options != batch[0].options:
                continue
            size += len(request.items)
            if batch and size > self._most:
                break
            batch.append(request)
            del self._waiting[request]
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        items = [item for request in batch for item in request.items]
        try:
            results = iter(await self.in_thread(lambda: self._compute(batch[0].options, items)))
        except Exception as error:
            if len(batch) == 1:
                if not batch[0].answer.done():
                    batch[0].answer.set_exception(error)
                return
            for request in batch:  # a request does not fail because of another one
                if not request.answer.done():
                    await self._answer([request])
            return
        self._observe(len(batch), len(items))
        for request in batch:
            own = [next(results) for _ in request.items]
            if not request.answer.done():
                request.answer.set_result(own)
