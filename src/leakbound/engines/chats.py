"""Conversations with chat models: judges, rewriters, authors of stories.

A conversation is one query of an engine; the query's text contains all turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakbound.engines import open_engine
from leakbound.engines.prompting import Prompting, Tokenizer
from leakbound.errors import InputError
from leakbound.text.counting import counted_as, is_missing
from leakbound.types import (
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
    """The prompting of queries whose text is a complete conversation, see `conversation_of`."""

    def uses_chat(self, tokenizer: Tokenizer) -> bool:
        """Require a chat template.

        Args:
            tokenizer: the tokenizer of the model.

        Returns:
            True.

        Raises:
            InputError: the tokenizer has no chat template.
        """
        if not super().uses_chat(tokenizer):
            raise InputError("its tokenizer has no chat template. Name an instruct model.")
        return True

    def turns(self, tokenizer: Tokenizer | None, question: str) -> list[dict[str, str]]:
        """Return the turns of a conversation, changed so that no text can begin or end a turn.

        Turns quote untrusted texts. A special token in such a text would be read as the end of a
        turn, and the rest of the text as words of another speaker.

        Args:
            tokenizer: the tokenizer of the model, which has the special tokens (None: the model is
                on a server, and its special tokens are unknown).
            question: a complete conversation, as `conversation_of` writes it.

        Returns:
            A mapping of `role` and `content` for each turn.
        """
        tokens = () if tokenizer is None else tokenizer.added_tokens_decoder.values()
        added = [token for token in tokens if token.content.strip()]
        marks = {t.content.strip() for t in added if t.special or _BRACKETED.match(t.content)}
        longest_first = sorted(marks, key=len, reverse=True)
        spelled = re.compile("|".join(map(re.escape, longest_first))) if marks else None
        conversation = json.loads(question)
        return [{"role": role, "content": _words(text, spelled)} for role, text in conversation]


def conversation_of(request: Request) -> Query:
    """Return the conversation as a query."""
    conversation = [(message.role, message.text) for message in request.messages]
    return Query(id=request.id, prompt_id=request.id, text=json.dumps(conversation))


def replies_of(
    engine: Generate, queries: Sequence[Query], decoding: Decoding, seed: int
) -> dict[Query, str]:
    """Draw one reply for each conversation; leave out conversations with a missing answer."""
    distinct = list(dict.fromkeys(queries))
    engine.check(distinct, decoding)
    draws = Draws(sizes=(1,), seed=seed, purpose=_PURPOSE)
    return {
        sample.query: reply.answer
        for sample in engine.generate(distinct, decoding, draws)
        if isinstance(sample, Sample)
        for reply in sample.completions
        if not is_missing(reply, counted_as(reply, decoding.stop))
    }


@dataclass(frozen=True, slots=True)
class TransformersChat:
    """Replies drawn by `leakbound.sampling`; equal messages are drawn in one tree of prefixes.

    The decoding determines the distribution of replies completely. A reply that reaches
    `max_new_tokens` or a stop string is not drawn again, because that would favour short replies.
    The reply is the answer, without the thought. A missing answer or unusable logits of the model
    give None.

    Attributes:
        engine: draws the replies, with the prompting `Conversations`.
        name: the name of the model in results.
    """

    engine: Generate
    name: str

    @classmethod
    def open(cls, location: str, **loading: Any) -> TransformersChat:
        """Load the model at `location`.

        Args:
            location: a folder, a `.gguf` file (dequantised), or a hub name.
            loading: `dtype`, `device` and `trust_remote_code`, see `load_model`.

        Returns:
            The chat model.

        Raises:
            InputError: a model without a chat template, or an error of `load_model`.
            ModelError: a model that cannot be used.
        """
        engine = open_engine(location, Conversations(), **loading)
        try:
            engine.check([conversation_of(_GREETING)], Decoding(max_new_tokens=1))
        except InputError as error:
            raise InputError(f"{location!r} cannot hold a conversation: {error}") from error
        return cls(engine, location)

    @property
    def fingerprint(self) -> JsonObject:
        """The fingerprint of the model, including its weights."""
        return self.engine.fingerprint

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """Draw one reply per request; see `Chat.chat`.

        Args:
            requests: conversations, each keyed by its id.
            decoding: the distribution to draw from.
            seed: the seed of the draws.

        Returns:
            One reply per request, in order; None if the answer is missing, for example because the
            output was cut inside its thought, or if the model's logits are unusable.

        Raises:
            InputError: a conversation longer than the model's context.
        """
        queries = [conversation_of(request) for request in requests]
        replies = replies_of(self.engine, queries, decoding, seed)
        return [replies.get(query) for query in queries]


def _words(text: str, spelled: re.Pattern[str] | None) -> str:
    """Insert a blank into every special token in a text, so that it is tokenised as plain text."""
    while spelled is not None and spelled.search(text):
        text = spelled.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}" if mark[0][1:] else " ", text)
    return text
