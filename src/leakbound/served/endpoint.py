"""Chat models behind an OpenAI-compatible server, named `openai:URL#MODEL`.

Requests go to the server that the user named. The API key is read from the
environment and sent only to its own server (see `key_for`); no message, file or
name shows the key. Replies are stored on disk, so a job that is stopped and
started again requests no reply twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leakbound.engines.chats import Conversations, conversation_of, replies_of
from leakbound.errors import InputError
from leakbound.served.openai import ServedEngine
from leakbound.served.server import Patience
from leakbound.types import Decoding, Json, JsonObject, Query, Request

_FOLDER_MODE = 0o700  # replies may quote forget-set answers, which are secrets
_FILE_MODE = 0o600


def default_folder() -> Path:
    """Return the folder in which replies are stored.

    Returns:
        `leakbound/replies` in the user's cache folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "leakbound" / "replies"


@dataclass(frozen=True, slots=True)
class ReplyCache:
    """A `DrawJournal` of replies: a folder with one file per key, named by the digest of the key.

    A file is either complete or absent, even if several threads and processes write it. A file that
    cannot be read counts as absent.

    Attributes:
        folder: the folder; the first reply creates it.
    """

    folder: Path

    def get(self, key: str) -> Sequence[Json]:
        """Return a sequence with the reply of a key; empty if there is no readable reply.

        Args:
            key: everything that decides the reply.
        """
        try:
            return [json.loads(self._path(key).read_text(encoding="utf-8"))]
        except (OSError, ValueError):
            return []

    def put(self, key: str, value: Json) -> None:
        """Store a reply under its key.

        Args:
            key: everything that decides the reply.
            value: the reply.

        Raises:
            InputError: the folder cannot be written into.
        """
        path = self._path(key)
        partial = path.with_name(f".{path.stem}.{os.getpid()}.{threading.get_ident()}.partial")
        try:
            for folder in (self.folder, path.parent):
                folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            partial.touch(mode=_FILE_MODE)
            partial.write_text(json.dumps(value), encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            raise InputError(
                f"cannot keep replies in `{self.folder}`: {error.strerror}. Set XDG_CACHE_HOME to "
                "a folder that can be written into."
            ) from error

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / digest[:2] / f"{digest}.json"


@dataclass(frozen=True, slots=True)
class EndpointChat:
    """A chat model on a server.

    A reply is None if the server refuses the request, for example because it is longer than the
    model's context, or if the model declines.

    Attributes:
        location: `URL#MODEL`, or with options `URL#MODEL?name=value&…`.
        cache: stores the replies.
        patience: the limits on waiting for an answer.
    """

    location: str
    cache: ReplyCache
    patience: Patience
    _engines: dict[str, ServedEngine] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls,
        location: str,
        *,
        cache: Path | None = None,
        patience: Patience | None = None,
        **_weights: Any,
    ) -> EndpointChat:
        """Return the model at `URL#MODEL`; nothing is sent yet.

        Args:
            location: `URL#MODEL`, or with options `URL#MODEL?name=value&…`.
            cache: the folder in which replies are stored (None: `default_folder()`).
            patience: the limits on waiting for an answer (None: `Patience()`).
            _weights: settings of local models, which are ignored.

        Returns:
            The chat model.

        Raises:
            InputError: an invalid location.
        """
        chat = cls(location, ReplyCache(cache or default_folder()), patience or Patience())
        chat.engine("")
        return chat

    @property
    def name(self) -> str:
        return self.engine("").name

    def engine(self, schema: str) -> ServedEngine:
        """Return the engine that requests and stores replies that follow a schema.

        Args:
            schema: the JSON schema of replies, see `Request`.

        Returns:
            The engine; nothing is sent yet.
        """
        if schema not in self._engines:
            engine = ServedEngine(
                self.location,
                Conversations(chat=True),
                patience=self.patience,
                replies=True,
                schema=schema,
            )
            engine.kept = self.cache
            self._engines[schema] = engine
        return self._engines[schema]

    @property
    def fingerprint(self) -> JsonObject:
        """The name of the model with its server; nothing else is known about the model."""
        return {"model": self.name}

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """Request one reply for each conversation without a stored reply; see `Chat.chat`.

        Args:
            requests: conversations, each keyed by its id.
            decoding: the distribution to draw from.
            seed: the seed of the draws; a greedy decoding does not depend on it.

        Returns:
            One reply per request, in order; None if the server refuses the request or the model
                declines.

        Raises:
            InputError: a decoding that such servers do not offer, or a cache that cannot be
                written.
            ModelError: a server that cannot be reached, accepts no request, or does not accept the
                key.
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
        """Return the conversation, keyed by everything that decides its reply.

        The key contains the request's id, except for greedy replies, which do not depend on it.
        """
        query, draw = conversation_of(request), None if decoding.greedy else request.id
        key = json.dumps([self.name, query.text, request.schema, decoding.to_dict(), draw])
        return replace(query, id=key, prompt_id=key)
