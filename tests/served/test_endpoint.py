"""Chat models behind servers: authorised requests, contents, stored replies, faulty servers."""

from __future__ import annotations

import json
import socket
import stat
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostile.servers import REASONS, SERVERS, TAKEN, outcome
from leakbound.engines.addresses import UnnamedServerError, key_for, servers_of
from leakbound.engines.chats import EngineChat
from leakbound.engines.models import OpenModels, open_chat
from leakbound.errors import IncompleteError, InputError, ModelError
from leakbound.scorers import connect, make_scorer
from leakbound.served import server
from leakbound.served.endpoint import ReplyCache, default_folder, open_served_chat
from leakbound.served.server import Patience
from leakbound.types import Decoding, Message, Request
from misbehaving import (
    GREETING,
    Answer,
    Body,
    Rule,
    chat_server,
    fails,
    judge_server,
    question,
    says,
)
from suites import slow_but

GREEDY = Decoding(temperature=0, max_new_tokens=9)
QUICK = Patience(timeout=60, attempts=3, first_wait=0.01, longest_wait=60, concurrency=3)
SCHEMA = json.dumps({"type": "object", "properties": {"leak": {"type": "boolean"}}})
YES = '{"leak": true}'


def asks(text: str, schema: str = "", name: str = "r") -> Request:
    return Request(id=name, messages=(Message(role="user", text=text),), schema=schema)


def opened(url: str, folder: Path, **patience: Any) -> EngineChat:
    how = {name: getattr(QUICK, name) for name in QUICK.__slots__} | patience
    return open_served_chat(f"{url}#m", folder=folder, patience=Patience(**how))


def echo(body: Body, _: int) -> Answer:
    return says(f"to {body['messages'][-1]['content']}")


def first(*answers: Answer, then: Rule = echo) -> Rule:
    """Reply to each conversation with these answers before a proper one."""

    def rule(body: Body, before: int) -> Answer:
        return answers[before] if before < len(answers) else then(body, before)

    return rule


def test_what_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    turns = (Message(role="system", text="be brief"), Message(role="user", text="who"))
    drawn = Decoding(temperature=0.7, top_p=0.9, max_new_tokens=5, stop=("\n",))
    with judge_server(echo) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        chat = opened(served.url, tmp_path)
        chat.chat([Request(id="r", messages=turns)], drawn, 3)
        chat.chat([asks("who", SCHEMA)], GREEDY, 3)
    assert chat.name == f"openai:{served.url}#m"
    plain, structured = served.queried
    assert plain["seed"] < 2**31
    assert plain["messages"][0] == {"role": "system", "content": "be brief"}
    assert (plain["n"], plain["temperature"], plain["max_tokens"]) == (1, 0.7, 5)
    assert (plain["presence_penalty"], "response_format" in plain) == (0, False)
    assert structured["response_format"]["json_schema"]["schema"] == json.loads(SCHEMA)
    assert "seed" not in structured
    assert served.headers[0]["authorization"] == "Bearer secret-key"
    assert served.headers[0]["accept-encoding"] == "identity"
    with judge_server(echo) as other:  # a server that the user names too
        opened(other.url, tmp_path).chat([asks("who")], GREEDY, 0)
    assert "authorization" not in other.headers[0]


@pytest.mark.parametrize(
    "trouble",
    [
        fails(429, Retry_After="0"),
        fails(500),
        says("cut", cut=9),
        Answer("{ not json"),
        Answer('{"error": "overloaded"}'),
        Answer("[]"),
        says("late", delay=0.6),
    ],
    ids=["429", "500", "cut body", "no json", "no choices", "a list", "hangs"],
)
def test_trouble_that_passes_is_waited_out(tmp_path: Path, trouble: Answer) -> None:
    patience = {"timeout": 0.3, "attempts": 9} if trouble.delay else {}
    with judge_server(first(trouble)) as served:
        chat = opened(served.url, tmp_path, **patience)
        assert chat.chat([asks("who")], GREEDY, 0) == ["to who"]
    assert len(served.texts) == 2 or trouble.delay  # a slow machine may send a third request


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON, SLOW = (format_datetime(NOON + timedelta(seconds=s), usegmt=True) for s in (900, 840))


