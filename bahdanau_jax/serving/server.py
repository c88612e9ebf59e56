"""The process of the server: its socket, its signals and its end."""

import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from bahdanau_jax.serving.protocol import Protocol

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPING = "bahdanau: answering the requests in flight; Ctrl-C again leaves at once"


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address, and listening. Port 0 is any free one.

    Raises ValueError for an address that is in use, or that this machine does not have.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise ValueError(f"--host {host}: {error}: give an address of this machine") from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen()  # only this finds a socket that another process has bound in between
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(
                f"port {port} of {host} is in use: end the program that uses it, or choose another "
                "one with --port (0: any free port)"
            ) from None
        if error.errno == errno.EACCES:
            raise ValueError(
                f"port {port} needs the rights of an administrator: choose a --port above 1023"
            ) from None
        raise ValueError(f"--host {host} --port {port}: {error.strerror}") from None
    return opened


def url(opened: socket.socket) -> str:
    """Return the address of a socket for clients.

    >>> url(bind("127.0.0.1", 8000))
    'http://127.0.0.1:8000'
    """
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Stopping:
    """The handler of SIGTERM and Ctrl-C while the server runs.

    `message` is the line that the command line shows after Ctrl-C (`cli/leaving.py`).
    """

    message = STOPPING

    def __init__(self, stop: Callable[[], object]):
        self._stop = stop

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._stop()


class _Server(uvicorn.Server):
    """uvicorn's server, whose process exits normally after a signal.

    uvicorn itself raises the signal again after its shutdown, so that the exit code is that of the
    signal.
    """

    def __init__(self, config: uvicorn.Config, stop: Callable[[], object]):
        super().__init__(config)
        self._stop = stop

    def end(self) -> None:
        self._stop()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:  # pyright: ignore
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handler, before = Stopping(self.end), {}
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as in the background of a script
                before[number] = signal.signal(number, handler)
        try:
            yield
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)


def serve(
    app: FastAPI,
    opened: socket.socket,
    grace_seconds: float = 30.0,
    proxy: str = "",
    started: Callable[[Callable[[], None]], object] = lambda end: None,
) -> None:
    """Serve an application of `serving.application` until SIGTERM, Ctrl-C or `end()`.

    Then no further request is accepted, and those in flight are answered.

    Args:
        grace_seconds: after this time, requests in flight are cancelled.
        proxy: the address of a reverse proxy, whose header X-Forwarded-For names the client.
        started: is called first, with the function `end`, which any thread may call.

    Raises the error that ended the compilation of programs, where there was one.
    """
    service = app.state.service
    config = uvicorn.Config(
        app,
        access_log=False,
        http=Protocol,
        loop="asyncio",  # uvloop would take the signals from the thread of cli/leaving.py
        log_config=None,
        lifespan="on",
        ws="none",
        proxy_headers=bool(proxy),
        forwarded_allow_ips=proxy or None,
        server_header=False,
        timeout_graceful_shutdown=grace_seconds,  # pyright: ignore (seconds may be a fraction)
    )
    server = _Server(config, service.stop)
    service.on_failure = server.end
    started(server.end)
    server.run(sockets=[opened])
    if service.failure is not None:
        raise service.failure
