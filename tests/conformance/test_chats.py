"""What every chat model owes its callers; a new one is a row here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chatting import chat_engine, request
from residua.engines.chat import TransformersChat
from residua.errors import InputError
from residua.types import Chat, Decoding

DECODING = Decoding(max_new_tokens=6)
CHATS: dict[str, Callable[[], Chat]] = {
    "transformers": lambda: TransformersChat(chat_engine(), "tiny"),
}


@pytest.fixture(params=CHATS.values(), ids=CHATS.keys())
def chat(request: pytest.FixtureRequest) -> Chat:
    made: Chat = request.param()
    return made


def test_it_has_a_name(chat: Chat) -> None:
    assert chat.name


def test_replies_stand_in_the_order_of_the_requests(chat: Chat) -> None:
    requests = [request(f"r{i}", text) for i, text in enumerate(["who", "red sky", "who"])]
    replies = chat.chat(requests, DECODING, 0)
    assert replies == [chat.chat([each], DECODING, 0)[0] for each in requests]
    assert replies[::-1] == chat.chat(requests[::-1], DECODING, 0)
    assert len(set(replies)) == 3


def test_a_reply_is_a_function_of_seed_id_and_messages(chat: Chat) -> None:
    one = [request(f"r{i}", "who wrote red") for i in range(12)]
    replies = chat.chat(one, DECODING, 0)
    assert chat.chat(one, DECODING, 0) == replies
    assert chat.chat(one, DECODING, 1) != replies
    others = [request(f"other{i}", "who wrote red") for i in range(12)]
    assert chat.chat(others, DECODING, 0) != replies
    assert len(set(replies)) > 3


def test_equal_ids_with_other_messages_have_replies_of_their_own(chat: Chat) -> None:
    requests = [request("r", "who"), request("r", "sea sea blue"), request("r", "who")]
    first, second, again = chat.chat(requests, DECODING, 0)
    assert first == again == chat.chat(requests[:1], DECODING, 0)[0]
    assert second == chat.chat(requests[1:2], DECODING, 0)[0]
    assert first != second


def test_greedy_replies_to_one_conversation_are_one(chat: Chat) -> None:
    requests = [request(f"r{i}", "who") for i in range(5)]
    greedy = Decoding(temperature=0, max_new_tokens=6)
    assert len(set(chat.chat(requests, greedy, 0))) == 1


def test_no_requests_have_no_replies(chat: Chat) -> None:
    assert chat.chat([], DECODING, 0) == []


def test_a_conversation_too_long_for_the_model_is_refused(chat: Chat) -> None:
    long: list[Any] = [request("fits", "who"), request("endless", "who " * 130)]
    with pytest.raises(InputError, match="'endless'"):
        chat.chat(long, DECODING, 0)
