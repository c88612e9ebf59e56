"""The endpoints that compute: from a request to work, and from its results to the answer."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from starlette.responses import Response

from bahdanau_jax import alignment, decoding
from bahdanau_jax.aligner import LONGEST, Aligned
from bahdanau_jax.hypothesis import EMPTY, Hypothesis
from bahdanau_jax.serving import request_models, shared_work
from bahdanau_jax.serving.api_errors import Refused, as_json
from bahdanau_jax.serving.metrics import GONE, Gone
from bahdanau_jax.serving.service import Service, unused
from bahdanau_jax.trained import Run

# (service, request) -> a function that makes the JSON value of the answer
Answering = Callable[[Service, Any], Awaitable[Callable[[], dict[str, Any]]]]
Result = TypeVar("Result")

# Attention weights of an answer: 20 MB as JSON, 80 MB as numbers of Python, and nearly a second
# of writing, in which the interpreter answers nobody else.
MOST_WEIGHTS = 2_000_000


def endpoint(service: Service, model: type, answering: Answering) -> Callable[..., Any]:
    """Return the function of an endpoint, whose body is a `model`.

    The work ends, or leaves the queue, where the client goes away. The answer is written as JSON in
    a thread, since the attention weights of long lines take some time.
    """

    async def answer(request: Request, body: Any) -> Response:
        async def work() -> bytes:
            make = await answering(service, body)
            return await asyncio.to_thread(lambda: as_json(make()))

        try:
            content = await _unless_gone(request, work())
        except Gone:
            return Response(status_code=GONE)
        return Response(content, media_type="application/json")

    answer.__annotations__["body"] = model
    return answer


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of the work, or cancel it and raise Gone once the client goes away."""

    async def wait_until_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(wait_until_gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Gone
    finally:
        working.cancel()
        leaving.cancel()


async def _translate(
    service: Service, body: request_models.TranslateRequest
) -> Callable[[], dict[str, Any]]:
    name, run = service.named(body.run)
    settings = service.searching(run, body.n_best, body.preset, body.search)
    prefixes = [""] * len(body.lines) if body.prefixes is None else body.prefixes
    if len(prefixes) != len(body.lines):
        raise Refused(
            422,
            f"there are {len(body.lines)} lines but {len(prefixes)} prefixes",
            'give each line a prefix, "" for none, or leave prefixes out',
        )
    lines = [
        shared_work.Line(*line, number)
        for number, line in enumerate(zip(body.lines, prefixes, strict=True))
    ]
    options = shared_work.Translate(settings, body.n_best, any(prefixes))
    lists = await service.work(name, options, lines)
    if body.attention:
        _check_size(h for ranked in lists for h in ranked)
    warnings = [*unused(body.search, settings, of_scores=False)]

    def make() -> dict[str, Any]:
        nonlocal lists
        if body.replace_unk:
            lists = [
                decoding.replace_in_all(ranked, run.codecs, line, settings)
                for line, ranked in zip(body.lines, lists, strict=True)
            ]
        rows = [[_hypothesis(h, body.attention) for h in ranked] for ranked in lists]
        return {"run": name, "translations": rows, "warnings": warnings}

    return make


async def _score(
    service: Service, body: request_models.ScoreRequest
) -> Callable[[], dict[str, Any]]:
    name, run = service.named(body.run)
    pairs = await _pairs(run, body.pairs)
    settings = service.searching(run, search=body.search)
    scored = await service.work(name, shared_work.Score(settings), pairs)
    if body.attention:
        _check_size(scored)
    warnings = [*unused(body.search, settings, of_scores=True)]

    def make() -> dict[str, Any]:
        rows = [
            {**_hypothesis(h, body.attention), "log_probability": sum(h.log_probabilities)}
            for h in scored
        ]
        return {"run": name, "scores": rows, "warnings": warnings}

    return make


async def _align(
    service: Service, body: request_models.AlignRequest
) -> Callable[[], dict[str, Any]]:
    name, run = service.named(body.run)
    service.check_weights(run, body.weights)
    service.check_level(run, body.level)
    pairs = await _pairs(run, body.pairs)
    options = shared_work.Align(service.searching(run), body.level, body.weights)
    aligned = await service.work(name, options, pairs)
    _check_size(aligned)
    kind = f"{body.weights},share" if body.share else body.weights

    def make() -> dict[str, Any]:
        rows = [_alignment(pair, kind, body.threshold, body.eos) for pair in aligned]
        return {"run": name, "alignments": rows}

    return make


ANSWERS: Mapping[str, Answering] = MappingProxyType(
    {"translate": _translate, "score": _score, "align": _align}
)


async def _pairs(run: Run, given: Sequence[request_models.GivenPair]) -> list[shared_work.Pair]:
    """Return the pairs. Raises Refused for one whose attention weights would be too large."""

    def find() -> Refused | None:
        for number, pair in enumerate(given):
            sides = zip(run.codecs, (pair.source, pair.target), strict=True)
            size = max(len(codec.encode(line)) - 1 for codec, line in sides)  # without EOS
            if size > LONGEST:
                return Refused(
                    422,
                    f"pairs.{number} has a side of {size} tokens, more than {LONGEST}",
                    "split the pair into sentences",
                )
        return None

    if refused := await asyncio.to_thread(find):
        raise refused
    return [(pair.source, pair.target) for pair in given]


def _check_size(results: Iterable[Hypothesis | Aligned]) -> None:
    """Raise Refused where an answer would have too many attention weights."""
    size = sum(result.alpha.size for result in results)
    if size > MOST_WEIGHTS:
        raise Refused(
            422,
            f"the answer would have {size:,} attention weights, more than {MOST_WEIGHTS:,}",
            "ask for fewer or shorter texts, or for fewer translations",
        )


def _hypothesis(hypothesis: Hypothesis, attention: bool) -> dict[str, Any]:
    if attention:
        return hypothesis.to_json()
    fields = dataclasses.replace(hypothesis, alpha=EMPTY.alpha).to_json()
    del fields["alpha"]
    return fields


def _alignment(pair: Aligned, kind: str, threshold: float | None, eos: str) -> dict[str, Any]:
    links = pair.links(kind, threshold, eos)
    weights = np.asarray(pair.weights(kind), np.float64)
    return {
        "source": list(pair.source),
        "target": list(pair.target),
        "links": sorted([list(link) for link in links]),
        "pharaoh": alignment.format_pharaoh(links),
        "log_probability": pair.score,
        "weights": weights.round(6).tolist(),
    }
