"""A chat endpoint: what is sent, what is kept, and servers that misbehave."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import format_datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from chatting import request
from leakbound.engines import server
from leakbound.engines.endpoint import EndpointChat, ReplyCache, default_folder
from leakbound.engines.models import open_chat
from leakbound.engines.server import NoReplyError, Patience, Server
from leakbound.errors import IncompleteError, InputError, ModelError
from leakbound.types import Decoding, Message, Request
from misbehaving import Answer, Body, Rule, chat_server, fails, says

GREEDY = Decoding(temperature=0, max_new_tokens=9)
QUICK = Patience(timeout=60, attempts=3, first_wait=0.01, longest_wait=0.5, concurrency=3)
SCHEMA = json.dumps({"type": "object", "properties": {"leak": {"type": "boolean"}}})
YES = '{"leak": true}'


def asks(text: str, schema: str = "", name: str = "r") -> Request:
    return Request(id=name, messages=(Message(role="user", text=text),), schema=schema)


def opened(url: str, folder: Path, **patience: Any) -> EndpointChat:
    how = {name: getattr(QUICK, name) for name in QUICK.__slots__} | patience
    return EndpointChat.open(f"{url}#m", cache=folder, patience=Patience(**how))


def echo(body: Body, _: int) -> Answer:
    return says(f"to {body['messages'][-1]['content']}")


def first(*answers: Answer, then: Rule = echo) -> Rule:
    """Each conversation gets these answers before it gets a proper one."""

    def rule(body: Body, before: int) -> Answer:
        return answers[before] if before < len(answers) else then(body, before)

    return rule


def test_what_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    turns = (Message(role="system", text="be brief"), Message(role="user", text="who"))
    drawn = Decoding(temperature=0.7, top_p=0.9, max_new_tokens=5, stop=("\n",))
    with chat_server(echo) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        chat = opened(served.url, tmp_path)
        chat.chat([Request(id="r", messages=turns)], drawn, 3)
        chat.chat([asks("who", SCHEMA)], GREEDY, 3)
    plain, structured = served.asked
    assert plain.pop("seed") < 2**31
    assert plain == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "who"},
        ],
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 5,
        "stop": ["\n"],
    }
    assert structured["response_format"]["json_schema"]["schema"] == json.loads(SCHEMA)
    assert "seed" not in structured
    assert served.headers[0]["authorization"] == "Bearer secret-key"
    assert served.headers[0]["accept-encoding"] == "identity"


def test_without_a_key_none_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with chat_server(echo) as served:
        opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0)
    assert "authorization" not in served.headers[0]


@pytest.mark.parametrize(
    "trouble",
    [
        fails(429, Retry_After="0"),
        fails(500),
        fails(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"),
        fails(502, Retry_After="soon"),
        says("cut", cut=9),
        Answer("{ not json"),
        Answer('{"error": "overloaded"}'),
        Answer("[]"),
    ],
    ids=["429", "500", "503", "502", "cut body", "no json", "no choices", "a list"],
)
def test_trouble_that_passes_is_waited_out(tmp_path: Path, trouble: Answer) -> None:
    with chat_server(first(trouble)) as served:
        assert opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0) == ["to who"]
    assert served.texts == ["who", "who"]


def test_a_server_that_hangs_is_asked_again(tmp_path: Path) -> None:
    with chat_server(first(says("late", delay=3))) as served:
        chat = opened(served.url, tmp_path, timeout=1, attempts=9)  # a slow machine needs more
        assert chat.chat([asks("who")], GREEDY, 0) == ["to who"]
    assert len(served.texts) > 1


@dataclass
class Clock:
    """In place of the event that is waited on between attempts: notes how long, waits for none."""

    waits: list[float] = field(default_factory=list)

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return False

    def set(self) -> None:
        pass

    def is_set(self) -> bool:
        return False


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON = format_datetime(NOON + timedelta(seconds=900), usegmt=True)


class Calendar(datetime):
    """In place of the client's: it is always noon."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Calendar:
        return cls.fromtimestamp(NOON.timestamp(), tz)


@pytest.mark.parametrize(
    ("troubles", "waits"),
    [
        ((fails(500), fails(500)), [1, 2]),
        ((fails(429, Retry_After="7.5"), fails(500)), [7.5, 2]),
        ((fails(429, Retry_After=SOON),), [900]),
        ((fails(429, Retry_After="-5"),), [0]),
    ],
    ids=["doubling", "told", "dated", "past"],
)
def test_waits_double_unless_the_server_says_how_long(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    troubles: tuple[Answer, ...],
    waits: list[float],
) -> None:
    clock = Clock()
    monkeypatch.setattr(server, "Event", lambda: clock)
    monkeypatch.setattr(server, "datetime", Calendar)
    with chat_server(first(*troubles)) as served:
        chat = opened(served.url, tmp_path, first_wait=1, longest_wait=1000)
        assert chat.chat([asks("who")], GREEDY, 0) == ["to who"]
    assert clock.waits == waits


