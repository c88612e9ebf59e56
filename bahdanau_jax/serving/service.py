"""The service behind the endpoints: requests become batches of work, and results JSON values."""

import asyncio
import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from bahdanau_jax import decoding
from bahdanau_jax.config import SEARCHES, Config, DecodingConfig
from bahdanau_jax.data import check_level, cores
from bahdanau_jax.model import check_link_weights
from bahdanau_jax.serving import shared_work
from bahdanau_jax.serving.api_errors import RETRY_SECONDS, Refused
from bahdanau_jax.serving.batching import Batcher, Full
from bahdanau_jax.serving.metrics import Metrics
from bahdanau_jax.serving.request_models import OF_SCORES, Search
from bahdanau_jax.serving.serving_settings import Settings
from bahdanau_jax.trained import Run
from bahdanau_jax.variants import search_contradictions, without_effect

log = logging.getLogger(__name__)
# Programs of rare settings stay in memory, whose number of mappings the system limits. After this
# many, all are dropped; those that are needed again are read from the cache on disk.
MOST_PROGRAMS = 1_000
Options = shared_work.Translate | shared_work.Score | shared_work.Align


class Service:
    """Loaded runs with a worker thread each. `start` belongs to the event loop of the requests.

    Attributes:
        is_ready: whether the programs of ordinary requests are compiled.
        is_stopping: whether further requests are refused.
        has_cancelled: whether requests in flight were cancelled after the time of grace.
        failure: the error that ended the compilation of programs; None where there is none.
        on_failure: is called after such an error.
        on_ready: is called once the programs are compiled.
    """

    def __init__(self, runs: Mapping[str, Run], settings: Settings, metrics: Metrics):
        self.runs, self.settings, self.metrics = dict(runs), settings, metrics
        self.is_ready = self.is_stopping = self.has_cancelled = False
        self.failure: BaseException | None = None
        self.on_failure: Callable[[], object] = lambda: None
        self.on_ready: Callable[[], object] = lambda: None
        self._batchers: dict[str, Batcher] = {}
        self._warming: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the workers and, behind them, the compilation of programs; also after `close`."""
        if self._warming is not None:
            self.is_ready = self.is_stopping = self.has_cancelled = False
            self.failure = None
            self.metrics.ready.set(0)
        for name, run in self.runs.items():
            batcher = Batcher(
                functools.partial(self._compute, run),
                wait=self.settings.batch_wait_ms / 1000,
                most=self.settings.batch_lines,
                capacity=self.settings.queue_lines,
                observe=functools.partial(self._observe, name),
            )
            self._batchers[name] = batcher
            self.metrics.queue.labels(name).set_function(lambda batcher=batcher: batcher.queued)
        self._warming = asyncio.get_running_loop().create_task(self._warm())

    @property
    def is_busy(self) -> bool:
        """Whether a worker computes."""
        return any(batcher.is_busy for batcher in self._batchers.values())

    def stop(self) -> None:
        """Refuse further requests; those that were accepted are answered."""
        self.is_stopping = True

    async def close(self) -> None:
        """End the workers. Requests without an answer are cancelled."""
        self.stop()
        if self._warming is not None:
            self._warming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._warming
        for batcher in self._batchers.values():
            batcher.close()

    def _observe(self, name: str, requests: int, lines: int) -> None:
        self.metrics.batch_requests.labels(name).observe(requests)
        self.metrics.batch_lines.labels(name).observe(lines)

    def _compute(self, run: Run, options: Options, items: Sequence[Any]) -> Sequence[Any]:
        results = shared_work.compute(run, options, items)
        if self.metrics.compiled > MOST_PROGRAMS:
            self.metrics.compiled = 0
            jax.clear_caches()
        return results

    async def _warm(self) -> None:
        try:
            for name in self.runs:
                await self._batchers[name].in_thread(functools.partial(self._warm_run, name))
        except Exception as error:
            self.failure = error
            log.error("no program could be compiled: %s", error)
            self.on_failure()
            return
        self.is_ready = True
        self.metrics.ready.set(1)
        self.on_ready()

    def _warm_run(self, name: str) -> None:
        """Compile the programs of ordinary requests in as many threads as there are cores."""
        run, tokens = self.runs[name], self.settings.warm_tokens
        settings = self.searching(run)
        programs = decoding.programs(*run.models(), settings, tokens)
        with ThreadPoolExecutor(cores(), "bahdanau compiler") as threads:
            list(threads.map(self._unless_stopping, programs if tokens else ()))
        if tokens and not self.is_stopping:  # the small programs around the large ones
            best = shared_work.compute(
                run, shared_work.Translate(settings, 1, False), [shared_work.Line("a", "", 0)]
            )[0][0]
            for options in (
                shared_work.Score(settings),
                shared_work.Align(settings, "word", "attention"),
            ):
                shared_work.compute(run, options, [("a", best.text or "a")])

    def _unless_stopping(self, work: Callable[[], object]) -> None:
        if not self.is_stopping:
            work()

    def check_ready(self) -> None:
        """Raise Refused while programs are compiled, and once the server stops."""
        if self.is_stopping:
            raise Refused(503, "the server is stopping", "send the request to another server", 5)
        if self.failure is not None:
            raise Refused(
                503,
                f"the server could not compile its programs: {self.failure}",
                "start the server again",
                60,
            )
        if not self.is_ready:
            raise Refused(
                503,
                "the server still compiles its programs",
                "send the request again once GET /health/ready answers 200",
                5,
            )

    def named(self, name: str | None) -> tuple[str, Run]:
        """Return a run with its name; by default the first."""
        chosen = next(iter(self.runs)) if name is None else name
        return chosen, self.runs[chosen]

    async def work(self, name: str, options: Options, items: Sequence[Hashable]) -> list[Any]:
        """Return a result for each item, computed together with other requests of these options.

        Raises Refused where the queue is full, and where the items do not fit into memory.
        """
        self.check_ready()
        batcher = self._batchers[name]
        try:
            return await batcher.submit(options, items)
        except Full:
            raise Refused(
                503,
                f"{batcher.queued} lines wait already, and the queue has room for "
                f"{self.settings.queue_lines} (--queue-lines)",
                "send the request again after the seconds of Retry-After",
                RETRY_SECONDS,
            ) from None
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
                raise
            raise Refused(
                503,
                "the server has not enough memory for this request",
                "send fewer or shorter lines, or ask for a smaller beam",
            ) from error

    def searching(
        self, run: Run, n_best: int = 1, preset: str | None = None, search: Search | None = None
    ) -> DecodingConfig:
        """Return the settings of a search. Raises Refused for settings that do not fit."""
        base = SEARCHES[preset] if preset else run.config.decoding
        changes = search.model_dump(exclude_none=True) if search else {}
        settings = dataclasses.replace(base, **changes, max_source=run.config.decoding.max_source)
        changed = dataclasses.replace(run.config, decoding=settings)
        for fault in search_contradictions(changed):
            raise Refused(
                422, fault.replace("decoding.", "search."), "correct the settings of the search"
            )
        width = decoding.METHODS[settings.method].width(settings, n_best)
        if width < n_best:
            raise Refused(
                422,
                f"n_best is {n_best}, but the beam has {width} hypotheses",
                f"set search.beam_size to at least {n_best}, or ask for fewer translations",
            )
        if preset and width > self.settings.max_beam:
            raise Refused(
                422,
                f"the preset {preset} has {width} hypotheses, and the server allows "
                f"{self.settings.max_beam} (--max-beam)",
                f"set search.beam_size to at most {self.settings.max_beam}",
            )
        rows = shared_work.rows(settings, n_best, self.settings.batch_lines)
        return dataclasses.replace(settings, batch_size=rows)

    def check_weights(self, run: Run, weights: str) -> None:
        """Raise Refused for weights of links that the model does not have."""
        for member in run.members:
            try:
                check_link_weights(weights, member.config.model)
            except ValueError as error:
                raise Refused(422, str(error), "ask for the weights attention") from None

    def check_level(self, run: Run, level: str) -> None:
        """Raise Refused for a level of words that the run's languages do not have."""
        settings = run.config.data
        try:
            check_level(level, (settings.source_language, settings.target_language))
        except ValueError as error:
            raise Refused(422, str(error), "ask for the level word") from None


def unused(search: Search, settings: DecodingConfig, of_scores: bool) -> Iterator[str]:
    """Yield a warning for each setting of a request that has no effect, on scores or at all."""
    for name in search.model_dump(exclude_none=True):
        if of_scores and name not in OF_SCORES:
            yield f"search.{name} has no effect on a score"
            continue
        for _, other, value in without_effect(Config(decoding=settings), [f"decoding.{name}"]):
            other = other.replace("decoding.", "search.")
            yield f"search.{name} counts only with {other} {value}"
