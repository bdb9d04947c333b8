"""The local server: who may ask, what is answered, and with which headers.

It listens on the loopback address alone. Every address holds a token that is drawn when the server
starts: other users of the machine do not know it, nor do pages of other sites, which reach it
through a browser. A request under another host's name, which a hostile name server can make point
here, is refused.
"""

from __future__ import annotations

import hmac
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from leakbound.errors import InputError

ADDRESS = "127.0.0.1"
_TOKEN_BYTES = 24
_SECONDS = 20  # that a request may take to arrive
ALWAYS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request.

    Attributes:
        body: as bytes.
        kind: its content type.
        policy: what a browser may load and run of it.
        status: of the answer.
        headers: others.
    """

    body: bytes
    kind: str = "text/html; charset=utf-8"
    policy: str = NOTHING
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def plain(cls, status: HTTPStatus, text: str) -> Response:
        """One line of text."""
        return cls(f"{text}\n".encode(), "text/plain; charset=utf-8", status=status)


Asked = Mapping[str, list[str]]
"""The query of an address: what stands behind its question mark."""

Respond = Callable[[tuple[str, ...], Asked], Response | None]
"""(the parts of the path behind the token, the query) -> the answer; None where there is none."""

_NO_SUCH = Response.plain(HTTPStatus.NOT_FOUND, "There is no such page.")
_REFUSED = Response.plain(
    HTTPStatus.FORBIDDEN, "Use the whole address that `leakbound view` printed."
)
_METHOD = replace(
    Response.plain(HTTPStatus.METHOD_NOT_ALLOWED, "Pages here are only read: GET or HEAD."),
    headers={"Allow": "GET, HEAD"},
)


class _Server(ThreadingHTTPServer):
    allow_reuse_address = sys.platform != "win32"  # there, others could take the port too

    def __init__(self, port: int, respond: Respond) -> None:
        self.token, once = (secrets.token_urlsafe(_TOKEN_BYTES) for _ in range(2))
        self.respond, self.once = respond, [once]
        super().__init__((ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        """Take the port, and ask no name server what it is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, int(self.server_address[1])

    @property
    def hosts(self) -> frozenset[str]:
        """The names under which it may be asked."""
        return frozenset(f"{name}:{self.server_port}" for name in (ADDRESS, "localhost"))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "leakbound", ""
    timeout = _SECONDS

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer())

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # any other method
            return lambda: self._send(_METHOD)
        raise AttributeError(name)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request, in one line."""
        self.command = getattr(self, "command", None) or "GET"
        self._send(Response.plain(HTTPStatus(code), "This request is not understood."))

    def log_message(self, format: str, *args: object) -> None:
        """Addresses hold the token: nothing is logged."""

    def _answer(self) -> Response:
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            return _REFUSED
        try:
            address = urlsplit(self.path)
            first, token, *parts = address.path.split("/")
            query = parse_qs(address.query, keep_blank_values=True, max_num_fields=1000)
        except ValueError:
            return _REFUSED
        if first or not _equal(token, self.server.token):
            return self._once(token)
        try:
            response = self.server.respond(tuple(map(unquote, parts)), query)
        except Exception as error:  # a fault of ours: told, and the others go on
            text = f"{type(error).__name__}: {error}"
            return Response.plain(HTTPStatus.INTERNAL_SERVER_ERROR, f"This page failed ({text}).")
        return response or _NO_SUCH

    def _once(self, word: str) -> Response:
        """Lead whoever says the word that opens once to the address; then it opens nothing."""
        once = self.server.once
        if self.command == "GET" and once and _equal(word, once[0]) and once.pop():
            to = {"Location": f"/{self.server.token}/"}
            return replace(Response.plain(HTTPStatus.FOUND, "It is there now."), headers=to)
        return _REFUSED

    def _send(self, answer: Response) -> None:
        self.send_response(answer.status)
        headers = {
            **ALWAYS,
            **answer.headers,
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.body)),
            "Content-Security-Policy": answer.policy,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _equal(word: str, other: str) -> bool:
    """Compared in a time that tells nothing."""
    return hmac.compare_digest(word.encode(), other.encode())


@dataclass(frozen=True, slots=True)
class Served:
    """Where it is served.

    Attributes:
        address: with the token.
        opening: an address that leads there once. A browser is told this one: other users of the
            machine can read the arguments of its process.
    """

    address: str
    opening: str


@contextmanager
def served(respond: Respond, port: int) -> Iterator[Served]:
    """Serve on this port of the loopback address, 0 for a free one.

    InputError where the port cannot be had.
    """
    try:
        server = _Server(port, respond)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"port {port} cannot be had ({error}). Name another with --port, or leave it out for a "
            "free one."
        ) from error
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    host = f"http://{ADDRESS}:{server.server_port}"
    try:
        yield Served(f"{host}/{server.token}/", f"{host}/{server.once[0]}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
