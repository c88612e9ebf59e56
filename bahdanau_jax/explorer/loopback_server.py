"""Serves the explorer's page from memory, by Python's own HTTP server."""

import errno
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

from bahdanau_jax.explorer.explorer_page import Page

# The end of a path -> its type.
TYPES: Mapping[str, str] = MappingProxyType(
    {"html": "text/html; charset=utf-8", "bin": "application/octet-stream"}
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def bind(page: Page, host: str, port: int) -> ThreadingHTTPServer:
    """Return a server of the page, which listens; call its `serve_forever`, then `server_close`.

    Port 0 is any free one; `server_address` has it. Raises OSError, in one line, where the port is
    in use or the host is no address of this machine.

    >>> with bind(page, "127.0.0.1", 0) as server:
    ...     print(address(server))
    """
    files = {"/": ("html", page.html.encode("utf-8"))}
    files |= {f"/{name}": ("bin", data) for name, data in page.files.items()}

    class Handler(BaseHTTPRequestHandler):
        server_version = "bahdanau"
        sys_version = ""

        def do_GET(self) -> None:
            self.answer(True)

        def do_HEAD(self) -> None:
            self.answer(False)

        def answer(self, has_body: bool) -> None:
            name = self.path.partition("?")[0]
            if name not in files:
                self.send_error(HTTPStatus.NOT_FOUND, "the page is at /")
                return
            kind, data = files[name]
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", TYPES[kind])
            self.send_header("Content-Length", str(len(data)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if has_body:
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing: each request would be a line on the terminal."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore readers that went away before the end."""

    try:
        return Server((host, port), Handler)
    except OSError as error:
        raise OSError(_explained(error, host, port)) from error
    except OverflowError as error:
        raise ValueError(f"--port is {port}, but should be between 0 and 65535") from error


def _explained(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: choose another --port, or --port 0 for a free one"
    if error.errno == errno.EACCES:
        return f"port {port} needs the rights of an administrator: choose a --port above 1023"
    return f"{host}:{port} cannot be served ({error.strerror or error}): use --host 127.0.0.1"


def address(server: ThreadingHTTPServer) -> str:
    """Return the address of the page."""
    host, port = server.server_address[:2]
    return f"http://{host}:{port}/"
