"""Requests that somebody made up: names, origins, methods, bytes that are no HTTP, and odd JSON."""

import json
import socket

import pytest

import bahdanau_jax as bj
from bahdanau_jax import serving
from bahdanau_jax.serving.hosts import LOOPBACK, answered_hosts
from tests.serving.conftest import started
from tests.serving.test_limits import until

JSON = {"content-type": "application/json"}
LINE = {"lines": ["a"]}


def is_error(answer, status):
    assert answer.status_code == status, answer.text[:300]
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error", "what_to_do"} and len(answer.text) < 3_000
    return True


@pytest.fixture
def local(stub):
    """A client of a server that answers to the names of this machine, as the commands start it."""
    further = ["Proxy.example", "dotted.example."]
    with started({"stub": stub}, hosts=answered_hosts("127.0.0.1", further)) as client:
        yield client.until_ready()


def test_which_names_a_server_answers():
    assert answered_hosts("127.0.0.1") == LOOPBACK
    assert answered_hosts("0.0.0.0") == ()
    assert answered_hosts("192.0.2.1", ["x.example"]) == (*LOOPBACK, "192.0.2.1", "x.example")
    assert answered_hosts("127.0.0.2") == (*LOOPBACK, "127.0.0.2")
    assert answered_hosts("LOCALHOST") == LOOPBACK
    assert answered_hosts("localhost", address="127.0.1.1") == (*LOOPBACK, "127.0.1.1")
    assert answered_hosts("0.0.0.0", address="0.0.0.0") == ()
    assert answered_hosts("0.0.0.0", ["::2", "X.example."])[-2:] == ("::2", "X.example.")
    for wrong in ("x.example:443", "https://x.example", "x.example/", "", "[::2]", "[::2]:80"):
        with pytest.raises(ValueError, match="should be a name without scheme and port"):
            answered_hosts("127.0.0.1", [wrong])


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST:8000", "[::1]:80", "127.0.0.1", "localhost."),
        *("proxy.example", "dotted.example", "dotted.example.:80"),
    ],
)
def test_its_own_names_are_answered(local, host):
    assert local.get("/health/live", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
def test_another_name_in_the_header_host_is_refused(local, stub, host):
    answer = local.post("/translate", json=LINE, headers={"host": host})
    assert is_error(answer, 421) and "--allow-host" in answer.json()["what_to_do"]
    assert is_error(local.get("/runs", headers={"host": host}), 421) and not stub.searches
    numbers = local.get("/metrics").text
    assert 'bahdanau_requests_total{endpoint="/translate",status="421"} 1.0' in numbers


def test_a_request_of_http_1_0_needs_no_header_host(local):
    with socket.create_connection((local.base_url.host, local.base_url.port), 60) as opened:
        opened.sendall(b"GET /health/live HTTP/1.0\r\n\r\n")
        assert opened.makefile("rb").read().startswith(b"HTTP/1.1 200 ")


def test_the_commands_answer_only_to_names_of_this_machine(monkeypatch, command_line, stub):
    from bahdanau_jax import run_folder, trained

    asked = []

    def application(runs, *arguments, hosts=()):
        asked.append(hosts)
        raise ValueError("enough")

    monkeypatch.setattr(run_folder, "check_run", lambda folder: None)
    monkeypatch.setattr(trained, "load", lambda folder, **how: stub)
    monkeypatch.setattr(serving, "application", application, raising=False)
    further = ("--allow-host", "a.example", "--allow-host", "b.example")
    for options in ((), further, ("--host", "0.0.0.0")):
        assert command_line("serve", "--run", "x", "--port", "0", *options)[0] == 2
    assert asked == [LOOPBACK, (*LOOPBACK, "a.example", "b.example"), ()]


def test_pages_of_other_sites_may_neither_ask_nor_read(server, stub):
    client, origin = server(), {"origin": "https://evil.example"}
    preflight = {**origin, "access-control-request-method": "POST"}
    answers = [client.options("/translate", headers=preflight)]
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {**origin, "content-type": kind}
        answers.append(client.post("/translate", content=json.dumps(LINE), headers=headers))
    answers.append(client.get("/runs", headers=origin))
    assert [answer.status_code for answer in answers] == [405, 422, 422, 422, 200]
    assert not stub.searches
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/translate", "/runs", "/health/live", "/openapi.json"])
@pytest.mark.parametrize("method", ["OPTIONS", "DELETE", "PUT", "PATCH", "TRACE", "PROPFIND"])
def test_other_methods_are_refused_with_those_allowed(shared, path, method):
    answer = shared.request(method, path)
    assert is_error(answer, 405)
    assert answer.headers["allow"] in ("POST", "GET", "GET, HEAD", "HEAD, GET")


def test_a_request_for_the_headers_alone_has_no_body(server):
    client = server()
    for path, status in (("/health/live", 200), ("/openapi.json", 200), ("/translate", 405)):
        answer = client.head(path)
        assert answer.status_code == status and answer.content == b""
        assert answer.headers["content-length"] == client.get(path).headers["content-length"]
    assert client.get("/health/live").status_code == 200


def raw(client, data):
    with socket.create_connection((client.base_url.host, client.base_url.port), 60) as opened:
        opened.sendall(data)
        answer = b""
        while piece := opened.recv(65_536):
            answer += piece
    return answer


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00 TLS\r\n\r\n",
        b"GET / HTTX/1.1\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1_0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
    ],
    ids=["TLS", "version", "negative", "underscore", "header"],
)
def test_what_is_no_http_is_answered_as_json(server, data):
    client = server()
    head, _, body = raw(client, data).partition(b"\r\n\r\n")
    assert b" 400 Bad Request" in head and b"application/json" in head
    assert set(json.loads(body)) == {"error", "what_to_do"}
    assert client.get("/health/live").status_code == 200


