"""Open models for scorers, rewriters and judges, but not the evaluated model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from leakbound.engines import ENGINES, open_engine
from leakbound.engines.addresses import require_named, server_of, servers_of
from leakbound.engines.chats import Conversations, EngineChat, conversation_of
from leakbound.errors import InputError, needing
from leakbound.scorers import connect, make_scorer
from leakbound.types import Chat, Classify, Decoding, Embed, Message, Request, Scorer

State = tuple[tuple[str, int, int], ...]

_KEPT = 8  # models of each kind
_GREETING = Request(id="greeting", messages=(Message(role="user", text="Hello."),))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModels:
    """`Models` from folders and the hub; a model is opened again only if its files changed.

    torch is imported when the first model is opened.

    Attributes:
        dtype: the type of the weights: "float32", "bfloat16", "float16", or "auto" (as stored).
        device: "cpu", "cuda", or "auto": a GPU if there is one.
        trust_remote_code: whether to run code that came with a chat model.
        servers: the URLs of the servers that may receive requests; no other server may.
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
            The classifier; its weights are loaded with the first text.

        Raises:
            InputError: a library that is not installed, or an unknown dtype or device.
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
            UnnamedServerError: a model on a server outside `servers`.
            InputError: an error of `open_chat`.
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
    """Make the scorer that `spec` describes, and connect it to its model, if it has one.

    A server in `spec` may receive requests, so never use a spec from an untrusted file.

    Args:
        spec: the specification of the scorer, see `make_scorer`.
        loading: `dtype`, `device` and `trust_remote_code`, see `OpenModels`.

    Returns:
        The scorer, ready to score.

    Raises:
        InputError: an invalid spec, or a model that does not suit the scorer.
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
    """Return a value that changes with the files of a model's folder; empty without a folder."""
    folders = (Path(where).expanduser() for where in (name, name.partition(":")[2]) if where)
    folder = next((folder for folder in folders if folder.is_dir()), None)
    files = sorted(folder.rglob("*")) if folder else ()
    return tuple((str(f), (s := f.stat()).st_size, s.st_mtime_ns) for f in files)


def open_chat(name: str, **loading: Any) -> Chat:
    """Open a chat model by its name.

    Args:
        name: a folder, a hub name, or `NAME:where` for another engine.
        loading: `dtype`, `device` and `trust_remote_code`, see `load_model`; a server ignores them.

    Returns:
        The chat model.

    Raises:
        InputError: a library that is not installed, an invalid location of a server, or a model
            that cannot hold a conversation.
        ModelError: a model that cannot be used.
    """
    if server_of(name) is not None:
        engine, _, location = name.partition(":")
        with needing("a chat endpoint", "judge"):
            served = import_module(f"leakbound.{ENGINES[engine].chats}")
            chat: Chat = served.open_served_chat(location, **loading)
        return chat
    location = name.removeprefix("transformers:")
    local = open_engine(location, Conversations(), **loading)
    try:
        local.check([conversation_of(_GREETING)], Decoding(max_new_tokens=1))
    except InputError as error:
        raise InputError(f"{location!r} cannot hold a conversation: {error}") from error
    return EngineChat(location, lambda _: local)
