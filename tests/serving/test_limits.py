"""The limits of rate and queue, clients that go away, and requests that share a search."""

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from bahdanau_jax.serving.limits import CLIENTS, Limits, Rates
from tests.serving.conftest import searched


def test_each_client_has_a_rate():
    now = [0.0]
    rates = Rates(2.0, lambda: now[0])
    assert [rates.wait("a") for _ in range(4)] == [0.0] * 4  # two seconds at once
    assert rates.wait("a") == 0.5 and rates.wait("b") == 0.0
    now[0] = 0.5
    assert rates.wait("a") == 0.0 and rates.wait("a") == 0.5
    now[0] = 100.0
    assert [rates.wait("a") for _ in range(5)] == [0.0] * 4 + [0.5]


def test_slow_rates_allow_one_request_and_clients_are_forgotten():
    now = [0.0]
    rates = Rates(0.1, lambda: now[0])
    assert rates.wait("a") == 0.0 and rates.wait("a") == 10.0
    for number in range(CLIENTS):
        rates.wait(str(number))
    assert rates.wait("a") == 0.0


def test_a_client_above_its_rate_is_refused(server):
    client = server(rate=0.5)
    assert client.post("/translate", json={"lines": ["a"]}).status_code == 200
    answer = client.post("/translate", json={"lines": ["a"]})
    assert answer.status_code == 429 and answer.headers["retry-after"] == "2"
    assert set(answer.json()) == {"error", "what_to_do"}
    assert client.get("/health/ready").status_code == 200  # has no rate


def test_a_body_that_does_not_arrive_is_refused():
    arrived = asyncio.Event()
    parts = [{"type": "http.request", "body": b"{", "more_body": True}]
    answers = []

    async def receive():
        if parts:
            return parts.pop()
        await arrived.wait()  # for ever
        raise AssertionError

    async def send(message):
        answers.append(message)

    async def app(scope, receive, send):
        raise AssertionError("the request is incomplete")

    limits = Limits(app, rate=0.0, max_body=100, body_seconds=0.01)
    asyncio.run(limits({"type": "http", "method": "POST", "headers": []}, receive, send))
    assert answers[0]["status"] == 408
    assert "did not arrive within 0.01 seconds" in json.loads(answers[1]["body"])["error"]


def answered(headers, parts):
    """What a server with bodies of at most 100 bytes answers, and how many parts it has read."""
    bodies, answers, left = [], [], list(parts)

    async def receive():
        return left.pop(0)

    async def send(message):
        answers.append(message)

    async def app(scope, receive, send):
        bodies.append((await receive())["body"])

    limits = Limits(app, rate=0.0, max_body=100)
    scope = {"type": "http", "method": "POST", "headers": headers}
    asyncio.run(limits(scope, receive, send))
    return answers[0]["status"] if answers else bodies[0], len(parts) - len(left)


def test_a_body_as_long_as_the_limit_is_read_and_a_longer_one_is_refused():
    halves = [
        {"type": "http.request", "body": b"a" * 50, "more_body": True},
        {"type": "http.request", "body": b"b" * 50},
    ]
    assert answered([], halves) == (b"a" * 50 + b"b" * 50, 2)
    assert answered([], [*halves[:1], {"type": "http.request", "body": b"b" * 51}]) == (413, 2)


def test_a_client_that_asks_first_is_refused_before_it_sends_a_large_body():
    parts = [{"type": "http.request", "body": b"a" * 101}]
    asks, size = (b"expect", b"100-Continue"), (b"content-length", b"101")
    assert answered([asks, size], parts) == (413, 0)
    assert answered([size], parts) == (413, 1)
    fits = [{"type": "http.request", "body": b"a" * 100}]
    assert answered([asks, (b"content-length", b"100")], fits) == (b"a" * 100, 1)


def until(holds):
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def queued(client) -> float:
    lines = client.get("/metrics").text.splitlines()
    (line,) = (line for line in lines if line.startswith("bahdanau_queue_lines{"))
    return float(line.split()[-1])


def test_a_full_queue_is_refused_until_there_is_room(server, stub):
    client = server(queue_lines=2, max_lines=2)
    stub.gate.clear()
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(client.post, "/translate", json={"lines": ["a"]})
        until(stub.begun.is_set)
        waiting = threads.submit(client.post, "/translate", json={"lines": ["b", "c"]})
        until(lambda: queued(client) == 2)
        answer = client.post("/translate", json={"lines": ["d"]})
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        assert "2 lines wait already" in answer.json()["error"]
        stub.gate.set()
        assert running.result().status_code == waiting.result().status_code == 200
    assert client.post("/translate", json={"lines": ["d"]}).status_code == 200


def test_a_client_that_goes_away_frees_its_place(server, stub):
    client = server(queue_lines=2, max_lines=2)
    stub.gate.clear()
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(client.post, "/translate", json={"lines": ["a"]})
        until(stub.begun.is_set)
        body = b'{"lines": ["gone", "gone"]}'
        with socket.create_connection((client.base_url.host, client.base_url.port)) as opened:
            head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            opened.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
            until(lambda: queued(client) == 2)
        until(lambda: queued(client) == 0)
        waiting = threads.submit(client.post, "/translate", json={"lines": ["b", "c"]})
        until(lambda: queued(client) == 2)
        stub.gate.set()
        assert running.result().status_code == waiting.result().status_code == 200
    assert [lines for _, lines, _ in stub.searches] == [["a"], ["b", "c"]]
    assert 'endpoint="/translate",status="499"} 1.0' in client.get("/metrics").text


def test_two_clients_share_one_search(server, stub):
    client = server(batch_wait_ms=5_000, batch_lines=2)
    client.post("/translate", json={"lines": ["a"]})  # is alone, and does not wait
    barrier = threading.Barrier(2)

    def ask(line):
        barrier.wait()
        return client.post("/translate", json={"lines": [line]}).json()

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(ask, ["a", "b"]))
    texts = [answer["translations"][0][0]["text"] for answer in answers]
    assert texts == ["A 0", "B 0"]  # each line has its number in its own request
    assert searched(stub) == {"translate": 2}


def test_requests_do_not_share_a_search_where_the_operator_says_so(server, stub):
    client = server(batch_wait_ms=5_000, batch_lines=1)
    with ThreadPoolExecutor(2) as threads:
        for future in [
            threads.submit(client.post, "/translate", json={"lines": [line]}) for line in "ab"
        ]:
            assert future.result().status_code == 200
    assert searched(stub) == {"translate": 2}
