"""The trial of a server: what it refuses, and that it refuses no server that draws."""

from __future__ import annotations

import gzip
import json
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, product
from pathlib import Path

import pytest
from scipy.stats import binom

from chatting import request
from hostile.servers import BODIES, SERVERS, TAKEN, Script, head, outcome, sends
from leakbound.engines import server, trial
from leakbound.engines.endpoint import EndpointChat
from leakbound.engines.server import Patience
from leakbound.engines.trial import Draw, prompt_of, tried
from leakbound.errors import IncompleteError, ModelError
from leakbound.types import Decoding
from misbehaving import Answer, chat_server, fails, raw_server, says
from suites import slow_but

WORDS = [str(i) for i in range(50)]


One = Callable[[str, int, int, float], Sequence[str]]
"""(prompt, number of the request, outputs, temperature) -> the texts of one request."""


def each(one: One) -> Draw:
    return lambda prompt, numbers, choices, t: [one(prompt, i, choices, t) for i in numbers]


def drawing(seed: object, likeliest: float = 0.0, rounding: float = 0.0) -> One:
    """Draws of two words; one text has a chance of its own, greedy answers differ now and then."""
    rng = random.Random(f"{seed}")

    def draw(prompt: str, number: int, choices: int, temperature: float) -> list[str]:
        if not temperature:
            return ["greedy" if rng.random() >= rounding else "nearly"] * choices
        return [
            "likely" if rng.random() < likeliest else " ".join(rng.choices(WORDS, k=2))
            for _ in range(choices)
        ]

    return draw


def changed(change: Callable[[Sequence[str]], Sequence[str]]) -> One:
    true = drawing("changed")
    return lambda prompt, number, choices, t: change(true(prompt, number, choices, t))


def fixed(varies: Callable[[str, int], object]) -> One:
    """Draws that are a function of (prompt, number of the request)."""

    def draw(prompt: str, number: int, choices: int, temperature: float) -> Sequence[str]:
        return drawing(varies(prompt, number))(prompt, number, choices, temperature)

    return draw


LIES: dict[str, tuple[One, str]] = {
    "greedy": (lambda prompt, *_: ["x"] * _[1], "alike"),
    "mostly greedy": (drawing(0, likeliest=0.99), "alike"),
    "copies of one draw": (changed(lambda texts: [texts[0]] * len(texts)), "one draw"),
    "pairs of one draw": (changed(lambda texts: [texts[i // 2] for i in range(len(texts))]),
                          "one draw"),
    "one answer a prompt": (fixed(lambda prompt, _: prompt), "one answer"),
    "two answers by turns": (fixed(lambda prompt, i: (prompt, i % 2)), "one answer"),
    "never greedy": (lambda prompt, n, k, t: drawing(n)(prompt, n, k, 1.0), "temperature"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("choices", [4, 16])
def test_a_server_that_does_not_draw_is_refused(name: str, choices: int) -> None:
    draw, fault = LIES[name]
    found = tried(each(draw), choices, "key")
    assert found is not None
    assert found.name == fault


@pytest.mark.parametrize("name", ["greedy", "mostly greedy", "one answer a prompt", "never greedy"])
def test_one_output_a_request_is_enough_for_some_lies(name: str) -> None:
    found = tried(each(LIES[name][0]), 1, "key")
    assert found is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choices", "likeliest"), slow_but([(1, 0.0), (16, 0.5)], product([1, 3, 16], [0.0, 0.5]))
)
def test_a_server_that_draws_is_not_refused(choices: int, likeliest: float) -> None:
    """Even where one output is as likely as the conditions allow, and greedy answers waver."""
    trials = [tried(each(drawing(seed, likeliest, 0.01)), choices, "key") for seed in range(40)]
    assert trials == [None] * 40


@pytest.mark.parametrize("lost", slow_but([0.5], [0.1, 0.5]))
def test_what_did_not_arrive_looks_like_no_copy(lost: float) -> None:
    """It stands last in its row, so that few places are left for the few texts that came."""
    true, rng = drawing(0, likeliest=0.5), random.Random(0)

    def draw(prompt: str, numbers: range, choices: int, t: float) -> list[list[str | None]]:
        table = each(true)(prompt, numbers, choices, t)
        came = [[text for text in row if rng.random() > lost * (t > 0)] for row in table]
        return [[*row, *[None] * (choices - len(row))] for row in came]

    assert [tried(draw, 16, f"{i}") for i in range(40)] == [None] * 40


def test_a_fault_counts_once_it_is_seen_twice() -> None:
    first = prompt_of("key 1")
    honest = drawing(0)

    def draw(prompt: str, number: int, choices: int, temperature: float) -> Sequence[str]:
        if prompt == first:
            return ["x"] * choices
        return honest(prompt, number, choices, temperature)

    assert tried(each(draw), 16, "key") is None


def test_false_alarms_are_as_rare_as_is_said() -> None:
    alike = 2 * max(
        binom.sf(round(trial._ALIKE * n + 0.4999) - 1, n, 0.5) for n in range(trial._DRAWS, 65)
    )
    waver = binom.sf(trial._GREEDY - trial._AGREEING, trial._GREEDY, 0.01)
    once = [alike, waver, trial._SHARE, trial._SHARE]
    assert alike < 2e-7
    assert waver < 1.3e-8
    assert sum(chance**2 for chance in once) < trial.FALSE_ALARM


def test_prompts_are_random_words() -> None:
    assert prompt_of("a") == prompt_of("a") != prompt_of("b")
    assert len(set(prompt_of("a").split())) > 20


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
