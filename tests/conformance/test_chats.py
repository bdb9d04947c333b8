"""Promises of every chat model; a new model adds a row."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from leakbound.engines.chats import EngineChat
from leakbound.errors import InputError
from leakbound.served.endpoint import open_served_chat
from leakbound.types import Chat, Decoding
from misbehaving import Answer, Body, fails, judge_server, says
from tiny import chat_engine, request

DECODING = Decoding(max_new_tokens=6)


def drawn(body: Body, _: int) -> Answer:
    """Reply by a function of the conversation, and of the seed if there is one."""
    wanted = json.dumps([body["messages"], body.get("seed")])
    if len(wanted) > 400:
        return fails(400, "the context is 128 tokens long")
    return says(f"reply {zlib.crc32(wanted.encode())}")


@contextmanager
def endpoint(folder: Path) -> Iterator[Chat]:
    with judge_server(drawn) as served:
        yield open_served_chat(f"{served.url}#tiny", folder=folder)


CHATS: dict[str, Callable[[Path], AbstractContextManager[Chat]]] = {
    "openai": endpoint,
    "transformers": lambda _: nullcontext(EngineChat("tiny", lambda _: chat_engine())),
}


@pytest.fixture(params=CHATS.values(), ids=CHATS.keys())
def chat(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chat]:
    with request.param(tmp_path) as made:
        yield made


def test_replies_are_in_the_order_of_the_requests(chat: Chat) -> None:
    requests = [request(f"r{i}", text) for i, text in enumerate(["who", "red sky", "who"])]
    replies = chat.chat(requests, DECODING, 0)
    assert replies == [chat.chat([each], DECODING, 0)[0] for each in requests]
    assert replies[::-1] == chat.chat(requests[::-1], DECODING, 0)
    assert len(set(replies)) == 3
    assert chat.chat([], DECODING, 0) == []
    assert chat.name


def test_a_reply_is_a_function_of_seed_id_and_messages(chat: Chat) -> None:
    one = [request(f"r{i}", "who wrote red") for i in range(6)]
    replies = chat.chat(one, DECODING, 0)
    assert chat.chat(one, DECODING, 0) == replies
    assert chat.chat(one, DECODING, 1) != replies
    others = [request(f"other{i}", "who wrote red") for i in range(6)]
    assert chat.chat(others, DECODING, 0) != replies
    assert len(set(replies)) > 3


def test_equal_ids_with_other_messages_have_other_replies(chat: Chat) -> None:
    requests = [request("r", "who"), request("r", "sea sea blue"), request("r", "who")]
    first, second, again = chat.chat(requests, DECODING, 0)
    assert first == again == chat.chat(requests[:1], DECODING, 0)[0]
    assert second == chat.chat(requests[1:2], DECODING, 0)[0]
    assert first != second


def test_greedy_replies_to_one_conversation_are_one(chat: Chat) -> None:
    requests = [request(f"r{i}", "who") for i in range(5)]
    greedy = Decoding(temperature=0, max_new_tokens=6)
    assert len(set(chat.chat(requests, greedy, 0))) == 1


def test_a_conversation_too_long_for_the_model_has_no_reply(chat: Chat) -> None:
    """None, or a refusal that names it: never a reply to a part of it."""
    long: list[Any] = [request("fits", "who"), request("endless", "who " * 130)]
    shown: list[str | None] | str
    try:
        shown = chat.chat(long, DECODING, 0)
    except InputError as error:
        shown = str(error)
    if isinstance(shown, str):
        assert "'endless'" in shown
    else:
        assert shown[0] is not None
        assert shown[1] is None
