"""A trained run behind the server: its answers are those of `Run`, and nothing is compiled late."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax import decoding, serving
from tests.serving.conftest import started

LINES = [
    "We sleep.",
    "The man saw a house.",
    "",
    "I am tired in Canada.",
    "No.",
    "He sleeps in a white house in the north of Canada.",
]
SETTINGS = serving.Settings(warm_tokens=16, batch_lines=8, batch_wait_ms=200)


@pytest.fixture(scope="module")
def run(trained):
    return bj.load(trained[0])


@pytest.fixture(scope="module")
def client(run):
    with started({"small": run}, SETTINGS) as client:
        yield client.until_ready()


def compiled(client) -> float:
    lines = client.get("/metrics").text.splitlines()
    (line,) = (line for line in lines if line.startswith("bahdanau_compilations_total"))
    return float(line.split()[-1])


def agrees(answer, expected):
    """An answer equals a hypothesis; numbers to the precision of float32."""
    assert answer["text"] == expected.text and answer["tokens"] == [*expected.tokens]
    assert answer["finished"] == expected.finished
    for name in ("score", "log_probabilities"):
        np.testing.assert_allclose(answer[name], getattr(expected, name), rtol=1e-4, atol=1e-5)
    if "alpha" in answer:
        given = np.array(answer["alpha"]).reshape(expected.alpha.shape)
        np.testing.assert_allclose(given, expected.alpha, atol=1e-4)


@pytest.mark.slow
def test_nothing_is_compiled_after_ready(client):
    before = compiled(client)
    assert before > 0
    for rows in (1, 3, 8):
        lines = (LINES * 2)[:rows]
        answer = client.post("/translate", json={"lines": lines, "attention": True})
        assert answer.status_code == 200
        pairs = [{"source": line, "target": line} for line in lines]
        assert client.post("/score", json={"pairs": pairs}).status_code == 200
        assert client.post("/align", json={"pairs": pairs}).status_code == 200
    assert compiled(client) == before
    client.post("/translate", json={"lines": ["We sleep."], "n_best": 2})
    assert compiled(client) > before  # the counter counts


SEARCHES = {
    "the best": ({}, {}),
    "n-best": ({"n_best": 3, "attention": True}, {"n_best": 3}),
    "normalised": (
        {"search": {"length_normalization": "average", "coverage": 0.2}},
        {"length_normalization": "average", "coverage": 0.2},
    ),
    "sampled": (
        {"n_best": 2, "search": {"method": "sample", "temperature": 0.7, "seed": 5}},
        {"n_best": 2, "method": "sample", "temperature": 0.7, "seed": 5},
    ),
    "begun": (
        {"prefixes": ["Nous", "", "", "Je", "", "Il"]},
        {"prefixes": ["Nous", "", "", "Je", "", "Il"]},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SEARCHES)
def test_answers_are_those_of_the_run_whatever_shares_their_search(client, run, case):
    body, settings = SEARCHES[case]
    others = {**body, "lines": LINES[:3]}
    others.pop("prefixes", None)
    with ThreadPoolExecutor(3) as threads:
        futures = [
            threads.submit(client.post, "/translate", json=asked)
            for asked in (others, {**body, "lines": LINES}, others)
        ]
        _, asked, _ = [future.result() for future in futures]
    assert asked.status_code == 200, asked.text
    expected = run.translate(LINES, **{"n_best": 1, **settings})
    for answered, ranked in zip(asked.json()["translations"], expected, strict=True):
        assert len(answered) == len(ranked)
        for pair in zip(answered, ranked, strict=True):
            agrees(*pair)


@pytest.mark.slow
def test_scores_and_alignments_are_those_of_the_run(client, run):
    targets = [best.text for best in run.translate(LINES)]
    pairs = [
        {"source": source, "target": target} for source, target in zip(LINES, targets, strict=True)
    ]
    scored = client.post("/score", json={"pairs": pairs, "attention": True}).json()["scores"]
    for answer, expected in zip(scored, run.score(LINES, targets), strict=True):
        agrees(answer, expected)
    asked = {"pairs": pairs, "weights": "posterior", "share": True}
    aligned = client.post("/align", json=asked).json()["alignments"]
    for answer, expected in zip(
        aligned, run.align(LINES, targets, weights="posterior"), strict=True
    ):
        links = expected.links("posterior,share")
        assert {tuple(link) for link in answer["links"]} == links
        weights = expected.weights("posterior,share")
        assert len(answer["weights"]) == len(weights)
        given = np.reshape(answer["weights"], weights.shape)  # JSON has no columns without a row
        np.testing.assert_allclose(given, weights, atol=1e-4)


@pytest.mark.slow
def test_unknown_words_are_replaced(client, run):
    body = {"lines": ["Zyx sleeps."], "replace_unk": True, "search": {"max_ratio": 2.0}}
    (best,) = client.post("/translate", json=body).json()["translations"][0]
    (expected,) = run.translate(["Zyx sleeps."], max_ratio=2.0)
    replaced = decoding.replace_unknown(expected, run.codecs, "Zyx sleeps.")
    assert best["text"] == replaced.text and best.get("original") == replaced.original


def test_lines_of_a_batch_have_their_own_numbers(run):
    lines = ["We sleep.", "He sleeps.", "We sleep."]
    settings = {"n_best": 1, "method": "sample", "seed": 3, "batch_size": 4}
    numbered = run.translate(lines, first=[4, 0, 4], **settings)
    one = run.translate(lines[:1], first=4, **settings)[0]
    assert numbered[0][0].text == numbered[2][0].text == one[0].text
    assert dataclasses.astuple(numbered[1][0])[0] == (
        run.translate(lines[1:2], first=0, **settings)[0][0].text
    )