@pytest.mark.parametrize(
    ("troubles", "waits"),
    [
        ((fails(500), fails(500)), [1, 2]),
        ((fails(429, Retry_After="7.5"), fails(500)), [7.5, 2]),
        ((fails(429, Retry_After=SOON, Date="not stated"),), [900]),
        ((fails(429, Retry_After=SOON, Date=SLOW),), [60]),
        ((fails(429, Retry_After="-5"), fails(429, Retry_After="-inf")), [1, 1]),
        ((fails(429, Retry_After="nan"), fails(429, Retry_After="soon")), [1, 2]),
        ((fails(429, Retry_After="Fri, 31 Dec 9999 23:59:59 -2359"),), [1]),
    ],
    ids=["doubling", "told", "dated", "by its own clock", "past", "no wait", "too late"],
)
def test_waits_double_unless_the_server_states_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, troubles: Any, waits: list[float]
) -> None:
    waited: list[float] = []
    clock = SimpleNamespace(wait=waited.append, is_set=lambda: False)
    monkeypatch.setattr(server, "Event", lambda: clock)
    monkeypatch.setattr(server, "datetime", SimpleNamespace(now=lambda _: NOON))
    with judge_server(first(*troubles)) as served:
        chat = opened(served.url, tmp_path, first_wait=1, longest_wait=1000)
        assert chat.chat([asks("who")], GREEDY, 0) == ["to who"]
    assert waited == waits


