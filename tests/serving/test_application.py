"""The endpoints, with a stand-in for the model: answers, errors, pages and the description."""

import asyncio
import dataclasses
import itertools
import math
import time
from typing import get_args

import pytest

from bahdanau_jax import decoding, serving
from bahdanau_jax.alignment import EOS_RULES
from bahdanau_jax.config import SEARCHES, DecodingConfig
from bahdanau_jax.data import LEVELS
from bahdanau_jax.decoding import COMPUTE_DTYPES, METHODS, NORMALIZATIONS
from bahdanau_jax.model import LINK_WEIGHTS
from bahdanau_jax.serving import endpoints, request_models, response_models, service
from tests.serving.conftest import Stub, httpx, started

PAIR = {"source": "a b", "target": "x y z"}


def test_translations_are_described(server):
    client = server()
    answer = client.post("/translate", json={"lines": ["the man", " "]})
    assert answer.status_code == 200, answer.text
    response_models.TranslateAnswer.model_validate(answer.json())
    best, empty = answer.json()["translations"]
    assert best == [
        {
            "text": "THE MAN 0",
            "score": -2.0,
            "confidence": pytest.approx(math.exp(-0.5)),
            "finished": True,
            "tokens": ["THE", "MAN", "0", "</s>"],
            "log_probabilities": [-0.5] * 4,
            "source_tokens": ["the", "man", "</s>"],
        }
    ]
    assert empty[0]["text"] == "" and answer.json()["run"] == "stub"


def test_options_reach_the_search(server, stub):
    client = server()
    body = {
        "lines": ["a", "b"],
        "prefixes": ["x", ""],
        "n_best": 2,
        "attention": True,
        "search": {"beam_size": 4, "length_normalization": "wu", "alpha": 0.5},
    }
    answer = client.post("/translate", json=body).json()
    response_models.TranslateAnswer.model_validate(answer)
    assert [[h["text"] for h in ranked] for ranked in answer["translations"]] == [
        ["x A 0"] * 2,
        ["B 1"] * 2,
    ]
    assert answer["translations"][0][0]["alpha"] == [[0.5, 0.5]] * 4
    assert answer["warnings"] == []
    ((_, _, used),) = stub.searches
    wanted = dataclasses.replace(
        stub.config.decoding, beam_size=4, length_normalization="wu", alpha=0.5, batch_size=16
    )
    assert used == wanted


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {"lines": ["a"], "attention": True}),
        ("/score", {"pairs": [PAIR], "attention": True}),
        ("/align", {"pairs": [PAIR]}),
    ],
)
def test_too_many_attention_weights_are_refused(server, monkeypatch, path, body):
    client = server()
    assert client.post(path, json=body).status_code == 200
    monkeypatch.setattr(endpoints, "MOST_WEIGHTS", 3)
    answer = client.post(path, json=body)
    assert answer.status_code == 422 and "attention weights, more than 3" in answer.text
    body.pop("attention", None)
    assert client.post(path, json=body).status_code == (422 if path == "/align" else 200)


def test_unknown_words_are_replaced_where_that_is_asked_for(server, stub, monkeypatch):
    """The replacement itself is tested in tests/decoding; here it sees each line with its list."""

    def replace(ranked, codecs, line, settings):
        assert codecs is stub.codecs and settings.beam_size == 4
        return [dataclasses.replace(h, text=f"{h.text} ({line})", original=h.text) for h in ranked]

    monkeypatch.setattr(decoding, "replace_in_all", replace)
    body = {"lines": ["a", "b"], "search": {"beam_size": 4}}
    texts = {}
    for replaced in (False, True):
        answer = server().post("/translate", json=body | {"replace_unk": replaced}).json()
        texts[replaced] = [
            (ranked[0]["text"], ranked[0].get("original")) for ranked in answer["translations"]
        ]
    assert texts == {
        False: [("A 0", None), ("B 1", None)],
        True: [("A 0 (a)", "A 0"), ("B 1 (b)", "B 1")],
    }


def test_whole_numbers_may_have_a_decimal_point(server):
    client = server()
    for number, status in ((2.0, 200), (2.5, 422), (True, 422), (1e300, 422)):
        answer = client.post("/translate", json={"lines": ["a"], "n_best": number})
        assert answer.status_code == status


