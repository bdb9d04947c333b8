"""Models other than the one under test: for scorers, rewriters and judges.

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
from leakbound.text.counting import counted_as, is_missing
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

    torch loads with the first model.

    Attributes:
        dtype: of the weights: "float32", "bfloat16", "float16", or "auto" as they are stored.
        device: "cpu", "cuda", or "auto": a GPU where there is one.
        trust_remote_code: run code that came with a chat model.
        servers: the URLs of the only servers that may get requests.
    """

    dtype: str = "float32"
    device: str = "auto"
    trust_remote_code: bool = False
    servers: frozenset[str] = frozenset()

    def embed(self, name: str) -> Embed:
        """Open a model of sentence-transformers.

        Args:
            name: a folder or a hub name.

        Returns:
            The embedder.

        Raises:
            InputError: the library is not installed.
            ModelError: a model that cannot be used.
        """
        return _embed(name, _state(name), self.device)

    def classify(self, name: str) -> Classify:
        """Open a classifier; code that came with it is never run.

        Args:
            name: `KIND:where`, or a folder or hub name, see `open_classifier`.

        Returns:
            The classifier, its weights not read yet.

        Raises:
            InputError: a library that is not installed, or a dtype or device that there is not.
            ModelError: a model that cannot be used.
        """
        return _classify(name, _state(name), self.dtype, self.device)

    def chat(self, name: str) -> Chat:
        """Open a chat model.

        Args:
            name: `NAME:where`, or a folder or hub name, see `open_chat`.

        Returns:
            The chat model.

        Raises:
            UnnamedServerError: a model on a server that is not among `servers`.
            InputError: what `open_chat` refuses.
            ModelError: a model that cannot be used.
        """
        require_named(name, self.servers)
        return _chat(
            name,
            _state(name),
            dtype=self.dtype,
            device=self.device,
            trust_remote_code=self.trust_remote_code,
        )


def open_scorer(spec: str, **loading: Any) -> Scorer:
    """Make the scorer that `spec` describes, connected to the model it names, if any.

    A server in `spec` may get requests: write it yourself, never take it from a file of others.

    Args:
        spec: the scorer as it is written, see `make_scorer`.
        loading: `dtype`, `device` and `trust_remote_code`, see `OpenModels`.

    Returns:
        The scorer, ready to score.

    Raises:
        InputError: a spec that describes no scorer, or a model that cannot do the job.
        ModelError: a model that cannot be used.
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
    """A value that changes with the files of a model's folder; empty where it has none here."""
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

    def turns(self, tokenizer: Tokenizer, question: str) -> list[dict[str, str]]:
        """The conversation's own turns, none of which another can end or begin.

        What is quoted in a turn was written by others: a special token that it spells would be
        read as one, and what follows it as another's words.

        Args:
            tokenizer: the tokenizer of the model, which knows its special tokens.
            question: a whole conversation, as `_conversation` writes it.

        Returns:
            A mapping of `role` and `content` for each turn.
        """
        added = [t for t in tokenizer.added_tokens_decoder.values() if t.content.strip()]
        marks = {t.content.strip() for t in added if t.special or _BRACKETED.match(t.content)}
        longest_first = sorted(marks, key=len, reverse=True)
        spelled = re.compile("|".join(map(re.escape, longest_first))) if marks else None
        conversation = json.loads(question)
        return [{"role": role, "content": _words(text, spelled)} for role, text in conversation]


@dataclass(frozen=True, slots=True)
class TransformersChat:
    """Replies drawn from a model by the forest; requests with equal messages share their tree.

    The decoding is all that shapes the distribution. A reply that reaches `max_new_tokens`, or a
    stop string, counts as it stands: to draw it again would favour short ones. The reply is the
    answer, without the thought; None where it is missing or the model's logits are unusable.

    Attributes:
        engine: draws the replies, by the prompting `Conversations`.
        name: the model's, as it stands in results.
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
            InputError: a model without a chat template, or what `load_model` refuses.
            ModelError: a model that cannot be used.
        """
        engine = open_engine(location, Conversations(), **loading)
        try:
            engine.check([_conversation(_GREETING)], Decoding(max_new_tokens=1))
        except InputError as error:
            raise InputError(f"{location!r} cannot hold a conversation: {error}") from error
        return cls(engine, location)

    @property
    def fingerprint(self) -> JsonObject:
        """The fingerprint of the model, its weights among it."""
        return self.engine.fingerprint

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """Draw one reply a request; see `Chat.chat`.

        Args:
            requests: conversations, each keyed by its id.
            decoding: the distribution to draw from.
            seed: of the draws.

        Returns:
            One reply a request, in order; None where the answer is missing, as in an output that
            was cut inside its thought, or the model's logits are unusable.

        Raises:
            InputError: a conversation longer than the model's context.
        """
        queries = [_conversation(request) for request in requests]
        distinct = list(dict.fromkeys(queries))
        self.engine.check(distinct, decoding)
        draws = Draws(sizes=(1,), seed=seed, purpose=_PURPOSE)
        replies = {
            sample.query: reply.answer
            for sample in self.engine.generate(distinct, decoding, draws)
            if isinstance(sample, Sample)
            for reply in sample.completions
            if not is_missing(reply, counted_as(reply, decoding.stop))
        }
        return [replies.get(query) for query in queries]


def _endpoint(location: str, **loading: Any) -> Chat:
    with needing("a chat endpoint", "judge"):
        from leakbound.engines.endpoint import EndpointChat
    return EndpointChat.open(location, **loading)


CHATS: dict[str, Callable[..., Chat]] = {"openai": _endpoint, "transformers": TransformersChat.open}


def open_chat(name: str, **loading: Any) -> Chat:
    """Open a chat model by its name.

    Args:
        name: `NAME:where` of an engine in `CHATS`, else a transformers model.
        loading: `dtype`, `device` and `trust_remote_code`, see `load_model`; a server heeds none.

    Returns:
        The chat model.

    Raises:
        InputError: a library that is not installed, an invalid location of a server, or a model
            that cannot hold a conversation.
        ModelError: a model that cannot be used.
    """
    engine, colon, location = name.partition(":")
    if colon and engine in CHATS:
        return CHATS[engine](location, **loading)
    return CHATS["transformers"](name, **loading)


def _words(text: str, spelled: re.Pattern[str] | None) -> str:
    """The text with a blank in every token that it spells, so that it is read letter by letter."""
    while spelled is not None and spelled.search(text):
        text = spelled.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}" if mark[0][1:] else " ", text)
    return text


def _conversation(request: Request) -> Query:
    conversation = [(message.role, message.text) for message in request.messages]
    return Query(id=request.id, prompt_id=request.id, text=json.dumps(conversation))
