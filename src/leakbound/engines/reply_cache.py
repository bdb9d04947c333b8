"""Replies on disk, so that what was paid for once is not asked again."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import InputError

FOLDER_VARIABLE = "LEAKBOUND_REPLIES"
_FOLDER_MODE = 0o700  # replies quote what was asked about: forget-set answers are secrets
_FILE_MODE = 0o600


def default_folder() -> Path:
    """Where $LEAKBOUND_REPLIES says, else `leakbound/replies` in the user's cache folder."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "leakbound" / "replies"


@dataclass(frozen=True, slots=True)
class ReplyCache:
    """A folder with one file a reply, named by the digest of all that decides the reply.

    A file is there whole or not at all, whichever threads and processes write. One that cannot be
    read counts as absent. Nothing but replies is kept: a failure is asked again.
    """

    folder: Path

    def get(self, key: str) -> str | None:
        """The reply kept under this digest."""
        try:
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, str) else None

    def put(self, key: str, reply: str) -> None:
        """Keep a reply. Raises InputError where the folder cannot be written into."""
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
                f"cannot keep replies in `{self.folder}`: {error.strerror}. Set {FOLDER_VARIABLE} "
                "to a folder that can be written into."
            ) from error

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