def test_a_server_that_asks_for_too_much_patience_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "Event", Clock)
    chat_that_waits = chat_server(lambda *_: fails(429, Retry_After="3600"))
    with chat_that_waits as served, pytest.raises(IncompleteError, match=r"429.*same command"):
        opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0)
    assert len(served.asked) == 1


def test_what_failed_is_no_reply_and_is_asked_again(tmp_path: Path) -> None:
    broken = {"bad"}

    def rule(body: Body, before: int) -> Answer:
        text = body["messages"][-1]["content"]
        return fails(500) if text in broken else echo(body, before)

    with chat_server(rule) as served:
        chat = opened(served.url, tmp_path)
        requests = [asks("one"), asks("bad"), asks("two")]
        with pytest.raises(IncompleteError, match=r"1 of 3 requests without a reply.*500"):
            chat.chat(requests, GREEDY, 0)
        assert served.texts.count("bad") == QUICK.attempts
        broken.clear()
        assert chat.chat(requests, GREEDY, 0) == ["to one", "to bad", "to two"]
    assert sorted(served.texts) == sorted(["one", *["bad"] * (QUICK.attempts + 1), "two"])


def test_a_model_that_declines_gives_no_reply_and_is_no_server_that_fails(tmp_path: Path) -> None:
    with chat_server(lambda *_: says(None)) as served:
        requests = [asks(f"q{i}") for i in range(25)]
        assert opened(served.url, tmp_path).chat(requests, GREEDY, 0) == [None] * 25
    assert len(served.asked) == 25


def test_equal_greedy_requests_are_asked_once(tmp_path: Path) -> None:
    with chat_server(echo) as served:
        requests = [asks("who", name=f"r{i}") for i in range(5)]
        assert opened(served.url, tmp_path).chat(requests, GREEDY, 0) == ["to who"] * 5
        opened(served.url, tmp_path).chat(requests, GREEDY, 1)
    assert len(served.asked) == 1


def test_draws_under_other_ids_and_seeds_are_draws_of_their_own(tmp_path: Path) -> None:
    with chat_server(echo) as served:
        chat = opened(served.url, tmp_path)
        for seed in (0, 1):
            chat.chat([asks("who", name=f"r{i}") for i in range(10)], Decoding(), seed)
    seeds = {body["seed"] for body in served.asked}
    assert len(seeds) == 20
    assert max(seeds) < 2**31  # more than that is refused by some servers


def other_model(url: str, folder: Path) -> EndpointChat:
    return EndpointChat.open(f"{url}#other", cache=folder, patience=QUICK)


@pytest.mark.parametrize(
    ("open_other", "asked", "decoding"),
    [
        (opened, asks("who else"), GREEDY),
        (opened, asks("who", SCHEMA), GREEDY),
        (opened, asks("who"), Decoding(temperature=0, max_new_tokens=10)),
        (other_model, asks("who"), GREEDY),
    ],
    ids=["messages", "schema", "decoding", "model"],
)
def test_a_kept_reply_answers_the_same_question_only(
    tmp_path: Path,
    open_other: Callable[[str, Path], EndpointChat],
    asked: Request,
    decoding: Decoding,
) -> None:
    with chat_server(echo) as served:
        opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0)
        open_other(served.url, tmp_path).chat([asked], decoding, 0)
    assert len(served.asked) == 2


def test_a_schema_that_is_refused_is_left_out_from_then_on(tmp_path: Path) -> None:
    def rule(body: Body, _: int) -> Answer:
        return fails(400, "unknown field") if "response_format" in body else says(YES)

    with chat_server(rule) as served:
        chat = opened(served.url, tmp_path)
        assert chat.chat([asks("one", SCHEMA)], GREEDY, 0) == [YES]
        before = len(served.asked)
        assert chat.chat([asks("two", SCHEMA), asks("three", SCHEMA)], GREEDY, 0) == [YES, YES]
    assert len(served.asked) == before + 2


def test_the_length_is_said_as_the_server_wants_it(tmp_path: Path) -> None:
    def rule(body: Body, before: int) -> Answer:
        return fails(400, "use another word") if "max_tokens" in body else echo(body, before)

    with chat_server(rule) as served:
        assert opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0) == ["to who"]
    assert served.asked[-1]["max_completion_tokens"] == 9


def test_prose_where_a_schema_was_asked_for_is_handed_on_and_not_kept(tmp_path: Path) -> None:
    with chat_server(first(says("It leaks."), then=lambda *_: says(YES))) as served:
        chat = opened(served.url, tmp_path)
        assert chat.chat([asks("who", SCHEMA)], GREEDY, 0) == ["It leaks."]
        assert chat.chat([asks("who", SCHEMA)], GREEDY, 0) == [YES]
        assert chat.chat([asks("who", SCHEMA)], GREEDY, 0) == [YES]
    assert len(served.asked) == 2


def test_no_more_is_under_way_than_was_said(tmp_path: Path) -> None:
    at_once = Barrier(QUICK.concurrency, timeout=60)

    def rule(*_: object) -> Answer:
        at_once.wait()
        return says("x", delay=0.2)

    with chat_server(rule) as served:
        chat = opened(served.url, tmp_path)
        chat.chat([asks(str(i)) for i in range(12)], GREEDY, 0)
    assert served.most_under_way == QUICK.concurrency


