"""Middleware: the limits of a request that hold before its body is read as JSON."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.responses import Response

from bahdanau_jax.serving.api_errors import Refused, response
from bahdanau_jax.serving.metrics import GONE, App, Gone, Receive, Scope, Send

CLIENTS = 10_000  # clients whose rate is remembered
BURST_SECONDS = 2  # seconds of the rate that a client may use at once
BODY_SECONDS = 30.0  # a body should arrive within this time
MOST_DISCARDED = 64 << 20  # bytes of a body that is too large which are read before the answer


class Rates:
    """A token bucket for each client.

    >>> Rates(10.0).wait("127.0.0.1")
    0.0
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic):
        self._rate, self._clock = rate, clock
        self._burst = max(1.0, rate * BURST_SECONDS)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, at this time

    def wait(self, client: str) -> float:
        """Count a request; return 0, or the seconds after which the client may try again."""
        now = self._clock()
        tokens, then = self._left.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        is_allowed = tokens >= 1
        self._left[client] = tokens - is_allowed, now
        if len(self._left) > CLIENTS:
            self._left.popitem(last=False)  # the client that asked longest ago
        return 0.0 if is_allowed else (1 - tokens) / self._rate


class Limits:
    """Middleware that refuses requests above the rate (429), and large (413) or slow bodies (408).

    GET requests, such as those for health and metrics, have no rate.
    """

    def __init__(self, app: App, rate: float, max_body: int, body_seconds: float = BODY_SECONDS):
        self._app, self._max_body, self._body_seconds = app, max_body, body_seconds
        self._rates = Rates(rate) if rate else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            return await self._app(scope, receive, send)
        if refused := self._too_fast(scope):
            return await response(refused)(scope, receive, send)
        try:
            async with asyncio.timeout(self._body_seconds):
                body, is_complete = await self._body(scope, receive)
        except TimeoutError:
            return await response(self._too_slow())(scope, receive, send)
        except Gone:
            return await Response(status_code=GONE)(scope, receive, send)
        if not is_complete:
            return await response(self._too_large())(scope, receive, send)
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Scope:
            return next(messages, None) or await receive()

        await self._app(scope, replay, send)

    def _too_fast(self, scope: Scope) -> Refused | None:
        client = (scope.get("client") or ("unknown",))[0]
        seconds = self._rates.wait(client) if self._rates else 0.0
        if not seconds:
            return None
        return Refused(
            429,
            f"{client} sends more requests than the server's limit of one client (--rate)",
            "send the request again after the seconds of Retry-After; one request may have several "
            "lines",
            math.ceil(seconds),
        )

    async def _body(self, scope: Scope, receive: Receive) -> tuple[bytes, bool]:
        """Read the body; (what was read, False) where it is too large. Raises Gone.

        The rest of a large body is read and dropped. Otherwise the server would close a connection
        to which the client still writes, and the client might not see the answer.
        """
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if (
            int(declared) > self._max_body
            and headers.get(b"expect", b"").lower() == b"100-continue"
        ):
            return b"", False
        pieces, size = [], 0
        while size <= max(MOST_DISCARDED, self._max_body):
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            size += len(message.get("body", b""))
            if size <= self._max_body:
                pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                break
        return b"".join(pieces), size <= self._max_body

    def _too_slow(self) -> Refused:
        return Refused(
            408,
            f"the body did not arrive within {self._body_seconds:g} seconds",
            "send fewer lines in one request, or use a faster connection",
        )

    def _too_large(self) -> Refused:
        return Refused(
            413,
            f"the body has more than {self._max_body:,} bytes (--max-body)",
            "send fewer or shorter lines in one request",
        )
