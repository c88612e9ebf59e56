"""Middleware: answers the requests that uvicorn cancels when the time of grace is over."""

import asyncio

from bahdanau_jax.serving.api_errors import Refused, response
from bahdanau_jax.serving.metrics import App, Receive, Scope, Send
from bahdanau_jax.serving.service import Service


class Grace:
    """Middleware that answers 503 to a request which is cancelled while the server stops.

    The request may still send its body, wait for its results, or read its answer. An answer that
    has begun is cut off.
    """

    def __init__(self, app: App, service: Service):
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        has_begun = False

        async def noting(message: Scope) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            if not self._service.is_stopping:
                raise
            self._service.has_cancelled = True
            if not has_begun:
                await response(self._refused())(scope, receive, send)

    def _refused(self) -> Refused:
        return Refused(
            503, "the server stopped before the answer", "send the request to another server", 5
        )
