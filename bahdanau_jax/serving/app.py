"""The ASGI application: its endpoints, its middleware and its OpenAPI description."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from importlib import metadata
from types import MappingProxyType
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI
from fastapi import Response as HttpResponse

from bahdanau_jax.serving import api_errors, endpoints, request_models
from bahdanau_jax.serving import response_models as answers
from bahdanau_jax.serving.grace import Grace
from bahdanau_jax.serving.hosts import Hosts
from bahdanau_jax.serving.limits import Limits
from bahdanau_jax.serving.metrics import CONTENT_TYPE, App, Measured, Metrics, Receive, Scope, Send
from bahdanau_jax.serving.service import Service
from bahdanau_jax.serving.serving_settings import Settings, check
from bahdanau_jax.trained import Run

# Status -> when it is answered, for the OpenAPI description.
WORK_ERRORS: Mapping[int, str] = MappingProxyType(
    {
        400: "The body is not JSON in UTF-8.",
        408: "The body does not arrive in time.",
        413: "The body is too large.",
        421: "The header Host has a name that the server does not answer.",
        422: "The request has fields or values that do not fit.",
        429: "The client sends more requests than its rate allows.",
        503: "The queue is full, or the server is not ready, or it stops.",
    }
)
DESCRIPTION = """Translations by recurrent networks with attention (RNNsearch, arXiv 1409.0473).

Every error has the form `{"error": "...", "what_to_do": "..."}`. Requests that arrive within some
milliseconds and have equal options share one search; this does not change their answers.
"""


class Page(NamedTuple):
    """What a path of the server answers besides the API."""

    content: Callable[[], str | bytes]  # the body of an answer, computed for each request
    media_type: str = "text/html"  # its Content-Type
    headers: Mapping[str, str] = MappingProxyType({})  # further headers of the answer


def application(
    runs: Mapping[str, Run],
    settings: Settings = Settings(),  # noqa: B008 (it is frozen)
    pages: Mapping[str, Page] = MappingProxyType({}),
    hosts: Collection[str] = (),
) -> FastAPI:
    """Return the ASGI application that serves these runs by their names, the first by default.

    Its programs are compiled when it starts; `app.state.service` is its `Service`. `pages` are
    further addresses that are read by GET, such as "/". `hosts` are the names that a request may
    have in its header Host, such as those of `answered_hosts`; empty: any. Raises ValueError for
    settings that do not fit, and for no run.

    >>> app = application({"quickstart": load("runs/quickstart")}, Settings(max_lines=16))
    """
    check(settings)
    if not runs:
        raise ValueError("the server needs at least one run")
    metrics = Metrics()
    service = Service(runs, settings, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        stop_counting = metrics.count_compilations()
        service.start()
        try:
            yield
        finally:
            await service.close()
            stop_counting()

    app = FastAPI(
        title="bahdanau serve",
        description=DESCRIPTION,
        version=_version(),
        lifespan=lifespan,
        docs_url=None,  # its page would load scripts from another server
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.include_router(_work(service))
    app.include_router(_state(service))
    for path, page in pages.items():
        app.add_api_route(path, _shown(page), include_in_schema=False)
    paths = frozenset(app.openapi()["paths"]) | {*pages, "/openapi.json"}
    app.add_middleware(Heads)  # pyright: ignore
    app.add_middleware(Limits, rate=settings.rate, max_body=settings.max_body)  # pyright: ignore
    app.add_middleware(Grace, service=service)  # pyright: ignore
    app.add_middleware(Hosts, names=hosts)  # pyright: ignore
    app.add_middleware(Measured, metrics=metrics, endpoints=paths)  # pyright: ignore
    api_errors.install(app)
    return app


class Heads:
    """Middleware that answers HEAD as GET without its body, which the server leaves out."""

    def __init__(self, app: App):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)


def _version() -> str:
    try:
        return metadata.version("bahdanau-jax")
    except metadata.PackageNotFoundError:
        return "0"


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"model": answers.ErrorAnswer, "description": WORK_ERRORS[status]}
        for status in statuses
    }


def _work(service: Service) -> APIRouter:
    """The endpoints that compute: POST /translate, /score and /align."""
    router = APIRouter(tags=["work"])
    models = request_models.models(service.settings, list(service.runs))
    table = {
        "translate": (models.translate, answers.TranslateAnswer, "Translate lines of text."),
        "score": (models.score, answers.ScoreAnswer, "Score given translations."),
        "align": (models.align, answers.AlignAnswer, "Link the words of given translations."),
    }
    for name, (model, answer, summary) in table.items():
        router.add_api_route(
            f"/{name}",
            endpoints.endpoint(service, model, endpoints.ANSWERS[name]),
            methods=["POST"],
            name=name,
            summary=summary,
            response_model=answer,
            responses=_errors(*WORK_ERRORS),
        )
    return router


def _state(service: Service) -> APIRouter:
    """The endpoints that tell of the server: GET /runs, /health/live, /health/ready, /metrics."""
    router = APIRouter(tags=["state"])

    @router.get("/runs", summary="List the runs.", response_model=answers.RunsAnswer)
    async def runs() -> Any:
        return {"runs": [_described(name, run) for name, run in service.runs.items()]}

    @router.get(
        "/health/live", summary="Whether the process answers.", response_model=answers.HealthAnswer
    )
    async def live() -> Any:
        return {"status": "live"}

    @router.get(
        "/health/ready",
        summary="Whether requests are answered: 200, or 503 with Retry-After.",
        response_model=answers.HealthAnswer,
        responses=_errors(503),
    )
    async def ready() -> Any:
        service.check_ready()
        return {"status": "ready"}

    @router.get(
        "/metrics",
        summary="Numbers of the server in Prometheus's text format.",
        response_class=HttpResponse,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def numbers() -> HttpResponse:
        return HttpResponse(service.metrics.text(), media_type=CONTENT_TYPE)

    return router


def _described(name: str, run: Run) -> dict[str, Any]:
    return {
        "name": name,
        "source_language": run.config.data.source_language,
        "target_language": run.config.data.target_language,
        "source_vocabulary": run.config.model.source_vocabulary,
        "target_vocabulary": run.config.model.target_vocabulary,
        "search": dataclasses.asdict(run.config.decoding),
    }


def _shown(page: Page) -> Callable[[], HttpResponse]:
    def show() -> HttpResponse:
        return HttpResponse(page.content(), headers=dict(page.headers), media_type=page.media_type)

    return show
