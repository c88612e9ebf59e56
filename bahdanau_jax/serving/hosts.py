"""Middleware: which names of this server a request may have in its header Host.

A page of another site can have its own name resolved to 127.0.0.1 (DNS rebinding); the browser then
sends its requests here, and lets the page read the answers. Their Host is still the other name.
"""

import ipaddress
import socket
from collections.abc import Collection

from bahdanau_jax.serving.api_errors import Refused, response
from bahdanau_jax.serving.metrics import App, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on an address, or on the address of a name.

    >>> is_loopback("127.0.0.2"), is_loopback("LOCALHOST"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(socket.getaddrinfo(host, None)[0][4][0]).is_loopback
    except (OSError, ValueError):  # no address of this machine
        return False


def answered_hosts(host: str, further: Collection[str] = (), address: str = "") -> tuple[str, ...]:
    """Return the names that a server on a host answers; an empty tuple: any name.

    Where names are restricted, those of this machine are among them, as for a local health check.
    `address` is the one that the server is bound to, where `host` is a name.

    Raises ValueError where one of the `further` names has a scheme or a port.

    >>> answered_hosts("127.0.0.1", ["translate.example.org"])
    ('127.0.0.1', 'localhost', '::1', 'translate.example.org')
    >>> answered_hosts("0.0.0.0")
    ()
    """
    for each in further:
        if not _is_name(each):
            raise ValueError(
                f"--allow-host is {each!r}, but should be a name without scheme and port, such as "
                "translate.example.org"
            )
    if not further and not is_loopback(host):
        return ()
    own = (*LOOPBACK, host.lower(), *filter(None, [address]))
    return tuple(dict.fromkeys((*own, *further)))


def _is_name(host: str) -> bool:
    """Whether a header Host can have this name: a name without scheme and port, or an address."""
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return bool(host) and "/" not in host and name(host) == host.lower().removesuffix(".")


def name(header: str) -> str:
    """Return the name in a header Host, without its port.

    >>> name("localhost:8000"), name("[::1]:8000")
    ('localhost', '::1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower().removesuffix(".")


class Hosts:
    """Middleware that refuses requests to other names with 421.

    A request of HTTP/1.0 may lack the header. Every browser sends it.
    """

    def __init__(self, app: App, names: Collection[str]):
        self._app, self._names = app, frozenset(each.lower().removesuffix(".") for each in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._names:
            return await self._app(scope, receive, send)
        header = dict(scope["headers"]).get(b"host")
        asked = None if header is None else name(header.decode("latin-1"))
        is_old = asked is None and scope["http_version"] == "1.0"
        if is_old or asked in self._names:
            return await self._app(scope, receive, send)
        refused = Refused(
            421,
            f"this server does not answer for the name {(asked or '')[:100]!r}",
            "use the address that it printed; behind a reverse proxy, start it with --allow-host "
            "and the proxy's name",
        )
        await response(refused)(scope, receive, send)
