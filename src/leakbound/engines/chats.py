"""Conversations with chat models: judges, rewriters, authors of stories.

A conversation is one query of an engine; the query's text contains all turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from leakbound.engines.prompting import Prompting, Tokenizer
from leakbound.errors import InputError
from leakbound.text.counting import counted_as, is_missing
from leakbound.types import (
    Decoding,
    Draws,
    Generate,
    JsonObject,
    Query,
    Request,
    Sample,
)

_PURPOSE = "chat"
_BRACKETED = re.compile(r"\s*[<\[{|].*[>\]}|]\s*\Z", re.DOTALL)  # <think>, [INST], {{role}}


class Conversations(Prompting):
    """The prompting of queries whose text is a complete conversation, see `conversation_of`."""

    def uses_chat(self, tokenizer: Tokenizer) -> bool:
        """Return True; raise InputError if the tokenizer has no chat template.

        Args:
            tokenizer: the tokenizer of the model.

        Returns:
            True.

        Raises:
            InputError: the tokenizer has no chat template.
        """
        if not super().uses_chat(tokenizer):
            raise InputError("its tokenizer has no chat template. Use an instruct model.")
        return True

    def turns(self, tokenizer: Tokenizer | None, question: str) -> list[dict[str, str]]:
        """Return the turns of a conversation, changed so that no text can begin or end a turn.

        Turns quote untrusted texts. A special token in such a text could end the turn, and the text
        after the token would then be words of another speaker.

        Args:
            tokenizer: the tokenizer of the model, which defines the special tokens (None: the model
                is on a server, and its special tokens are unknown).
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
    """Draw one reply per conversation; conversations with a missing answer are left out."""
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
class EngineChat:
    """A chat model whose replies an engine draws; requests with equal messages share computation.

    The decoding determines the distribution of replies completely. A reply that reaches
    `max_new_tokens` or a stop string is not drawn again, because that would favour short replies.
    The reply is the answer, without the thought. The reply is None if the answer is missing, if the
    logits are unusable, or if the server refuses the request. A server may refuse a request that is
    longer than the model's context, or that the server's model declines.

    Attributes:
        name: the name of the model in results.
        engine: a function that returns the engine for replies that follow a JSON schema, see
            `Request`. The engine's prompting is `Conversations`. A local model has one engine for
            all schemas.
        served: whether the model is on a server. The replies of a server are stored, so the key of
            a conversation contains everything that determines the reply.
    """

    name: str
    engine: Callable[[str], Generate]
    served: bool = False

    @property
    def fingerprint(self) -> JsonObject:
        """The fingerprint of a local model; for a model on a server, only its name."""
        return {"model": self.name} if self.served else self.engine("").fingerprint

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """Draw one reply per request, unless the reply is stored; see `Chat.chat`.

        Args:
            requests: the conversations. The id of a conversation is the key of its random numbers.
            decoding: the distribution to draw from.
            seed: the seed of the draws; a greedy decoding does not depend on it.

        Returns:
            One reply per request, in order; None for a missing reply (see the class).

        Raises:
            InputError: a conversation longer than a local model's context, a decoding that servers
                do not offer, or replies that cannot be stored.
            ModelError: a server that cannot be reached, refuses all requests, or does not accept
                the key.
            IncompleteError: a server that repeatedly failed, answered too slowly, or sent too long
                replies. Received replies are stored, and the same command requests the missing
                replies.
        """
        seed = 0 if decoding.greedy else seed
        queries = [self._query(request, decoding) for request in requests]
        replies: dict[Query, str] = {}
        for schema in dict.fromkeys(request.schema for request in requests):
            both = zip(queries, requests, strict=True)
            mine = [query for query, request in both if request.schema == schema]
            replies |= replies_of(self.engine(schema), mine, decoding, seed)
        return [replies.get(query) for query in queries]

    def _query(self, request: Request, decoding: Decoding) -> Query:
        """Return the conversation with its key; keys of greedy replies do not depend on its id."""
        query, draw = conversation_of(request), None if decoding.greedy else request.id
        if not self.served:
            return query
        key = json.dumps([self.name, query.text, request.schema, decoding.to_dict(), draw])
        return replace(query, id=key, prompt_id=key)


def _words(text: str, spelled: re.Pattern[str] | None) -> str:
    """Insert a blank into every special token in a text, so that it is tokenised as plain text."""
    while spelled is not None and spelled.search(text):
        text = spelled.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}" if mark[0][1:] else " ", text)
    return text
