"""How a server is asked for outputs: settled at the start, from what it says and what it takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from leakbound.engines.answers import Answer, Asked, Stated, read_answer
from leakbound.engines.server import RefusedError, Server
from leakbound.engines.stating import Statement, statement_of
from leakbound.errors import InputError, ModelError
from leakbound.types import Decoding, Json, JsonObject

_LENGTHS = ("max_tokens", "max_completion_tokens")  # not every server takes the same word
_STOPS = 4  # strings that a request may name; all are cut at, whether it names them or not
_GREETING = "Say a word."


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How one model of a server is asked.

    model: its name there.
    chat: whether it is asked by messages, else by a text to go on with.
    statement: what the server says it is.
    stated: what its answers say gave them.
    length: its word for the most tokens of an output.
    choices: outputs that a request may ask for.
    """

    model: str
    chat: bool
    statement: Statement
    stated: Stated = field(default_factory=Stated)
    length: str = _LENGTHS[0]
    choices: int = 1

    @property
    def path(self) -> str:
        """What is asked, below the server's URL."""
        return "chat/completions" if self.chat else "completions"

    def asked(self, decoding: Decoding, choices: int) -> Asked:
        """What a request for so many outputs asks for."""
        return Asked(
            choices=choices, chat=self.chat, most=decoding.max_new_tokens, stop=decoding.stop
        )

    def body(self, question: Json, decoding: Decoding, choices: int, key: str) -> JsonObject:
        """A request with nothing left to the server's defaults; its seed is a digest of `key`."""
        body: dict[str, Json] = {
            "model": self.model,
            "messages" if self.chat else "prompt": question,
            "n": choices,
            "stream": False,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            self.length: decoding.max_new_tokens,
            **self.statement.sampling(decoding.temperature),
        }
        if not decoding.greedy:
            digest = hashlib.sha256(key.encode()).digest()
            body["seed"] = int.from_bytes(digest[:8]) >> (64 - self.statement.seed_bits)
        if decoding.stop:
            body["stop"] = list(decoding.stop[:_STOPS])
        return body

    def question(self, text: str) -> Json:
        """A text by itself, as this server is asked."""
        return [{"role": "user", "content": text}] if self.chat else text


def settle(server: Server, model: str, chat: bool, most: int) -> Manner:
    """How this model is asked, with the most outputs a request, at most `most`.

    Where the count of tokens does not cover all outputs of a request, one is asked for at a time:
    else nothing would tell that some were cut. Raises ModelError for a server that takes no
    request.
    """
    manner = Manner(model=model, chat=chat, statement=statement_of(server, model))
    why: RefusedError | None = None
    for tried in _attempts(manner, most):
        try:
            answer = _try(server, tried)
        except RefusedError as error:
            why = error
            continue
        given = tried.choices - answer.losses.count("fewer")
        covered = answer.tokens is None or answer.tokens >= given
        if tried.choices == 1 or (covered and given == tried.choices):
            return replace(tried, stated=answer.stated)
    raise ModelError(
        f"`{server.url}` does not take a request for {manner.path} of {model!r}: {why}. Check the "
        "model's name; a model without a chat template is asked with ?api=completions behind it."
    ) from why


def _attempts(manner: Manner, most: int) -> Iterator[Manner]:
    """Ways to ask, those with most outputs a request first."""
    for statement in manner.statement.ways():
        told = replace(manner, statement=statement)
        choices = most
        while choices > 1:
            yield replace(told, choices=choices)
            choices //= 2
        for length in _LENGTHS:
            yield replace(told, length=length)


def _try(server: Server, manner: Manner) -> Answer:
    """The answer to a request for the shortest outputs."""
    one = Decoding(max_new_tokens=1)
    key = json.dumps(["settling", manner.choices])
    body = manner.body(manner.question(_GREETING), one, manner.choices, key)
    return server.post(
        manner.path, body, partial(read_answer, asked=manner.asked(one, manner.choices))
    )


def require_offered(decoding: Decoding) -> None:
    """Raise InputError for a decoding that the protocol cannot say."""
    if decoding.top_k or decoding.adaptive_temperature is not None:
        raise InputError(
            f"a chat endpoint draws by temperature and top-p alone, got {decoding.name!r}. Leave "
            "top-k and the adaptive temperature out."
        )
    if decoding.max_tokens is not None:
        raise InputError(
            f"max_tokens {decoding.max_tokens} bounds prompt and completion together, and a server "
            "counts no prompt beforehand. Use --max-new-tokens."
        )
