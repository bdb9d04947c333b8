"""Chat models behind an OpenAI-compatible server, named `openai:URL#MODEL`.

Requests leave the machine, for the server that the user named. The key is read from the
environment and sent to its own server only (see `key_for`); no message, file or name shows it.
Replies are kept on disk, so a job that was stopped requests none of them twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leakbound.engines.addresses import located
from leakbound.engines.answers import read_reply
from leakbound.engines.manner import LENGTHS, Manner, Statement, require_offered
from leakbound.engines.server import Client, NoReplyError, Patience, RefusedError, Server
from leakbound.errors import InputError
from leakbound.text.rows import json_object
from leakbound.types import Decoding, Json, JsonObject, Request

_FOLDER_MODE = 0o700  # replies quote the requests: forget-set answers are secrets
_FILE_MODE = 0o600
# Not every server takes a schema, nor the same word for a length.
_WAYS = [(schema, length) for schema in (True, False) for length in LENGTHS]


def default_folder() -> Path:
    """The folder in which replies are kept.

    Returns:
        `leakbound/replies` in the user's cache folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "leakbound" / "replies"


@dataclass(frozen=True, slots=True)
class ReplyCache:
    """A folder with one file per reply, named by the digest of all that decides the reply.

    A file is present whole or absent, whichever threads and processes write. One that cannot be
    read counts as absent. Only replies are kept: a failure is requested again.

    Attributes:
        folder: made when the first reply is kept.
    """

    folder: Path

    def get(self, key: str) -> str | None:
        """Return the reply kept under a digest, None if there is none that can be read.

        Args:
            key: the digest.
        """
        try:
            reply = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return reply if isinstance(reply, str) else None

    def put(self, key: str, reply: str) -> None:
        """Keep a reply.

        Args:
            key: the digest of all that decides it.
            reply: its text.

        Raises:
            InputError: the folder cannot be written into.
        """
        path = self._path(key)
        partial = path.with_name(f".{key}.{os.getpid()}.{threading.get_ident()}.partial")
        try:
            for folder in (self.folder, path.parent):
                folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            partial.touch(mode=_FILE_MODE)
            partial.write_text(json.dumps(reply), encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            raise InputError(
                f"cannot keep replies in `{self.folder}`: {error.strerror}. Set XDG_CACHE_HOME to "
                "a folder that can be written into."
            ) from error

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


@dataclass
class EndpointChat:
    """A model behind a server.

    No reply comes where the server refuses a request (one longer than the model's context, say),
    and where the model declines.

    Attributes:
        client: the server, and the model's name there.
        cache: where replies are kept.
    """

    client: Client
    cache: ReplyCache
    _known: dict[bool, tuple[bool, str]] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls,
        location: str,
        *,
        cache: Path | None = None,
        patience: Patience | None = None,
        **_weights: Any,
    ) -> EndpointChat:
        """The model at `URL#MODEL`; nothing is sent yet.

        Args:
            location: `URL#MODEL`.
            cache: the folder in which replies are kept (None: `default_folder()`).
            patience: how long an answer is tried for (None: `Patience()`).
            _weights: how weights are loaded, which plays no part.

        Returns:
            The chat model.

        Raises:
            InputError: an invalid location.
        """
        client = Client(*located(location), patience or Patience())
        return cls(client, ReplyCache(cache or default_folder()))

    @property
    def name(self) -> str:
        return self.client.name

    @property
    def fingerprint(self) -> JsonObject:
        """The model's place and its name there: nothing else is known of it."""
        return {"model": self.name}

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """Ask for one reply a request, but for those that are kept; see `Chat.chat`.

        Args:
            requests: conversations, each keyed by its id.
            decoding: the distribution to draw from.
            seed: of the draws; a greedy decoding owes nothing to it.

        Returns:
            One reply a request, in order; None where the server refuses it or the model declines.

        Raises:
            InputError: a decoding that such servers do not offer, or a cache that cannot be
                written.
            ModelError: a server that cannot be reached, or does not accept the key.
            IncompleteError: a server that kept failing, answering too slowly or too much. Replies
                that came are kept, and the same command requests the others again.
        """
        require_offered(decoding, thoughts=False)
        keys = [self._key(request, decoding, seed) for request in requests]
        replies = {key: self.cache.get(key) for key in dict.fromkeys(keys)}
        of_key = dict(zip(keys, requests, strict=True))
        waiting = {key: of_key[key] for key, reply in replies.items() if reply is None}
        if waiting:
            replies |= self._ask(waiting, decoding)
        return [replies[key] for key in keys]

    def _key(self, request: Request, decoding: Decoding, seed: int) -> str:
        """The digest of what decides a reply; a greedy one owes nothing to the seed and the id."""
        draw = None if decoding.greedy else (seed, request.id)
        messages = [asdict(message) for message in request.messages]
        decided = [
            self.client.url,
            self.client.model,
            messages,
            request.schema,
            decoding.to_dict(),
            draw,
        ]
        return hashlib.sha256(json.dumps(decided).encode()).hexdigest()

    def _ask(self, waiting: Mapping[str, Request], decoding: Decoding) -> dict[str, str | None]:
        """The reply to each request, by its key; None where the model gives none.

        A failure may pass, and is no verdict: IncompleteError once all were sent.
        """
        failed: list[NoReplyError] = []
        replies: dict[str, str | None] = {}

        def reply(key: str) -> str | None:
            try:
                text = self._reply(server, key, waiting[key], decoding)
            except NoReplyError as error:
                if isinstance(error, RefusedError) and self._known:
                    return None  # others were taken: it is this request, not the server
                failed.append(error)
                server.lose(self.name, error, "Replies that came are kept")
                return None
            server.heard()
            return text

        with self.client.server() as server:
            server.each(reply, waiting, replies.__setitem__, stop=server.abandon)
        if self._known:
            failed = [error for error in failed if not isinstance(error, RefusedError)]
        if failed:
            raise self.client.left(failed, len(waiting)) from failed[0]
        return replies

    def _reply(self, server: Server, key: str, request: Request, decoding: Decoding) -> str | None:
        """A reply in the first way that the server takes; None where the model declines.

        It is kept if it follows the schema.
        """
        text: str | None = None
        structured = bool(request.schema)
        known = self._known.get(structured)
        ways = [known] if known else [way for way in _WAYS if structured or not way[0]]
        for number, (schema, length) in enumerate(ways, start=1):
            manner = Manner(
                model=self.client.model,
                chat=True,
                statement=Statement("", {}, neutral={}),
                length=length,
            )
            question: Json = [{"role": m.role, "content": m.text} for m in request.messages]
            body = {**manner.body(question, decoding, 1, key)}
            if schema:
                wanted = {"name": "reply", "strict": True, "schema": json.loads(request.schema)}
                body["response_format"] = {"type": "json_schema", "json_schema": wanted}
            try:
                text = server.post(manner.path, body, read_reply)
            except RefusedError:
                if number == len(ways):
                    raise
                continue
            self._known[structured] = schema, length
            break
        if text is not None and not (request.schema and json_object(text) is None):
            self.cache.put(key, text)
        return text