def test_stated_waits_end_with_the_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rejection with `Retry-After` is no attempt; after the patience nothing more is sent."""
    busy = fails(429, Retry_After="0.01")
    with judge_server(first(*[busy] * 2 * QUICK.attempts)) as served:
        assert opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0) == ["to who"]
    with judge_server(lambda *_: busy) as served:
        chat = opened(served.url, tmp_path, longest_wait=0.5, concurrency=1)
        chat.engine("").requests([1])  # negotiates
        ticks = count()
        monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 10))
        with pytest.raises(IncompleteError, match=r"429.* 0\.01 s after .*--patience .*0\.5 s"):
            chat.chat([asks("what"), asks("why")], GREEDY, 0)
    assert served.texts == ["what"] * 5


def test_failed_requests_have_no_reply_and_are_sent_again(tmp_path: Path) -> None:
    broken = {"bad"}

    def rule(body: Body, before: int) -> Answer:
        text = body["messages"][-1]["content"]
        return fails(500) if text in broken else echo(body, before)

    with judge_server(rule) as served:
        chat = opened(served.url, tmp_path)
        requests = [asks("one"), asks("bad"), asks("two")]
        with pytest.raises(IncompleteError, match=r"did not reply to 1 of 3 requests.*500"):
            chat.chat(requests, GREEDY, 0)
        assert served.texts.count("bad") == QUICK.attempts
        broken.clear()
        assert chat.chat(requests, GREEDY, 0) == ["to one", "to bad", "to two"]
    assert sorted(served.texts) == sorted(["one", *["bad"] * (QUICK.attempts + 1), "two"])


def test_a_model_that_declines_is_no_server_that_fails(tmp_path: Path) -> None:
    with judge_server(lambda *_: says(None)) as served:
        requests = [asks(f"q{i}") for i in range(25)]
        assert opened(served.url, tmp_path).chat(requests, GREEDY, 0) == [None] * 25
    assert len(served.queried) == 25


def test_a_kept_reply_answers_the_same_question_only(tmp_path: Path) -> None:
    with judge_server(echo) as served:
        requests = [asks("who", name=f"r{i}") for i in range(5)]
        assert opened(served.url, tmp_path).chat(requests, GREEDY, 0) == ["to who"] * 5
        again = opened(served.url, tmp_path)
        other = open_served_chat(f"{served.url}#other", folder=tmp_path, patience=QUICK)
        longer = Decoding(temperature=0, max_new_tokens=10)
        wanted = [len(served.queried)]
        for chat, request, decoding in [
            (again, asks("who", name="another"), GREEDY),
            (again, asks("who else"), GREEDY),
            (again, asks("who", SCHEMA), GREEDY),
            (again, asks("who"), longer),
            (other, asks("who"), GREEDY),
        ]:
            chat.chat([request], decoding, 1)
            wanted.append(len(served.queried))
    assert wanted == [1, 1, 2, 3, 4, 5]


def test_a_schema_that_is_refused_is_left_out_from_then_on(tmp_path: Path) -> None:
    def rule(body: Body, _: int) -> Answer:
        return fails(400, "unknown field") if "response_format" in body else says(YES)

    with chat_server(rule) as served:
        chat = opened(served.url, tmp_path)
        assert chat.chat([asks("one", SCHEMA)], GREEDY, 0) == [YES]
        before = len(served.queried)
        assert chat.chat([asks("two", SCHEMA), asks("three", SCHEMA)], GREEDY, 0) == [YES, YES]
    assert len(served.queried) == before + 2


def test_prose_in_place_of_a_schema_is_returned_and_not_kept(tmp_path: Path) -> None:
    with judge_server(first(says("It leaks."), then=lambda *_: says(YES))) as served:
        chat = opened(served.url, tmp_path)
        replies = [chat.chat([asks("who", SCHEMA)], GREEDY, 0) for _ in range(3)]
    assert replies == [["It leaks."], [YES], [YES]]
    assert len(served.queried) == 2


def test_a_stopped_job_resumes(tmp_path: Path) -> None:
    """The server dies after ten replies; received replies are stored and not requested again."""
    alive, answered = [True], set[str]()

    def rule(body: Body, before: int) -> Answer:
        alive[0] = alive[0] and len(answered) < 10
        if not alive[0]:
            return fails(503)
        answered.add(question(body))
        return echo(body, before)

    requests = [asks(f"q{i}") for i in range(60)]
    with judge_server(rule) as served:
        chat = opened(served.url, tmp_path, concurrency=1, attempts=1)
        with pytest.raises(IncompleteError, match=r"12 requests in a row.*503.*same command again"):
            chat.chat(requests, GREEDY, 0)
        assert len(served.queried) == 22
        answered.clear()
        answered_before = set(served.texts[:10])
        alive[0] = True
        chat.chat(requests[:20], GREEDY, 0)
    assert answered == {f"q{i}" for i in range(20)} - answered_before


def test_what_is_refused_has_no_reply(tmp_path: Path) -> None:
    """Before or after an accepted one; a server that accepts nothing is no model that declines."""

    def rule(body: Body, before: int) -> Answer:
        return fails(400, "too long") if "long" in question(body) else echo(body, before)

    requests = [asks("long"), asks("short"), *[asks(f"long {i}") for i in range(30)]]
    with judge_server(rule) as served:
        chat = opened(served.url, tmp_path, concurrency=1)
        assert chat.chat(requests, GREEDY, 0) == [None, "to short", *[None] * 30]
    with (
        chat_server(lambda *_: fails(400)) as served,
        pytest.raises(ModelError, match=r"400.*api="),
    ):
        opened(served.url, tmp_path).chat([asks("long")], GREEDY, 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (fails(401, "bad key secret-key"), r"401.*bad key ….*OPENAI_API_KEY"),
        (fails(403), "403"),
        (fails(404), r"404.*/v1"),
        (fails(418), "418"),
        (fails(307, Location="http://127.0.0.1:1/v1"), "URL to which it redirects"),
        (fails(429, Retry_After="3600"), r"429.*same command"),  # longer than the patience
    ],
)
def test_faults_that_no_wait_fixes_are_reported_immediately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, message: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    kind = IncompleteError if answer.status == 429 else ModelError
    with chat_server(lambda *_: answer) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        with pytest.raises(kind, match=message) as seen:
            opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0)
    assert "secret-key" not in str(seen.value)
    assert served.texts == [GREETING]


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
        ("http://me:secret@here/v1#m", "no credentials"),
        ("http://here/v1?key=secret#m", "no credentials"),
    ],
)
def test_an_invalid_location_is_refused(location: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as seen:
        open_chat(f"openai:{location}", dtype="float32")
    assert "credentials" not in message or "secret" not in str(seen.value)


def test_replies_are_kept_whole_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, key = ReplyCache(tmp_path / "a" / "replies"), "any text"
    cache.put(key, {"text": "né\n"})
    assert cache.get(key) == [{"text": "né\n"}]
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    (file,) = [path for path in cache.folder.rglob("*") if path.is_file()]
    file.write_text('"cut')
    assert cache.get(key) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="XDG_CACHE_HOME"):
        ReplyCache(tmp_path / "file").put(key, "x")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_folder() == Path("/cache/leakbound/replies")


@pytest.mark.parametrize("name", slow_but([*REASONS], SERVERS))
def test_no_hostile_server_is_believed(name: str, tmp_path: Path) -> None:
    kind, why = outcome(name, tmp_path)
    assert kind == ("same" if name in TAKEN else "refused"), why
    assert REASONS.get(name, "") in why


def test_this_machine_needs_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with judge_server(echo) as served:
        for url in (served.url, served.url.replace("127.0.0.1", "localhost")):
            assert opened(url, tmp_path).chat([asks("who")], GREEDY, 0) == ["to who"]
    assert len(served.queried) == 2


HERE = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("scorers", "models", "servers"),
    [
        (["keyword", "entailment"], [], []),
        ([f"judge:openai:{HERE}/#m"], [], [HERE]),
        ([f"judge:model=openai:{HERE}#m,rubric=wmdp>=0.5"], [], [HERE]),
        (["judge:some/folder"], ["some/model"], []),
        ([], ["openai:https://there/v1#m"], ["https://there/v1"]),
    ],
)
def test_servers_are_identified_by_name(
    scorers: list[str], models: list[str], servers: list[str]
) -> None:
    assert servers_of(scorers, models) == frozenset(servers)


@pytest.mark.parametrize("cut", ["", ">=0.5"])
def test_no_server_is_opened_that_was_not_named(cut: str) -> None:
    judge = make_scorer(f"judge:openai:{HERE}#m{cut}")
    for servers in (frozenset[str](), frozenset({"http://127.0.0.1:8001/v1"})):
        with pytest.raises(UnnamedServerError, match=r"nothing was sent to `http://127.0.0.1:8000"):
            connect(judge, OpenModels(servers=servers))
    connect(judge, OpenModels(servers=frozenset({HERE})))


@pytest.mark.parametrize(
    ("url", "home", "sent"),
    [
        ("https://api.openai.com/v1", "", True),
        ("https://API.openai.com:443/v1", "", True),
        ("http://api.openai.com/v1", "", False),
        ("https://api.openai.com:8443/v1", "", False),
        ("http://api.openai.com:443/v1", "", False),
        ("https://api.openai.com.evil.example/v1", "", False),
        ("http://127.0.0.1:8000/v1", "", False),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", True),
        ("http://127.0.0.1:8001/v1", "http://127.0.0.1:8000/v1", False),
        ("https://api.openai.com/v1", "http://127.0.0.1:8000/v1", False),
    ],
)
def test_the_key_goes_only_to_its_own_server(
    monkeypatch: pytest.MonkeyPatch, url: str, home: str, sent: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " secret-key\n")
    monkeypatch.setenv("OPENAI_BASE_URL", home)
    assert key_for(url) == ("secret-key" if sent else "")


@pytest.mark.parametrize("key", ["secret\nkey", "secret key", "secret\x00key", "sécret"])
def test_an_invalid_key_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    with chat_server(echo) as served:
        monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": served.url})
        with pytest.raises(InputError, match="OPENAI_API_KEY contains") as seen:
            opened(served.url, tmp_path).chat([asks("who")], GREEDY, 0)
    assert "cret" not in f"{seen.value!r} {seen.value.__cause__!r} {seen.value.__context__!r}"
    assert served.queried == []
