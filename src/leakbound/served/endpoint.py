"""Chat models behind an OpenAI-compatible server, named `openai:URL#MODEL`.

Requests go to the server that the user specified. The API key is read from the environment and sent
only to its own server (see `key_for`). No message, file or name shows the key. Replies are stored
on disk, so a command that is stopped and started again requests no reply twice.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from leakbound.durable import sha256_of
from leakbound.engines.chats import Conversations, EngineChat
from leakbound.errors import InputError
from leakbound.served.openai import ServedEngine
from leakbound.served.server import Patience
from leakbound.types import Json

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
        folder: the folder, which is created when the first reply is stored.
    """

    folder: Path

    def get(self, key: str) -> Sequence[Json]:
        """Return a sequence with the reply for a key; empty if there is no readable reply.

        Args:
            key: everything that determines the reply.
        """
        try:
            return [json.loads(self._path(key).read_text(encoding="utf-8"))]
        except (OSError, ValueError):
            return []

    def put(self, key: str, value: Json) -> None:
        """Store a reply under its key.

        Args:
            key: everything that determines the reply.
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
                f"cannot store replies in `{self.folder}`: {error.strerror}. Set XDG_CACHE_HOME to "
                "a writable folder."
            ) from error

    def _path(self, key: str) -> Path:
        digest = sha256_of(key)
        return self.folder / digest[:2] / f"{digest}.json"


def open_served_chat(
    location: str, *, folder: Path | None = None, patience: Patience | None = None, **_weights: Any
) -> EngineChat:
    """Return the chat model at `URL#MODEL`; nothing is sent yet.

    Args:
        location: `URL#MODEL`, or with options `URL#MODEL?name=value&…`.
        folder: the folder in which replies are stored (None: `default_folder()`).
        patience: the limits on waiting for an answer (None: `Patience()`).
        _weights: settings of local models, which are ignored.

    Returns:
        The chat model.

    Raises:
        InputError: an invalid location.
    """

    @cache
    def engine(schema: str) -> ServedEngine:
        prompting = Conversations(chat=True)
        made = ServedEngine(location, prompting, patience=patience, replies=True, schema=schema)
        made.kept = ReplyCache(folder or default_folder())
        return made

    return EngineChat(engine("").name, engine, served=True)
