"""Servers that lie, drip or flood: whatever comes, time and memory are limited and it is said."""

from __future__ import annotations

import gzip
import json
import socket
import time
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path

import pytest

from chatting import request
from hostile.servers import BODIES, SERVERS, TAKEN, Script, head, outcome, sends
from leakbound.engines import server
from leakbound.engines.endpoint import EndpointChat
from leakbound.engines.server import Patience
from leakbound.errors import IncompleteError, ModelError
from leakbound.types import Decoding
from misbehaving import Answer, chat_server, fails, raw_server, says

GREEDY = Decoding(temperature=0, max_new_tokens=9)
ONCE = Patience(timeout=60, attempts=1, concurrency=1)
DRIP = 10.0  # seconds
PROPER = says("x").body.encode()


def ask(url: str, folder: Path, patience: Patience = ONCE) -> str | None:
    chat = EndpointChat.open(f"{url}#m", cache=folder, patience=patience)
    return chat.chat([request("r", "who")], GREEDY, 0)[0]


@dataclass
class Drip:
    """A byte now and then, none of them late, until the client hangs up."""

    text: bytes
    before: Script = field(default=lambda _: None)
    tired: bool = False  # before the client was

    def __call__(self, connection: socket.socket) -> None:
        self.before(connection)
        end = time.monotonic() + DRIP
        for byte in cycle(self.text):
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
            if time.monotonic() > end:
                self.tired = True
                return


@pytest.mark.slow
@pytest.mark.parametrize(
    "drip",
    [
        Drip(b"HTTP/1.1 200 OK\r\nx: y" + b"y" * 999),
        Drip(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 99),
        Drip(b" ", sends(head("content-length: 9999999"))),
        Drip(b" ", sends(head())),
        Drip(b"1\r\n \r\n", sends(head("transfer-encoding: chunked"))),
    ],
    ids=["status line", "headers", "body", "endless body", "chunks"],
)
def test_a_slow_drip_is_cut_when_its_time_is_up(tmp_path: Path, drip: Drip) -> None:
    with raw_server(drip) as url, pytest.raises(IncompleteError, match="without a reply"):
        ask(url, tmp_path, replace(ONCE, whole=0.4))
    assert not drip.tired


def test_a_body_without_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_LARGEST", 1 << 20)
    flood = sends(head(), *[b" " * 65536] * 40)
    with raw_server(flood) as url, pytest.raises(IncompleteError, match="more than 1 MiB"):
        ask(url, tmp_path)


def test_a_compressed_body_is_not_blown_up(tmp_path: Path) -> None:
    bomb = gzip.compress(b"[" + b" " * 50_000_000)
    answer = sends(head("content-encoding: gzip", f"content-length: {len(bomb)}"), bomb)
    with raw_server(answer) as url, pytest.raises(IncompleteError, match="compressed by 'gzip'"):
        ask(url, tmp_path)


@pytest.mark.parametrize("script", BODIES.values(), ids=BODIES)
def test_what_is_no_answer_is_a_failure_that_may_pass(tmp_path: Path, script: Script) -> None:
    with raw_server(script) as url, pytest.raises(IncompleteError, match="another kind"):
        ask(url, tmp_path)


@pytest.mark.parametrize("content", [7, {"text": "x"}, [], True])
def test_a_content_that_is_no_text_is_no_verdict(content: object, tmp_path: Path) -> None:
    """Null alone says that the model declined: that is kept as undecided."""
    answer = Answer(json.dumps({"choices": [{"message": {"content": content}}]}))
    with (
        chat_server(lambda *_: answer) as served,
        pytest.raises(IncompleteError, match="another kind"),
    ):
        ask(served.url, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVERS)
def test_no_hostile_server_is_believed(name: str, tmp_path: Path) -> None:
    kind, why = outcome(name, tmp_path)
    assert kind == ("same" if name in TAKEN else "refused"), why


@pytest.mark.parametrize(
    ("said", "wait"),
    [("nan", None), ("Fri, 31 Dec 9999 23:59:59 -2359", None), ("soon", None), ("-inf", 0.0)],
)
def test_a_wait_that_is_none_is_survived(said: str, wait: float | None) -> None:
    assert server._retry_after(said) == wait


@pytest.mark.parametrize("status", [402, 405, 410, 418])
def test_a_refusal_of_everything_is_no_verdict(tmp_path: Path, status: int) -> None:
    """Such as an account that ran dry: what was not judged is not stored as undecided."""
    answers = iter([says("x")])

    def rule(*_: object) -> Answer:
        return next(answers, fails(status))

    with chat_server(rule) as served:
        chat = EndpointChat.open(f"{served.url}#m", cache=tmp_path, patience=ONCE)
        with pytest.raises(ModelError, match=str(status)):
            chat.chat([request(f"r{i}", str(i)) for i in range(3)], GREEDY, 0)


def test_this_machine_is_asked_without_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with chat_server(lambda *_: says("x")) as served:
        assert ask(served.url, tmp_path) == "x"
        assert ask(served.url.replace("127.0.0.1", "localhost"), tmp_path / "2") == "x"