def test_a_preset_replaces_the_settings_of_the_run(server, stub):
    client = server()
    client.post("/translate", json={"lines": ["a"], "preset": "groundhog"})
    ((_, _, used),) = stub.searches
    assert used == dataclasses.replace(SEARCHES["groundhog"], batch_size=16)


def test_settings_without_effect_are_warned_of(server):
    body = {"lines": ["a"], "search": {"top_k": 5, "alpha": 1}}
    warnings = server().post("/translate", json=body).json()["warnings"]
    assert warnings == [
        "search.alpha counts only with search.length_normalization wu",
        "search.top_k counts only with search.method sample",
    ]


def test_pairs_are_scored(server):
    answer = server().post("/score", json={"pairs": [PAIR], "attention": True}).json()
    response_models.ScoreAnswer.model_validate(answer)
    (scored,) = answer["scores"]
    assert scored["text"] == "x y z" and scored["log_probability"] == -2.0
    assert len(scored["alpha"]) == 4


def test_settings_without_effect_on_a_score_are_warned_of(server):
    search = {"beam_size": 4, "length_normalization": "wu", "alpha": 0.5, "coverage": 0.2}
    client, body = server(), {"pairs": [PAIR], "search": search}
    warnings = client.post("/score", json=body).json()["warnings"]
    assert warnings == ["search.beam_size has no effect on a score"]
    body["search"] = {"alpha": 0.5, "top_k": 5, "seed": 2, "compute_dtype": "float32"}
    assert client.post("/score", json=body).json()["warnings"] == [
        "search.alpha counts only with search.length_normalization wu",
        "search.top_k has no effect on a score",
        "search.seed has no effect on a score",
    ]


def test_pairs_are_aligned(server):
    pairs = [PAIR, {"source": "", "target": "x"}]
    answer = server().post("/align", json={"pairs": pairs}).json()
    response_models.AlignAnswer.model_validate(answer)
    aligned, blank = answer["alignments"]
    assert aligned["links"] == [[0, 0], [1, 1]] and aligned["pharaoh"] == "0-0 1-1"
    assert aligned["source"] == ["a", "b"] and len(aligned["weights"]) == 4
    assert blank["log_probability"] is None and blank["links"] == []


def test_a_pair_may_have_500_tokens(server):
    pair = {"source": "a " * 500, "target": "b"}
    assert server().post("/align", json={"pairs": [pair]}).status_code == 200


