"""Requests that are made from the server's OpenAPI description, right and wrong."""

import re
from collections import Counter

import hypothesis
import pytest

from bahdanau_jax import serving
from bahdanau_jax.config import DataConfig, DecodingConfig
from tests.explorer import pages
from tests.serving.conftest import Stub, started

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

EXAMPLES = 150  # requests of each endpoint
PLACES = (  # the operations of the description
    ("POST", "/translate"),
    ("POST", "/score"),
    ("POST", "/align"),
    ("GET", "/runs"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
)
# Errors of requests whose fields fit alone, but not together, which a schema does not say.
COMBINATION = re.compile(
    r"n_best is \d+, but the beam has \d+|\d+ lines but \d+ prefixes|the preset \w+ has \d+ hyp|"
    r"search\.min_ratio is [\d.e-]+, but should be below search\.max_ratio|"
    r"link weights '\w+' need a model of order|has a side of \d+ tokens"
)
SETTINGS = serving.Settings(warm_tokens=0, rate=0)


@pytest.fixture(scope="module")
def served():
    """A server in a thread, of a stand-in for a model, and its description."""
    stub = Stub(codecs=pages.codecs(DataConfig(train=pages.CORPUS)))
    stub.gate.set()
    with started({"stub": stub}, SETTINGS) as client:
        client.until_ready()
        yield schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")


def test_all_operations_are_tried(served):
    operations = [result.ok() for result in served.get_all_operations()]
    assert sorted((each.method.upper(), each.path) for each in operations) == sorted(PLACES)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), PLACES)
def test_requests_of_the_description_are_answered_as_described(served, method, path):
    """No 5xx; statuses, types and answers as described; wrong requests refused, right ones not."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    statuses = Counter()
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    operation = served[path][method]
    for mode in modes if method == "POST" else modes[:1]:

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def ask(case):
            answer = case.call()
            statuses[answer.status_code] += 1
            is_combination = answer.status_code == 422 and COMBINATION.search(answer.text)
            excluded = [positive_data_acceptance] if is_combination else []
            case.validate_response(answer, excluded_checks=excluded)

        ask()
    assert 200 in statuses and (method == "GET" or statuses[422] > 10), statuses


def bounds(setting):
    """The values of a described setting: each name, or the least and the largest number."""
    kind = setting["anyOf"][0]  # the other one is null
    if kind["type"] == "boolean":
        return [False, True]
    if "enum" in kind:
        return kind["enum"]
    largest = kind["exclusiveMaximum"] - 1 if "exclusiveMaximum" in kind else kind["maximum"]
    return [kind["minimum"], largest]


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["beam", "sample"])
def test_a_model_answers_at_the_bounds_of_each_setting(method):
    """The stand-in accepts settings at which the search of a real model may fail."""
    run = pages.run(decoding=DecodingConfig(beam_size=3))
    statuses = Counter()
    with started({"tiny": run}, SETTINGS) as client:
        client.until_ready()
        search = client.get("/openapi.json").json()["components"]["schemas"]["Search"]
        for name, setting in search["properties"].items():
            for value in bounds(setting):
                body = {"lines": ["The man sleeps ."], "search": {"method": method, name: value}}
                answer = client.post("/translate", json=body)
                statuses[answer.status_code] += 1
                is_combination = answer.status_code == 422 and COMBINATION.search(answer.text)
                assert answer.status_code == 200 or is_combination, (body, answer.text)
    assert statuses == {200: 29, 422: 1}  # a min_ratio of 100
