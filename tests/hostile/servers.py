"""Chat servers with slow, endless or invalid replies.

Each gets one question and one attempt. Except for `TAKEN`, whose replies are valid but odd, the
question must end in time with an error that can be fixed, never with a reply.
"""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from leakbound.errors import IncompleteError, ModelError
from leakbound.served import server
from leakbound.served.endpoint import open_served_chat
from leakbound.served.server import Patience
from leakbound.types import Decoding
from misbehaving import Answer, chat_server, says
from tiny import request

GREEDY = Decoding(temperature=0, max_new_tokens=9)
ONCE = Patience(timeout=5, whole=0.4, attempts=1, concurrency=1)
LONG = replace(ONCE, timeout=60, whole=60)  # for a valid answer on a busy machine
PROPER = says("x").body.encode()
Script = Callable[[socket.socket], None]


def ask(url: str, folder: Path, patience: Patience = ONCE) -> str | None:
    """The reply of a server to one question."""
    chat = open_served_chat(f"{url}#m", folder=folder, patience=patience)
    return chat.chat([request("r", "who")], GREEDY, 0)[0]


def outcome(name: str, folder: Path) -> tuple[str, str]:
    """Return (same, refused, wrong or traceback; reason) for the hostile server of this name."""
    began, answer = time.monotonic(), Answer(instead=SERVERS[name])
    try:
        with patch.object(server, "_LARGEST", 1 << 20), chat_server(lambda *_: answer) as served:
            reply = ask(served.url, folder, LONG if name in (*TAKEN, *REASONS) else ONCE)
    except (IncompleteError, ModelError) as error:
        late = time.monotonic() - began > LATE
        return ("wrong", "too late") if late else ("refused", str(error))
    except Exception as error:  # any traceback
        return "traceback", repr(error)
    return ("same", "") if name in TAKEN and reply == "x" else ("wrong", repr(reply))


LATE = 30  # seconds in which 0.4 seconds of patience must end on a busy machine


def head(*lines: str, status: str = "200 OK") -> bytes:
    """The head of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


def drip(text: bytes) -> Script:
    """Send single bytes, each in time."""

    def script(connection: socket.socket) -> None:
        for byte in text * 1000:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    return script


def sends(*pieces: bytes) -> Script:
    """Send these pieces one after another."""

    def script(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return script


def then(first: Script, second: Script) -> Script:
    """One script after another."""

    def script(connection: socket.socket) -> None:
        first(connection)
        second(connection)

    return script


def _body(content: bytes, *lines: str, status: str = "200 OK") -> Script:
    return sends(head(*lines, f"content-length: {len(content)}", status=status), content)


CHUNKED = "transfer-encoding: chunked"


def _json(value: Any) -> Script:
    return _body(json.dumps(value).encode())


def _message(message: Any) -> Script:
    return _json({"choices": [{"message": message}]})


def _packed(kind: str, content: bytes) -> Script:
    return _body(content, f"content-encoding: {kind}")


DRIPS: Mapping[str, Script] = {
    "drips the status line": drip(b"HTTP/1.1 200 OK\r\nx: y"),
    "drips headers": drip(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 99),
    "drips the body": then(sends(head("content-length: 9999999")), drip(b" ")),
    "drips a body without end": then(sends(head()), drip(b" ")),
    "drips chunks": then(sends(head(CHUNKED)), drip(b"1\r\n \r\n")),
}
BODIES: Mapping[str, Script] = {
    "nests too deeply": _body(b"[" * 100_000),
    "speaks no UTF-8": _body(b"\xff\xfe"),
    "says NaN": _body(b"NaN"),
    "says nothing": _body(b""),
    "says half a character": _message({"content": "\ud800"}),
}
_OTHERS: Mapping[str, Script] = {
    "says nothing and hangs up": sends(),
    "says nothing and waits": lambda connection: time.sleep(2),
    "floods a body": sends(head(), *[b" " * 65536] * 40),
    "floods headers": sends(b"HTTP/1.1 200 OK\r\n", *[b"x: " + b"y" * 60_000 + b"\r\n"] * 40),
    "floods the status line": sends(b"HTTP/1.1 200 " + b"O" * 3_000_000),
    "floods chunks": sends(head(CHUNKED), *[b"10000\r\n" + b" " * 65536 + b"\r\n"] * 40),
    "promises more than it sends": sends(head("content-length: 999"), PROPER),
    "promises less than it sends": sends(head("content-length: 5"), PROPER),
    "promises 10^30 bytes": sends(head(f"content-length: {10**30}"), PROPER),
    "promises two lengths": sends(head("content-length: 5", "content-length: 99"), PROPER),
    "sends a chunk of 2^64 bytes": sends(head(CHUNKED), b"ffffffffffffffff0\r\nx"),
    "ends within a chunk": sends(head(CHUNKED), b"10\r\nx"),
    "packs a bomb": _packed("gzip", gzip.compress(b"[" + b" " * 50_000_000)),
    "packs nonsense": _packed("gzip", b"nonsense"),
    "packs with brotli": _packed("br", b"nonsense"),
    "packs in an unknown way": _packed("evil", PROPER),
    "speaks HTTP 9": sends(b"HTTP/9.9 200 OK\r\n\r\n", PROPER),
    "speaks no HTTP": sends(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "has a status of 7": sends(head(status="7 Odd"), PROPER),
    "goes on and on": sends(*[head(status="100 Continue")] * 100_000),
    "redirects elsewhere": _body(b"", "location: http://127.0.0.1:1/", status="302 Found"),
    "is not there": _body(b"{}", status="404 Not Found"),
    "is overwhelmed for ever": _body(b"{}", "retry-after: 999999999", status="429 Wait"),
    "fails with escapes": _body(b"\x1b]52;c;ZXZpbA==\x07", status="500 Failed"),
    "upgrades": sends(head("upgrade: websocket", "connection: upgrade", status="101 Switching")),
    "says a page": _body(b"<html>who</html>", "content-type: text/html"),
    "says a list": _json([]),
    "says no choices": _json({"choices": []}),
    "says no message": _json({"choices": [{}]}),
    "says a message that is text": _message("x"),
    "says a content that is a number": _message({"content": 7}),
    "cuts its JSON": _body(PROPER[:-3]),
    "says a number of 5,000 digits": _body(b'{"choices": ' + b"9" * 5000 + b"}"),
}  # fmt: skip
SERVERS: Mapping[str, Script] = {**DRIPS, **BODIES, **_OTHERS}
REASONS: Mapping[str, str] = {
    "floods a body": "more than 1 MiB",
    "packs a bomb": "forbidden compression 'gzip'",
    "says a content that is a number": "an invalid reply",
    **dict.fromkeys(BODIES, "an invalid reply"),
}
"""Messages about some servers; the others have less time."""
TAKEN = frozenset({"speaks HTTP 9"})
"""Servers whose reply is valid."""
