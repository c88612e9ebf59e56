"""Errors as clients see them: {"error": ..., "what_to_do": ...}, for every status."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bahdanau_jax.parsing import json_text

DESCRIBED = "GET /openapi.json describes every endpoint, with examples"
SHOWN = 5  # faults of one request that its answer lists
LONGEST = 300  # characters of a fault, which may repeat the name of a field
RETRY_SECONDS = 1  # what Retry-After says where the wait is not known

# Status -> (error, what to do), where the framework answers by itself.
STANDARD: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        400: ("the body is not valid JSON", f"send one JSON object in UTF-8; {DESCRIBED}"),
        404: ("there is nothing at this address", DESCRIBED),
        405: ("this address does not answer this method", f"see the header Allow; {DESCRIBED}"),
        500: (
            "the server has a fault",
            "report the request with the traceback that the server has written to stderr",
        ),
    }
)


class Refused(Exception):
    """A request that is not answered, with its status, the reason and what to do."""

    def __init__(self, status: int, error: str, what_to_do: str, retry: int | None = None):
        super().__init__(error)
        self.status, self.error, self.what_to_do = status, error, what_to_do
        self.headers = {} if retry is None else {"Retry-After": str(retry)}


def as_json(value: Any) -> bytes:
    """Return JSON in UTF-8, with null in place of NaN and infinity."""
    return json_text(value).encode("utf-8", "replace")


def response(refused: Refused) -> Response:
    """Return the answer to a refused request."""
    body = as_json({"error": refused.error, "what_to_do": refused.what_to_do})
    return Response(body, refused.status, refused.headers, "application/json")


def install(app: FastAPI) -> None:
    """Let every error of an application have the common shape."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _standard)
    app.add_exception_handler(Exception, _fault)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return response(error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [_in_words(fault) for fault in error.errors()]
    more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    text = "; ".join(fault[:LONGEST] for fault in faults[:SHOWN]) + more
    return response(Refused(422, text, f"correct the request; {DESCRIBED}"))


def _in_words(fault: Mapping[str, Any]) -> str:
    """Describe a fault that pydantic has found, such as `lines.0: Input should be a string`."""
    if fault["type"] == "json_invalid":
        return f"the body is not valid JSON ({fault['ctx']['error']})"
    place = ".".join(str(part) for part in fault["loc"][1:])
    if not place and fault["type"] in ("missing", "model_attributes_type"):
        return "the body should be a JSON object, with the header Content-Type: application/json"
    return f"{place or 'the body'}: {fault['msg']}"


async def _standard(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what, to_do = STANDARD.get(error.status_code, (str(error.detail), DESCRIBED))
    refused = Refused(error.status_code, what, to_do)
    refused.headers |= error.headers or {}
    return response(refused)


async def _fault(request: Request, error: Exception) -> Response:
    refused = Refused(500, *STANDARD[500])
    refused.headers["Connection"] = "close"  # the server writes the traceback and closes it
    return response(refused)