# A body -> the status of its answer.
BODIES = {
    "deep": ("[" * 400_000, 400),
    "deep objects": ('{"lines":' * 50_000, 400),
    "a long number": ('{"lines": ["a"], "n_best": ' + "9" * 5_000 + "}", 400),
    "Infinity": ('{"lines": ["a"], "search": {"temperature": Infinity}}', 422),
    "1e999": ('{"lines": ["a"], "search": {"temperature": 1e999}}', 422),
    "a negative temperature": ('{"lines": ["a"], "search": {"temperature": -1}}', 422),
    "a temperature of 0": ('{"lines": ["a"], "search": {"temperature": 0}}', 422),
    "a long name": (json.dumps({**LINE, "x" * 900_000: 1}), 422),
    "many names": (json.dumps({**LINE, **{f"x{i}": 1 for i in range(30_000)}}), 422),
    "half a character in a name": ('{"lines": ["a"], "\\ud800": 1}', 422),
    "10,000 words": (json.dumps({"lines": ["word " * 10_000]}), 422),
    "10,000 lines": (json.dumps({"lines": ["a"] * 10_000}), 422),
    "a list": ("[]", 422),
    "null": ("null", 422),
    "another run": (json.dumps({**LINE, "run": "../../etc/passwd"}), 422),
    "BOM": ("\ufeff" + json.dumps(LINE), 200),
    "characters that control": (json.dumps({"lines": ["\x00\x1b[31m\u202e\u2028"]}), 200),
    "the last value counts": ('{"lines": ["a"], "lines": ["b"]}', 200),
}


@pytest.mark.parametrize("case", BODIES)
def test_odd_json_is_answered(shared, case):
    body, status = BODIES[case]
    answer = shared.post("/translate", content=body.encode(), headers=JSON)
    assert answer.status_code == 200 if status == 200 else is_error(answer, status)
    assert shared.post("/translate", json=LINE).status_code == 200


def test_a_client_that_goes_away_while_it_sends_is_counted_apart(server, stub, caplog):
    client = server()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection((client.base_url.host, client.base_url.port)) as opened:
        opened.sendall(head + b"Content-Length: 1000\r\n\r\n" + b'{"lines": [')
    gone = 'bahdanau_requests_total{endpoint="/translate",status="499"} 1.0'
    until(lambda: gone in client.get("/metrics").text)
    assert not stub.searches and "Traceback" not in caplog.text and not caplog.records


def test_a_client_that_goes_away_during_its_search_leaves_no_traceback(server, stub, caplog):
    client, body = server(), json.dumps(LINE).encode()
    stub.gate.clear()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection((client.base_url.host, client.base_url.port)) as opened:
        opened.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(stub.begun.is_set)
    gone = 'bahdanau_requests_total{endpoint="/translate",status="499"} 1.0'
    until(lambda: gone in client.get("/metrics").text)
    stub.gate.set()
    assert client.post("/translate", json=LINE).status_code == 200
    assert not caplog.records


@pytest.mark.slow
def test_a_trained_model_answers_odd_lines(trained):
    lines = ["", " ", "\x00", "\u2028", "</s>", "<unk> <s>", "😀" * 500, "a " * 1_000, "x" * 2_000]
    with started({"small": bj.load(trained[0])}) as client:
        client.until_ready()
        for line in lines:
            for prefix in ("", "zebra-crossing <unk> </s>", "😀 " * 900, "\n"):
                body = {"lines": [line], "prefixes": [prefix], "search": {"beam_size": 2}}
                answer = client.post("/translate", json=body)
                assert answer.status_code == 200, (line[:20], prefix[:20], answer.text[:500])
