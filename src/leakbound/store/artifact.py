"""Tables beside the parts of an arm: whole ones, and what of one is found so far.

A `Journal` keeps answers that could not be got again, until the part that they belong to is stored.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa

from leakbound.store import tables
from leakbound.store.files import DamagedError, append, digest_of
from leakbound.store.tables import table_of, values_of
from leakbound.types import Json, JsonObject, from_json, object_of

T = TypeVar("T")
V = TypeVar("V")


class Journal:
    """See `DrawJournal`: a file with one line an answer, each with a digest of itself.

    A line that is not whole, or another part's, counts as absent.

    Args:
        file: where it is; there is none as long as nothing was put.
        owner: the part that the answers are for.
    """

    def __init__(self, file: Path, owner: JsonObject) -> None:
        self.file, self._owner = file, digest_of(owner)
        self._lock = threading.Lock()
        self._known: dict[str, list[Json]] | None = None

    def get(self, key: str) -> Sequence[Json]:
        """See `DrawJournal.get`."""
        with self._lock:
            if self._known is None:
                self._known = {}
                for line_key, value in self._lines():
                    self._known.setdefault(line_key, []).append(value)
            return tuple(self._known.get(key, ()))

    def put(self, key: str, value: Json) -> None:
        """See `DrawJournal.put`. Raises IncompleteError where the disk is full or fails."""
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
                entry = json.loads(line)
                whole = entry.pop("digest") == digest_of(entry) and entry["owner"] == self._owner
                if whole:
                    yield entry["key"], entry["value"]
            except (ValueError, KeyError, TypeError, AttributeError):
                continue


@dataclass(frozen=True, slots=True)
class Begun(Generic[T]):
    """Values found for a table that is not stored yet, each as it came, by its key."""

    journal: Journal
    kind: type[T]

    def get(self, key: str) -> T | None:
        """The value found; None where it is still to be looked for."""
        for value in self.journal.get(key):
            return from_json(self.kind, value, f"`{self.journal.file}`")
        return None

    def put(self, key: str, value: T) -> None:
        """Keep it beyond the end of the process."""
        self.journal.put(key, {**object_of(value)})

    def remove(self) -> None:
        """Forget all: the table is stored."""
        self.journal.remove()


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact(Generic[T]):
    """Tables about an arm in one folder, by name: those of a scorer are called after its files.

    Attributes:
        folder: where they are.
        kind: of the values that their rows are.
        owner: what each says of itself, beside what it was made from.
        again: what helps where one is not as it was written.
        ending: of the names of their files.
    """

    folder: Path
    kind: type[T]
    owner: JsonObject = field(default_factory=dict)
    again: str = ""
    ending: str = ".parquet"
    _read: dict[str, tuple[tuple[int, ...], pa.Table]] = field(default_factory=dict, init=False)

    def file(self, name: str) -> Path:
        """Where one is kept."""
        return self.folder / f"{name}{self.ending}"

    def has(self, name: str, made_from: JsonObject) -> bool:
        """True if what lies there, whole, was made from just this."""
        try:
            self.table(name)
            return tables.says(self.meta(name), made_from)
        except DamagedError:
            return False

    def meta(self, name: str) -> Mapping[str, Json]:
        """The metadata of one; DamagedError unless it is there, as written, and the owner's."""
        return tables.read_owned(self.file(name), self.owner, self.again)

    def known(self, name: str) -> Mapping[str, Json]:
        """The metadata of one; empty where there is none, or none that can be read."""
        try:
            return self.meta(name)
        except DamagedError:
            return {}

    def table(self, name: str) -> pa.Table:
        """All rows; DamagedError, with the remedy, unless they are there as they were written.

        They are read once, as long as the file stays what it is.
        """
        if (now := _state(self.file(name))) != self._read.get(name, ((), None))[0] or not now:
            self._read[name] = now, tables.read_table(self.file(name), self.again)
            self.meta(name)
        return self._read[name][1]

    def values(self, name: str) -> Iterator[T]:
        """The stored values; none where there is no file."""
        if self.file(name).exists():
            yield from values_of(self.kind, self.table(name))

    def digest(self, name: str) -> str | None:
        """A digest of what is stored, read whole; None where nothing is."""
        if not self.file(name).exists():
            return None
        self.table(name)
        return tables.file_digest(self.file(name))

    def write(self, name: str, rows: pa.Table | Sequence[T], made_from: JsonObject) -> None:
        """Store a table, instead of what was there."""
        table = rows if isinstance(rows, pa.Table) else table_of(self.kind, rows)
        tables.write_table(self.file(name), table, {**self.owner, **made_from})

    def begun(self, name: str, made_from: JsonObject, kind: type[V]) -> Begun[V]:
        """The values kept until a table that is made from this is stored."""
        owner = {**self.owner, **made_from, "slug": name}
        return Begun(Journal(self.folder / f"{name}.jsonl", owner), kind)


def _state(file: Path) -> tuple[int, ...]:
    """A mark that differs once a file was written anew; empty where it is not there."""
    try:
        stat = file.stat()
    except OSError:
        return ()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
