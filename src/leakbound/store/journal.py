"""Answers that could not be got again, kept until the part that they belong to is stored."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from leakbound.store.files import append
from leakbound.store.sealed import digest_of
from leakbound.types import Json, JsonObject


class Journal:
    """See `Ledger`: a file with one line an answer, each with a digest of itself.

    A line that is not whole, or another part's, counts as absent.

    file: where it is; there is none as long as nothing was put.
    owner: the part that the answers are for.
    """

    def __init__(self, file: Path, owner: JsonObject) -> None:
        self.file, self._owner = file, digest_of(owner)
        self._lock = threading.Lock()
        self._known: dict[str, list[Json]] | None = None

    def get(self, key: str) -> Sequence[Json]:
        """See `Ledger.get`."""
        with self._lock:
            if self._known is None:
                self._known = {}
                for known, value in self._lines():
                    self._known.setdefault(known, []).append(value)
            return tuple(self._known.get(key, ()))

    def put(self, key: str, value: Json) -> None:
        """See `Ledger.put`. Raises IncompleteError where the disk is full or fails."""
        line: dict[str, Json] = {"owner": self._owner, "key": key, "value": value}
        text = json.dumps({**line, "digest": digest_of(line)})
        with self._lock:
            append(self.file, f"\n{text}")  # a line that was cut short stands alone
            if self._known is not None:
                self._known.setdefault(key, []).append(value)

    def remove(self) -> None:
        """Forget all: the part is stored."""
        self.file.unlink(missing_ok=True)

    def _lines(self) -> Iterator[tuple[str, Json]]:
        if not self.file.is_file():
            return
        for line in self.file.read_bytes().splitlines():
            try:
                found = json.loads(line)
                whole = found.pop("digest") == digest_of(found) and found["owner"] == self._owner
                if whole:
                    yield found["key"], found["value"]
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
