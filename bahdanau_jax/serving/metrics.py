"""The numbers of the server for Prometheus."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from jax import monitoring
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    exposition,
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
GONE = 499  # the status of a request whose client went away, as nginx counts it
COMPILED = "/jax/core/compile/backend_compile_duration"
CONTENT_TYPE = exposition.CONTENT_TYPE_LATEST


class Gone(Exception):
    """The client closed its connection before it was answered."""


class Metrics:
    """Counters and histograms of one application, in a registry of their own.

    `compiled` is the number of programs since it was last set to 0.
    """

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.compiled = 0
        ProcessCollector(registry=own)
        self.requests = Counter(
            "bahdanau_requests",
            "requests by endpoint and status",
            ["endpoint", "status"],
            registry=own,
        )
        self.errors = Counter(
            "bahdanau_errors", "answers with a status of 400 or more", ["endpoint"], registry=own
        )
        self.seconds = Histogram(
            "bahdanau_request_seconds",
            "time from a request to its answer",
            ["endpoint"],
            buckets=SECONDS,
            registry=own,
        )
        self.queue = Gauge(
            "bahdanau_queue_lines", "lines that wait for their search", ["run"], registry=own
        )
        self.batch_lines = Histogram(
            "bahdanau_batch_lines", "lines of a batch", ["run"], buckets=SIZES, registry=own
        )
        self.batch_requests = Histogram(
            "bahdanau_batch_requests",
            "requests that share a batch",
            ["run"],
            buckets=SIZES,
            registry=own,
        )
        self.ready = Gauge("bahdanau_ready", "1 once all programs are compiled", registry=own)
        self.compilations = Counter(
            "bahdanau_compilations", "programs compiled or read from the cache", registry=own
        )

    def text(self) -> bytes:
        """Return all numbers in Prometheus's text format."""
        return exposition.generate_latest(self.registry)

    def count_compilations(self) -> Callable[[], None]:
        """Count the process's compilations from now on; the returned function ends this."""

        def compiled(event: str, duration_secs: float, **_: str | int) -> None:
            if event == COMPILED:
                self.compilations.inc()
                self.compiled += 1

        monitoring.register_event_duration_secs_listener(compiled)
        return lambda: monitoring.unregister_event_duration_listener(compiled)


class Measured:
    """Middleware that counts and times every request by its route, and not by its address."""

    def __init__(self, app: App, metrics: Metrics, endpoints: frozenset[str]):
        self._app, self._metrics, self._endpoints = app, metrics, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        status, start = 500, time.perf_counter()

        async def noting(message: Scope) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            path = scope["path"]
            endpoint = path if path in self._endpoints else "other"
            self._metrics.requests.labels(endpoint, status).inc()
            if status >= 400:
                self._metrics.errors.labels(endpoint).inc()
            self._metrics.seconds.labels(endpoint).observe(time.perf_counter() - start)
