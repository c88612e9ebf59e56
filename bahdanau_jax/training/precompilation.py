"""Programs compiled before they are needed, several at a time, while the rest is made ready.

The compiler runs without Python's lock, so the parameters are drawn and the first steps are made
while later shapes are still being compiled. What was compiled once is found on disk the next time.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax

from bahdanau_jax.training.compile_log import CacheHits

Shapes = tuple[tuple[int, ...], ...]  # of the arrays of a batch


class Program(NamedTuple):
    """A compiled update for one shape."""

    run: Callable[[Any, Any], tuple[Any, Any]]
    seconds: float  # to trace and to compile it, or to find it on disk; 0: in its first step
    found: bool  # on disk


def shapes_of(batch: Any) -> Shapes:
    return tuple(leaf.shape for leaf in jax.tree.leaves(batch))


def once_a_shape(prepare: Callable[[Any], object]) -> Callable[[Any], object]:
    """A function that calls `prepare` with the first batch of each shape, and passes the others."""
    done: set[Shapes] = set()

    def prepared(batch: Any) -> None:
        if (shapes := shapes_of(batch)) not in done:
            prepare(batch)
            done.add(shapes)

    return prepared


class Ahead:
    """A jitted update whose programs are made in threads, in the order in which they are needed.

    `state` may be of arrays or of `jax.ShapeDtypeStruct`; `batches` are examples as `step` takes
    them, one a shape. A shape that is not among them is left to `step` itself. A program that is
    needed before its turn is compiled at once. `compiling` is told, in the same thread, which batch
    a program is made for, `made` of each that is ready, and `first_step` of the first step. Several
    processes, which step through the same shapes, give `meet`: all wait for the last one's program
    before they run their own.

    >>> with contextlib.closing(Ahead(step, state, examples, workers=2)) as step:
    ...     state, sums = step(state, batch)
    """

    def __init__(
        self,
        step: Any,  # of jax.jit: it has `lower`
        state: Any,
        batches: Iterable[Any],
        workers: int,
        compiling: Callable[[Any], None] = lambda batch: None,
        first_step: Callable[[Program], None] = lambda program: None,
        meet: Callable[[], None] | None = None,
        made: Callable[[], None] = lambda: None,
    ):
        self._step, self._compiling, self._first_step = step, compiling, first_step
        self._meet, self._hits, self._told = meet, CacheHits(), made
        self._threads = ThreadPoolExecutor(workers, "compile")
        self._state = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state)
        self._made: dict[Shapes, Future[Program]] = {}
        for batch in batches:
            self._made[shapes_of(batch)] = self._threads.submit(self._make, batch)
        self._stepped = False

    def _make(self, batch: Any) -> Program:
        self._compiling(batch)
        hits, start = self._hits.count, time.perf_counter()
        compiled = self._step.lower(self._state, batch).compile()
        self._told()
        return Program(compiled, time.perf_counter() - start, self._hits.count > hits)

    def program(self, batch: Any) -> Program:
        """The program for the shapes of a batch, made now where it still waits in line."""
        shapes = shapes_of(batch)
        made = self._made.get(shapes)
        if made is None and self._meet is None:
            return Program(self._step, 0.0, False)
        if made is None or made.cancel():
            made = self._made[shapes] = Future()
            if self._meet is None:  # a signal's handler can interrupt the wait for a thread
                threading.Thread(target=self._fill, args=(made, batch), daemon=True).start()
            else:  # messages between devices wait for 30 s at most
                self._fill(made, batch)
                self._meet()
        return made.result()

    def _fill(self, made: Future[Program], batch: Any) -> None:
        try:
            made.set_result(self._make(batch))
        except BaseException as error:
            made.set_exception(error)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        program = self.program(batch)
        result = program.run(state, batch)
        if not self._stepped:
            self._stepped = True
            jax.block_until_ready(result)
            self._first_step(program)
        return result

    def close(self) -> None:
        """What is not begun is never compiled; what is being compiled ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._hits.close()
