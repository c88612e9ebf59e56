"""Requests that schemathesis makes from the server's OpenAPI description, right and wrong."""

import contextlib
import re
from collections import Counter

import hypothesis
import pytest

from bahdanau_jax import serving
from bahdanau_jax.config import DataConfig
from tests.explorer import pages
from tests.serving.conftest import Stub, started

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

EXAMPLES = 150  # requests of each endpoint
OF_A_MODEL = 30  # of a real model, which compiles programs for the settings of each
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


@pytest.fixture(scope="module")
def served():
    """A server in a thread, of a stand-in for a model, and its description."""
    stub = Stub(codecs=pages.codecs(DataConfig(train=pages.CORPUS)))
    stub.gate.set()
    with description_of(stub) as description:
        yield description


@contextlib.contextmanager
def description_of(run):
    """The description of a server of this run, which is in a thread."""
    with started({"stub": run}, serving.Settings(warm_tokens=0, rate=0)) as client:
        client.until_ready()
        yield schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")


def test_all_operations_are_tried(served):
    operations = [result.ok() for result in served.get_all_operations()]
    assert sorted((each.method.upper(), each.path) for each in operations) == sorted(PLACES)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), PLACES)
def test_requests_of_the_description_are_answered_as_described(served, method, path):
    statuses = check_answers(served, method, path, EXAMPLES)
    assert 200 in statuses and (method == "GET" or statuses[422] > 10), statuses


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", ["/translate", "/score", "/align"])
def test_a_model_answers_requests_as_described(path):
    """A stand-in for a model accepts settings at which a real one may fail."""
    with description_of(pages.run()) as description:
        statuses = check_answers(description, "POST", path, OF_A_MODEL)
    assert 200 in statuses, statuses


def check_answers(served, method, path, examples):
    """No 5xx; statuses, types and answers as described; wrong requests refused, right ones not."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    statuses = Counter()
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    operation = served[path][method]
    for mode in modes if method == "POST" else modes[:1]:

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def ask(case):
            answer = case.call(timeout=300)  # a program may be compiled first
            statuses[answer.status_code] += 1
            is_combination = answer.status_code == 422 and COMBINATION.search(answer.text)
            excluded = [positive_data_acceptance] if is_combination else []
            case.validate_response(answer, excluded_checks=excluded)

        ask()
    return statuses
