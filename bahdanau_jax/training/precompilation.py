"""Compiles the update for several padded shapes at once, before training needs them.

The compiler runs without Python's global lock: training starts while later shapes are still being
compiled. JAX's compilation cache on disk keeps the programs for the next start.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax

from bahdanau_jax import data
from bahdanau_jax.training.compile_log import CacheHits

Shapes = tuple[tuple[int, ...], ...]  # of the arrays of a batch


class Program(NamedTuple):
    """A compiled update for one padded shape."""

    run: Any  # the jax.stages.Compiled, (state, batch) -> (state, sums), or the jitted update
    seconds: float  # to trace and compile it; 0: this happens in its first step
    cached: bool  # whether it was read from the compilation cache


def shapes_of(batch: Any) -> Shapes:
    """The shapes of a batch's arrays, of which each has a program."""
    return tuple(leaf.shape for leaf in jax.tree.leaves(batch))


def once_a_shape(prepare: Callable[[Any], object]) -> Callable[[Any], object]:
    """A function that calls `prepare` with the first batch of each shape, and ignores others."""
    done: set[Shapes] = set()

    def prepared(batch: Any) -> None:
        if (shapes := shapes_of(batch)) not in done:
            prepare(batch)
            done.add(shapes)

    return prepared


class Ahead:
    """A jitted update whose programs are compiled in threads, in the order of their need.

    Other shapes than those of `batches` are left to `step` itself or, with a `barrier`, compiled
    when they are needed. A program that is needed before its turn is compiled at once.

    Args:
        step: the jitted update.
        state: a tree of arrays or of `jax.ShapeDtypeStruct`.
        batches: one example of each shape, as `step` takes it.
        workers: the number of threads; None: one for each two cores, since a compilation keeps
            nearly two cores busy.
        compiling: is called with the batch before its program is compiled, in the same thread.
        first_step: is called with the program after the first step.
        barrier: is called by several processes, so that all wait for the slowest compilation before
            they run the program.
        finished: is called after each compilation.

    >>> with contextlib.closing(Ahead(step, state, examples)) as step:
    ...     state, sums = step(state, batch)
    """

    def __init__(
        self,
        step: Any,  # the result of jax.jit, which has `lower`
        state: Any,
        batches: Iterable[Any],
        workers: int | None = None,
        compiling: Callable[[Any], None] = lambda batch: None,
        first_step: Callable[[Program], None] = lambda program: None,
        barrier: Callable[[], None] | None = None,
        finished: Callable[[], None] = lambda: None,
    ):
        self._step, self._compiling, self._first_step = step, compiling, first_step
        self._barrier, self._hits, self._finished = barrier, CacheHits(), finished
        workers = workers or max(1, data.cores() // 2)
        self._threads = ThreadPoolExecutor(workers, "compile")
        self._state = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state)
        self._futures: dict[Shapes, Future[Program]] = {}
        for batch in batches:
            self._futures[shapes_of(batch)] = self._threads.submit(self._make, batch)
        self._stepped = False

    def _make(self, batch: Any) -> Program:
        self._compiling(batch)
        hits, start = self._hits.count, time.perf_counter()
        compiled = self._step.lower(self._state, batch).compile()
        self._finished()
        return Program(compiled, time.perf_counter() - start, self._hits.count > hits)

    def program(self, batch: Any) -> Program:
        """The program for the shapes of a batch. It is compiled now if no thread has begun it."""
        shapes = shapes_of(batch)
        future = self._futures.get(shapes)
        if future is None and self._barrier is None:
            return Program(self._step, 0.0, False)
        if future is None or future.cancel():
            future = self._futures[shapes] = Future()
            if self._barrier is None:  # a signal handler can interrupt the wait for a thread
                threading.Thread(target=self._fill, args=(future, batch), daemon=True).start()
            else:  # collectives of the devices time out after 30 s
                self._fill(future, batch)
                self._barrier()
        return future.result()

    def _fill(self, future: Future[Program], batch: Any) -> None:
        try:
            future.set_result(self._make(batch))
        except BaseException as error:
            future.set_exception(error)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        program = self.program(batch)
        result = program.run(state, batch)
        if not self._stepped:
            self._stepped = True
            jax.block_until_ready(result)
            self._first_step(program)
        return result

    def close(self) -> None:
        """Cancel the compilations that have not begun. The others end in their threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._hits.close()
