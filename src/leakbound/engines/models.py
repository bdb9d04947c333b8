"""Models that do a job beside the one under test, opened by name: for scorers, rewriters, judges.

A new one joins by a function `open(location, **loading) -> Chat` and one row of `CHATS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from leakbound.engines import open_engine
from leakbound.engines.addresses import require_named, servers_of
from leakbound.engines.prompting import Prompting, Tokenizer
from leakbound.errors import InputError, needing
from leakbound.scorers import connect, make_scorer
from leakbound.types import (
    Chat,
    Classify,
    Decoding,
    Draws,
    Embed,
    Generate,
    JsonObject,
    Message,
    Query,
    Request,
    Sample,
    Scorer,
)

State = tuple[tuple[str, int, int], ...]

_KEPT = 8  # models of each kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModels:
    """`Models` from folders and the hub; each is opened once per process, until its files change.

    See `load_model` for the settings. `servers`: the URLs of the only servers that may be asked.
    torch loads when the first model is asked for.
    """

    dtype: str = "float32"
    device: str = "auto"
    trust_remote_code: bool = False
    servers: frozenset[str] = frozenset()

    def embed(self, name: str) -> Embed:
        """A model of sentence-transformers."""
        return _embed(name, _state(name), self.device)

    def classify(self, name: str) -> Classify:
        """A classifier by its name, see `open_classifier`; never one with code of its own."""
        return _classify(name, _state(name), self.dtype, self.device)

    def chat(self, name: str) -> Chat:
        """A chat model by its name, see `open_chat`; UnnamedServerError for other servers."""
        require_named(name, self.servers)
        return _chat(
            name,
            _state(name),
            dtype=self.dtype,
            device=self.device,
            trust_remote_code=self.trust_remote_code,
        )


def open_scorer(spec: str, **loading: Any) -> Scorer:
    """The scorer that `spec` describes, connected to the model it names, if any.

    A server in `spec` may be asked: write it yourself, never take it from a file of others.
    `loading`: the settings of `OpenModels`. Raises what `make_scorer` and `connect` do.
    """
    return connect(make_scorer(spec), OpenModels(servers=servers_of([spec]), **loading))


@lru_cache(maxsize=_KEPT)
def _embed(name: str, state: State, device: str) -> Embed:
    with needing(f"the model {name!r}", "models"):
        from leakbound.engines.embedding import SentenceEmbedder

    return SentenceEmbedder.open(name, None if device == "auto" else device)


@lru_cache(maxsize=_KEPT)
def _classify(name: str, state: State, dtype: str, device: str) -> Classify:
    with needing(f"the model {name!r}", "models"):
        from leakbound.engines.classify import open_classifier

    return open_classifier(name, dtype=dtype, device=device)


@lru_cache(maxsize=_KEPT)
def _chat(name: str, state: State, **loading: Any) -> Chat:
    return open_chat(name, **loading)


def _state(name: str) -> State:
    """What changes with the files of a model's folder; empty where it has none here."""
    folders = (Path(where).expanduser() for where in (name, name.partition(":")[2]) if where)
    folder = next((folder for folder in folders if folder.is_dir()), None)
    files = sorted(folder.rglob("*")) if folder else ()
    return tuple((str(f), (s := f.stat()).st_size, s.st_mtime_ns) for f in files)


_PURPOSE = "chat"
_BRACKETED = re.compile(r"\s*[<\[{|].*[>\]}|]\s*\Z", re.DOTALL)  # <think>, [INST], {{role}}
_GREETING = Request(id="greeting", messages=(Message(role="user", text="Hello."),))


class Conversations(Prompting):
    """The rule for queries whose text is a whole conversation, as `_conversation` writes it."""

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
            engine.check([_conversation(_GREETING)], Decoding(max_new_tokens=1))
        except InputError as error:
            raise InputError(f"{location!r} cannot hold a conversation: {error}") from error
        return cls(engine, location)

    @property
    def fingerprint(self) -> JsonObject:
        """What the model is, its weights among it."""
        return self.engine.fingerprint

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """See `Chat.chat`. Raises InputError for a conversation longer than the model's context."""
        queries = [_conversation(request) for request in requests]
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


CHATS: dict[str, Callable[..., Chat]] = {"openai": _endpoint, "transformers": TransformersChat.open}


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


def _conversation(request: Request) -> Query:
    conversation = [(message.role, message.text) for message in request.messages]
    return Query(id=request.id, prompt_id=request.id, text=json.dumps(conversation))
