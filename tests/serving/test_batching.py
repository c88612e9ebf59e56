"""Which requests share a batch, in which order, and what becomes of those that are given up."""

import asyncio
import threading
import time

import pytest

from bahdanau_jax.serving.batching import Batcher, Full


class Work:
    """Doubles numbers; records the batches, and waits for the gate before each."""

    def __init__(self):
        self.batches, self.gate = [], threading.Event()
        self.gate.set()

    def __call__(self, options, items):
        self.batches.append((options, items))
        assert self.gate.wait(300)
        if 13 in items:
            raise ValueError("unlucky")
        return [item * 2 for item in items]


PATIENCE = 300  # seconds, on a busy machine


def run(scenario, wait=0.2, most=8, capacity=100):
    """Run a scenario (batcher, work) in an event loop."""
    work, seen = Work(), []

    async def inside():
        observe = lambda requests, items: seen.append((requests, items))  # noqa: E731
        batcher = Batcher(work, wait, most, capacity, observe)
        try:
            return await asyncio.wait_for(scenario(batcher, work), PATIENCE)
        finally:
            work.gate.set()
            batcher.close()

    return asyncio.run(inside()), work.batches, seen


def test_requests_with_equal_options_share_a_batch():
    async def scenario(batcher, work):
        return await asyncio.gather(batcher.submit("a", [1, 2]), batcher.submit("a", [3]))

    answers, batches, seen = run(scenario)
    assert answers == [[2, 4], [6]] and batches == [("a", [1, 2, 3])] and seen == [(2, 3)]


def test_requests_with_other_options_have_a_batch_of_their_own():
    async def scenario(batcher, work):
        submit = batcher.submit
        return await asyncio.gather(submit("a", [1]), submit("b", [2]), submit("a", [3]))

    answers, batches, _ = run(scenario, wait=0.01)
    assert answers == [[2], [4], [6]] and batches == [("a", [1, 3]), ("b", [2])]


def test_a_lone_request_does_not_wait():
    async def scenario(batcher, work):
        return await batcher.submit("a", [1])

    began = time.monotonic()
    answer, _, _ = run(scenario, wait=200.0)
    assert answer == [2] and time.monotonic() - began < 100


def test_a_request_shortly_after_another_waits_for_the_next():
    async def scenario(batcher, work):
        await batcher.submit("a", [1])
        second = asyncio.create_task(batcher.submit("a", [2]))
        await asyncio.sleep(0.05)
        return await asyncio.gather(second, batcher.submit("a", [3]))

    _, batches, _ = run(scenario, wait=5.0, most=2)
    assert batches == [("a", [1]), ("a", [2, 3])]


def test_a_full_batch_does_not_wait():
    async def scenario(batcher, work):
        return await asyncio.gather(*(batcher.submit("a", [n, n]) for n in range(5)))

    _, batches, _ = run(scenario, wait=0.3, most=4)
    assert [items for _, items in batches] == [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4]]


def test_a_large_request_has_a_batch_of_its_own():
    async def scenario(batcher, work):
        return await asyncio.gather(batcher.submit("a", [1]), batcher.submit("a", [*range(12)]))

    _, batches, _ = run(scenario, wait=0.01)
    assert [len(items) for _, items in batches] == [1, 12]


def test_requests_collect_while_a_batch_is_computed():
    async def scenario(batcher, work):
        work.gate.clear()
        first = asyncio.create_task(batcher.submit("a", [1]))
        while not work.batches:
            await asyncio.sleep(0.001)
        later = [asyncio.create_task(batcher.submit("a", [n])) for n in (2, 3, 4)]
        await asyncio.sleep(0.05)
        assert batcher.queued == 3
        work.gate.set()
        await asyncio.gather(first, *later)

    _, batches, _ = run(scenario, wait=0.0)
    assert [items for _, items in batches] == [[1], [2, 3, 4]]


def test_a_full_queue_refuses_and_a_cancelled_request_frees_its_place():
    async def scenario(batcher, work):
        work.gate.clear()
        running = asyncio.create_task(batcher.submit("a", [1]))
        while not work.batches:
            await asyncio.sleep(0.001)
        waiting = asyncio.create_task(batcher.submit("a", [2, 3, 4]))
        await asyncio.sleep(0)
        with pytest.raises(Full):
            await batcher.submit("b", [5, 6])
        waiting.cancel()
        await asyncio.sleep(0)
        assert batcher.queued == 0
        last = asyncio.create_task(batcher.submit("b", [5, 6]))
        await asyncio.sleep(0)
        work.gate.set()
        return await asyncio.gather(running, last)

    answers, batches, _ = run(scenario, wait=0.0, capacity=4)
    assert answers == [[2], [10, 12]]
    assert batches == [("a", [1]), ("b", [5, 6])]  # the cancelled items were not computed


def test_closing_cancels_requests_that_wait_and_those_that_are_computed():
    async def scenario(batcher, work):
        work.gate.clear()
        running = [asyncio.create_task(batcher.submit("a", [n])) for n in (1, 2)]
        while not work.batches:
            await asyncio.sleep(0.001)
        waiting = asyncio.create_task(batcher.submit("a", [3]))
        await asyncio.sleep(0)
        batcher.close()
        return await asyncio.gather(*running, waiting, return_exceptions=True)

    answers, batches, _ = run(scenario, wait=0.0)
    assert batches == [("a", [1, 2])]
    assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 3


def test_a_request_does_not_fail_because_of_another():
    async def scenario(batcher, work):
        return await asyncio.gather(
            batcher.submit("a", [1]), batcher.submit("a", [13]), return_exceptions=True
        )

    (good, bad), batches, _ = run(scenario)
    assert good == [2] and isinstance(bad, ValueError)
    assert batches == [("a", [1, 13]), ("a", [1]), ("a", [13])]


def test_after_a_failure_only_requests_that_still_wait_are_computed_and_counted():
    async def scenario(batcher, work):
        work.gate.clear()
        good, _, gone = tasks = [
            asyncio.create_task(batcher.submit("a", [number])) for number in (1, 13, 2)
        ]
        while not work.batches:
            await asyncio.sleep(0.001)
        gone.cancel()
        await asyncio.sleep(0)
        work.gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return good.result()

    answer, batches, seen = run(scenario, wait=0.0)
    assert answer == [2] and batches == [("a", [1, 13, 2]), ("a", [1]), ("a", [13])]
    assert seen == [(1, 1)]


def test_no_item_needs_no_batch():
    async def scenario(batcher, work):
        return await batcher.submit("a", [])

    assert run(scenario)[:2] == ([], [])