# Requests: (method, path, keyword arguments of the client) -> (status, part of the error).
REFUSED = {
    "no such address": (("GET", "/nothing", {}), (404, "nothing at this address")),
    "a method": (("GET", "/translate", {}), (405, "does not answer this method")),
    "no body": (("POST", "/translate", {}), (422, "should be a JSON object")),
    "no JSON": (
        ("POST", "/translate", {"content": "{", "headers": {"content-type": "application/json"}}),
        (422, "not valid JSON"),
    ),
    "no UTF-8": (
        ("POST", "/score", {"content": b'"\xff"', "headers": {"content-type": "application/json"}}),
        (400, "not valid JSON"),
    ),
    "no Content-Type": (
        ("POST", "/translate", {"content": '{"lines": ["a"]}'}),
        (422, "Content-Type: application/json"),
    ),
    "a missing field": (("POST", "/translate", {"json": {}}), (422, "lines: Field required")),
    "an unknown field": (
        ("POST", "/translate", {"json": {"lines": ["a"], "beam": 3}}),
        (422, "beam: Extra inputs"),
    ),
    "a text for a number": (
        ("POST", "/translate", {"json": {"lines": ["a"], "n_best": "3"}}),
        (422, "n_best: Input should be a valid integer"),
    ),
    "NaN": (
        (
            "POST",
            "/translate",
            {
                "content": '{"lines": ["a"], "search": {"alpha": NaN}}',
                "headers": {"content-type": "application/json"},
            },
        ),
        (422, "search.alpha: Input should be a finite number"),
    ),
    "half a character": (
        (
            "POST",
            "/translate",
            {
                "content": '{"lines": ["\\ud800"]}',
                "headers": {"content-type": "application/json"},
            },
        ),
        (422, "lines.0: Input should be a valid string"),
    ),
    "a ratio of almost 0": (
        ("POST", "/translate", {"json": {"lines": ["a"], "search": {"max_ratio": 5e-324}}}),
        (422, "search.max_ratio: Input should be greater than or equal to 0.1"),
    ),
    "ratios that exclude each other": (
        (
            "POST",
            "/translate",
            {"json": {"lines": ["a"], "search": {"min_ratio": 100, "max_ratio": 0.1}}},
        ),
        (422, "search.min_ratio is 100.0, but should be below search.max_ratio, which is 0.1"),
    ),
    "no line": (("POST", "/translate", {"json": {"lines": []}}), (422, "at least 1 item")),
    "many lines": (("POST", "/translate", {"json": {"lines": ["a"] * 5}}), (422, "at most 4")),
    "a long line": (
        ("POST", "/translate", {"json": {"lines": ["a" * 2_001]}}),
        (422, "lines.0: String should have at most 2000 characters"),
    ),
    "a wide beam": (
        ("POST", "/translate", {"json": {"lines": ["a"], "search": {"beam_size": 11}}}),
        (422, "search.beam_size: Input should be less than or equal to 10"),
    ),
    "a wide preset": (
        ("POST", "/translate", {"json": {"lines": ["a"], "preset": "groundhog"}}),
        (422, "the preset groundhog has 12 hypotheses"),
    ),
    "a narrow beam": (
        ("POST", "/translate", {"json": {"lines": ["a"], "n_best": 4}}),
        (422, "n_best is 4, but the beam has 3 hypotheses"),
    ),
    "too few prefixes": (
        ("POST", "/translate", {"json": {"lines": ["a", "b"], "prefixes": ["x"]}}),
        (422, "2 lines but 1 prefixes"),
    ),
    "no prefix in the list": (
        ("POST", "/translate", {"json": {"lines": ["a"], "prefixes": []}}),
        (422, "1 lines but 0 prefixes"),
    ),
    "another run": (
        ("POST", "/align", {"json": {"pairs": [PAIR], "run": "other"}}),
        (422, "run: Input should be 'stub'"),
    ),
    "weights of another order": (
        ("POST", "/align", {"json": {"pairs": [PAIR], "weights": "shift"}}),
        (422, "link weights 'shift' need a model of order"),
    ),
    "a long pair": (
        ("POST", "/score", {"json": {"pairs": [{"source": "a " * 900, "target": "b"}]}}),
        (422, "pairs.0 has a side of 900 tokens, more than 500"),
    ),
    "a pair that cleaning makes long": (
        ("POST", "/align", {"json": {"pairs": [{"source": "a", "target": "ﷺ" * 30}]}}),
        (422, "pairs.0 has a side of 540 tokens, more than 500"),
    ),
    "10 MB": (("POST", "/translate", {"content": b"x" * 10_000_000}), (413, "1,048,576 bytes")),
    "10 MB without a size": (
        ("POST", "/translate", {"content": itertools.repeat(b"x" * 100_000, 100)}),
        (413, "1,048,576 bytes"),
    ),
    "no memory": (("POST", "/translate", {"json": {"lines": ["memory"]}}), (503, "enough memory")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_every_error_has_one_shape(shared, case):
    (method, path, what), (status, words) = REFUSED[case]
    answer = shared.request(method, path, **what)
    assert answer.status_code == status and answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error", "what_to_do"}
    assert words in answer.json()["error"] and answer.json()["what_to_do"]
    assert shared.post("/translate", json={"lines": ["a"]}).status_code == 200


def test_words_that_a_language_does_not_have_are_refused(stub):
    german = dataclasses.replace(stub.config.data, source_language="de")
    run = dataclasses.replace(stub, config=dataclasses.replace(stub.config, data=german))
    with started({"stub": run}) as client:
        body = {"pairs": [PAIR], "level": "hansards"}
        answer = client.until_ready().post("/align", json=body)
    assert answer.status_code == 422 and "not of language 'de'" in answer.json()["error"]


def test_a_fault_is_an_error_of_the_same_shape(server, caplog):
    client = server()
    answer = client.post("/translate", json={"lines": ["fault"]})
    assert answer.status_code == 500 and set(answer.json()) == {"error", "what_to_do"}
    assert answer.headers.get("Connection") == "close"  # another request on it would be lost
    deadline = time.monotonic() + 300
    while "ZeroDivisionError" not in caplog.text:  # the operator sees the traceback
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert client.post("/translate", json={"lines": ["a"]}).status_code == 200


def test_health_runs_and_numbers(server):
    client = server()
    assert client.get("/health/live").json() == {"status": "live"}
    assert client.get("/health/ready").json() == {"status": "ready"}
    runs = client.get("/runs").json()
    response_models.RunsAnswer.model_validate(runs)
    assert runs["runs"][0]["name"] == "stub" and runs["runs"][0]["search"]["beam_size"] == 3
    client.post("/translate", json={"lines": ["a", "b"]})
    client.get("/a/path/that/nobody/counts")
    numbers = client.get("/metrics")
    assert numbers.headers["content-type"].startswith("text/plain")
    for line in (
        'bahdanau_requests_total{endpoint="/translate",status="200"} 1.0',
        'bahdanau_requests_total{endpoint="other",status="404"} 1.0',
        'bahdanau_errors_total{endpoint="other"} 1.0',
        'bahdanau_request_seconds_count{endpoint="/translate"} 1.0',
        'bahdanau_queue_lines{run="stub"} 0.0',
        'bahdanau_batch_lines_sum{run="stub"} 2.0',
        'bahdanau_batch_requests_count{run="stub"} 1.0',
        "bahdanau_ready 1.0",
    ):
        assert line in numbers.text.splitlines(), line


def test_nothing_is_answered_before_the_programs_are_compiled(stub, monkeypatch):
    from bahdanau_jax import decoding

    stub.gate.clear()
    monkeypatch.setattr(decoding, "programs", lambda *_: [lambda: stub.gate.wait(300)])
    with started({"stub": stub}, serving.Settings(warm_tokens=8)) as client:
        assert client.get("/health/live").status_code == 200
        early = client.get("/health/ready"), client.post("/translate", json={"lines": ["a"]})
        for answer in early:
            assert answer.status_code == 503 and "compiles its programs" in answer.json()["error"]
            assert answer.headers["retry-after"] == "5"
        assert "bahdanau_ready 0.0" in client.get("/metrics").text
        stub.gate.set()
        client.until_ready()


def test_a_failed_compilation_ends_the_server(stub, monkeypatch):
    from bahdanau_jax import decoding

    def fail():
        raise MemoryError

    monkeypatch.setattr(decoding, "programs", lambda *_: [fail])
    app = serving.application({"stub": stub}, serving.Settings(warm_tokens=8))
    with pytest.raises(MemoryError):
        serving.serve(app, serving.bind("127.0.0.1", 0))


def test_programs_of_many_settings_are_dropped(server, monkeypatch):
    client, dropped = server(), []
    monkeypatch.setattr(service.jax, "clear_caches", lambda: dropped.append(True))
    client.post("/translate", json={"lines": ["a"]})
    assert not dropped
    client.app.state.service.metrics.compiled = service.MOST_PROGRAMS + 1
    for _ in range(2):
        client.post("/translate", json={"lines": ["a"]})
    assert dropped == [True]


def test_an_application_ends_its_requests_with_its_lifespan_and_can_begin_another(stub):
    app = serving.application({"stub": stub}, serving.Settings(warm_tokens=0, batch_lines=1))
    transport, numbers = httpx.ASGITransport(app), app.state.service.metrics.text

    async def ask(client):
        while (await client.get("/health/ready")).status_code != 200:
            await asyncio.sleep(0.001)
        return await client.post("/translate", json={"lines": ["a"]})

    async def inside():
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            async with app.router.lifespan_context(app):
                assert (await ask(client)).status_code == 200
                stub.gate.clear()
                stub.begun.clear()
                asked = [asyncio.create_task(ask(client)) for _ in range(2)]
                while b'queue_lines{run="stub"} 1.0' not in numbers() or not stub.begun.is_set():
                    await asyncio.sleep(0.001)
            answers = await asyncio.gather(*asked)
            assert (await client.get("/health/ready")).status_code == 503
            stub.gate.set()
            async with app.router.lifespan_context(app):
                return answers, await ask(client)

    ended, again = asyncio.run(asyncio.wait_for(inside(), 300))
    for answer in ended:
        assert answer.status_code == 503 and "stopped" in answer.json()["error"]
    assert again.status_code == 200, again.text


def test_requests_choose_a_run(stub):
    other = Stub()
    other.gate.set()
    with started({"stub": stub, "other": other}) as client:
        client.until_ready()
        client.post("/translate", json={"lines": ["a"], "run": "other"})
        assert (len(stub.searches), len(other.searches)) == (0, 1)
        client.post("/translate", json={"lines": ["a"]})
        assert (len(stub.searches), len(other.searches)) == (1, 1)


def test_an_application_can_have_pages(stub):
    page = serving.Page(lambda: "<p>é</p>", headers={"content-security-policy": "default-src"})
    with started({"stub": stub}, pages={"/": page}) as client:
        answer = client.get("/")
        assert answer.text == "<p>é</p>" and "text/html" in answer.headers["content-type"]
        assert answer.headers["content-security-policy"] == "default-src"
        assert "/" not in client.get("/openapi.json").json()["paths"]


def test_every_endpoint_is_described_with_examples(server):
    description = server().get("/openapi.json").json()
    schemas = description["components"]["schemas"]
    for name in ("translate", "score", "align"):
        post = description["paths"][f"/{name}"]["post"]
        assert set(post["responses"]) == {"200", "400", "408", "413", "421", "422", "429", "503"}
        for status, answer in post["responses"].items():
            if status != "200":
                schema = answer["content"]["application/json"]["schema"]["$ref"]
                assert schema.endswith("/ErrorAnswer")
        body = schemas[name.title()]
        given = "lines" if name == "translate" else "pairs"
        assert body["properties"][given]["examples"] and body["description"]
    assert "HTTPValidationError" not in schemas
    n_best = schemas["Translate"]["properties"]["n_best"]
    assert (n_best["minimum"], n_best["maximum"]) == (1, 32)
    assert schemas["Translate"]["properties"]["lines"]["items"]["maxLength"] == 2_000


def choices(model, field):
    """The names that a field of a model may have."""
    return {
        name
        for part in get_args(model.model_fields[field].annotation) or ()
        for name in (get_args(part) or (part,))
        if isinstance(name, str)
    }


def test_the_fields_of_requests_are_those_of_the_tables():
    search = set(request_models.Search.model_fields)
    of_search = {field.name for field in dataclasses.fields(DecodingConfig)}
    assert search | {"max_source", "batch_size"} == of_search  # these two are the server's
    translate, _, align = request_models.models(serving.Settings(), ["a"])
    settings = type(translate(lines=["a"], search={}).search)
    assert choices(settings, "method") == set(METHODS)
    assert choices(settings, "length_normalization") == set(NORMALIZATIONS)
    assert choices(settings, "compute_dtype") == set(COMPUTE_DTYPES)
    assert choices(translate, "preset") == set(SEARCHES)
    assert choices(align, "level") == set(LEVELS)
    assert choices(align, "weights") == set(LINK_WEIGHTS)
    assert choices(align, "eos") == set(EOS_RULES)


def test_an_application_needs_a_run_and_settings_that_fit():
    with pytest.raises(ValueError, match="at least one run"):
        serving.application({})
    with pytest.raises(ValueError, match="--batch-lines is 0, but should be at least 1"):
        serving.application({"stub": Stub()}, serving.Settings(batch_lines=0))
    with pytest.raises(ValueError, match="--max-characters is 1048577, .* and at most 1048576$"):
        serving.application({"stub": Stub()}, serving.Settings(max_characters=(1 << 20) + 1))
    with pytest.raises(ValueError, match="give a longer queue"):
        serving.application({"stub": Stub()}, serving.Settings(queue_lines=8))