def test_a_stopped_job_goes_on_where_it_was(tmp_path: Path) -> None:
    """The server dies after ten replies; what came is kept and not asked again."""
    alive, answered = [True], set[str]()

    def rule(body: Body, before: int) -> Answer:
        alive[0] = alive[0] and len(answered) < 10
        if not alive[0]:
            return fails(503)
        answered.add(body["messages"][-1]["content"])
        return echo(body, before)

    requests = [asks(f"q{i}") for i in range(60)]
    with chat_server(rule) as served:
        chat = opened(served.url, tmp_path, concurrency=1, attempts=1)
        with pytest.raises(IncompleteError, match=r"20 requests in a row.*503.*same command again"):
            chat.chat(requests, GREEDY, 0)
        assert len(served.asked) == 30  # nothing is asked for nothing
        answered.clear()
        answered_before = set(served.texts[:10])
        alive[0] = True
        chat.chat(requests[:20], GREEDY, 0)
    assert answered == {f"q{i}" for i in range(20)} - answered_before


def test_a_server_that_was_abandoned_is_asked_no_more() -> None:
    with chat_server(echo) as served, Server(served.url, "", QUICK) as asked:
        asked.abandon()
        with pytest.raises(NoReplyError):
            asked.post("chat/completions", {"messages": []}, lambda found: found)
    assert not served.asked


def test_requests_that_are_refused_one_by_one_do_not_end_the_job(tmp_path: Path) -> None:
    def rule(body: Body, before: int) -> Answer:
        return fails(400, "too long") if "long" in served.texts[-1] else echo(body, before)

    requests = [asks("short"), *[asks(f"long {i}") for i in range(30)]]
    with chat_server(rule) as served:
        chat = opened(served.url, tmp_path, concurrency=1)
        assert chat.chat(requests, GREEDY, 0) == ["to short", *[None] * 30]
    assert len(served.asked) == 31


def test_one_that_is_refused_before_another_is_taken_has_no_reply(tmp_path: Path) -> None:
    def rule(body: Body, before: int) -> Answer:
        return fails(400) if body["messages"][-1]["content"] == "long" else echo(body, before)

    with chat_server(rule) as served:
        chat = opened(served.url, tmp_path, concurrency=1)
        assert chat.chat([asks("long"), asks("short")], GREEDY, 0) == [None, "to short"]
    with chat_server(rule) as served, pytest.raises(IncompleteError, match="400"):
        opened(served.url, tmp_path).chat([asks("long")], GREEDY, 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (fails(401, "bad key secret-key"), r"401.*bad key ….*OPENAI_API_KEY"),
        (fails(403), "403"),
        (fails(404), r"404.*/v1"),
        (fails(307, Location="http://127.0.0.1:1/v1"), "redirects"),
    ],
)
def test_what_no_waiting_mends_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, message: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    with chat_server(lambda *_: answer) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        with pytest.raises(ModelError, match=message) as told:
            opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0)
    assert "secret-key" not in str(told.value)
    assert len(served.asked) == 1


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.socket() as deaf:  # holds its port, and does not listen
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match=f"{url}.*cannot be reached.*Start the server"):
            opened(url, tmp_path).chat([asks("who")], GREEDY, 0)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://here/v1", "openai:URL#MODEL"),
        ("here/v1#m", "openai:URL#MODEL"),
        ("http:///v1#m", "openai:URL#MODEL"),
        ("http://me:secret@here/v1#m", "no credentials"),
        ("http://here/v1?key=secret#m", "no credentials"),
    ],
)
def test_a_location_that_is_none_is_refused(location: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as told:
        open_chat(f"openai:{location}", dtype="float32")
    assert "credentials" not in message or "secret" not in str(told.value)


def test_decodings_that_servers_do_not_offer_are_refused(tmp_path: Path) -> None:
    chat = opened("http://127.0.0.1:1/v1", tmp_path)
    for decoding in (Decoding(top_k=5), Decoding(adaptive_temperature=0.9)):
        with pytest.raises(InputError, match="temperature and top-p alone"):
            chat.chat([request("r", "who")], decoding, 0)


def test_the_name_says_where_and_what() -> None:
    assert open_chat("openai:http://here:80/v1/#a/b").name == "openai:http://here:80/v1#a/b"


def test_replies_are_kept_whole_and_for_their_owner_alone(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "a" / "replies")
    key = "ab" * 32
    cache.put(key, "né\n")
    assert cache.get(key) == "né\n"
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    (file,) = [path for path in cache.folder.rglob("*") if path.is_file()]
    file.write_text('"cut')
    assert cache.get(key) is None
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="LEAKBOUND_REPLIES"):
        ReplyCache(tmp_path / "file").put(key, "x")


def test_the_folder_of_replies_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.delenv("LEAKBOUND_REPLIES", raising=False)
    assert default_folder() == Path("/cache/leakbound/replies")
    monkeypatch.setenv("LEAKBOUND_REPLIES", "/mine")
    assert default_folder() == Path("/mine")
