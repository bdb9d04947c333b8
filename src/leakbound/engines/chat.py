"""Chat models that do a job beside the one under test: rewriting questions, judging answers.

A new one joins by a function `open(location, **loading) -> Chat` and one row of `CHATS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from leakbound.engines import open_engine
from leakbound.engines.prompting import Prompting, Tokenizer
from leakbound.errors import InputError, needing
from leakbound.types import (
    Chat,
    Decoding,
    Draws,
    Generate,
    JsonObject,
    Message,
    Query,
    Request,
    Sample,
)

_PURPOSE = "chat"
_BRACKETED = re.compile(r"\s*[<\[{|].*[>\]}|]\s*\Z", re.DOTALL)  # <think>, [INST], {{role}}
_GREETING = Request(id="greeting", messages=(Message(role="user", text="Hello."),))


class Conversations(Prompting):
    """The rule for queries whose text is a whole conversation, as `_query` writes it."""

    def uses_chat(self, tokenizer: Tokenizer) -> bool:
        """True; raises InputError where the tokenizer has no chat template."""
        if not super().uses_chat(tokenizer):
            raise InputError("its tokenizer has no chat template. Name an instruct model.")
        return True

    def turns(self, tokenizer: Tokenizer, question: str) -> list[dict[str, str]]:
        """The conversation's own turns, none of which another can end or begin.

        What is quoted in a turn was written by others: a special token that it spells would be
        read as one, and what follows it as another's words.
        """
        spelled = _spelled(tokenizer)
        conversation = json.loads(question)
        return [{"role": role, "content": _words(text, spelled)} for role, text in conversation]


@dataclass(frozen=True, slots=True)
class TransformersChat:
    """Replies drawn from a model by the forest; requests with equal messages share their tree.

    The decoding is all that shapes the distribution. A reply that reaches `max_new_tokens`, or a
    stop string, counts as it stands: to draw it again would favour short ones. None where the
    model's logits are unusable.
    """

    engine: Generate
    name: str

    @classmethod
    def open(cls, location: str, **loading: Any) -> TransformersChat:
        """Load the model at `location` (see `load_model` for `loading`).

        Raises InputError for a model without a chat template.
        """
        engine = open_engine(location, Conversations(), **loading)
        try:
            engine.check([_query(_GREETING)], Decoding(max_new_tokens=1))
        except InputError as error:
            raise InputError(f"{location!r} cannot hold a conversation: {error}") from error
        return cls(engine, location)

    @property
    def fingerprint(self) -> JsonObject:
        """What the model is, its weights among it."""
        return self.engine.fingerprint

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """See `Chat.chat`. Raises InputError for a conversation longer than the model's context."""
        queries = [_query(request) for request in requests]
        distinct = list(dict.fromkeys(queries))
        self.engine.check(distinct, decoding)
        draws = Draws(sizes=(1,), seed=seed, purpose=_PURPOSE)
        replies = {
            found.query: found.completions[0].text
            for found in self.engine.generate(distinct, decoding, draws)
            if isinstance(found, Sample)
        }
        return [replies.get(query) for query in queries]


def _endpoint(location: str, **loading: Any) -> Chat:
    with needing("a chat endpoint", "judge"):
        from leakbound.engines.endpoint import EndpointChat
    return EndpointChat.open(location, **loading)


CHATS: dict[str, Callable[..., Chat]] = {
    "openai": _endpoint,
    "transformers": TransformersChat.open,
}


def open_chat(name: str, **loading: Any) -> Chat:
    """The chat model `NAME:where` of a named engine, else a transformers model."""
    engine, colon, location = name.partition(":")
    if colon and engine in CHATS:
        return CHATS[engine](location, **loading)
    return CHATS["transformers"](name, **loading)


def _spelled(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """Finds the special tokens of a tokenizer, and other added ones in brackets, in a text."""
    added = [token for token in tokenizer.added_tokens_decoder.values() if token.content.strip()]
    marks = {t.content.strip() for t in added if t.special or _BRACKETED.match(t.content)}
    longest_first = sorted(marks, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _words(text: str, spelled: re.Pattern[str] | None) -> str:
    """The text with a blank in every token that it spells, so that it is read letter by letter."""
    while spelled is not None and spelled.search(text):
        text = spelled.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}" if mark[0][1:] else " ", text)
    return text


def _query(request: Request) -> Query:
    conversation = [(message.role, message.text) for message in request.messages]
    return Query(id=request.id, prompt_id=request.id, text=json.dumps(conversation))
