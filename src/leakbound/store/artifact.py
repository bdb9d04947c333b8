"""`Artifact`: write, check and read the files of an arm that contain one kind of row.

A `Journal` stores results that would be lost in an interruption, until their part
or table is stored.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import pyarrow as pa

from leakbound.store import tables
from leakbound.store.files import DamagedError, append, digest_of, value_of
from leakbound.store.plan import Part
from leakbound.store.tables import table_of, values_of
from leakbound.types import Json, JsonObject

T = TypeVar("T")
V = TypeVar("V")
_COSTS = frozenset({"usage", "machine"})
Name: TypeAlias = str | Part
"""The name of a file of an artifact: a word, such as the slug of a scorer, or a part."""


class Journal:
    """A `DrawJournal` in a file with one JSON line per answer.

    Lines that are incomplete, or belong to another part, are ignored.

    Args:
        file: the file; the first answer creates it.
        owner: a description of the part that the answers belong to.
    """

    def __init__(self, file: Path, owner: JsonObject) -> None:
        self.file, self._owner = file, digest_of(owner)
        self._lock = threading.Lock()
        self._answers: dict[str, list[Json]] | None = None

    def get(self, key: str) -> Sequence[Json]:
        """See `DrawJournal.get`."""
        with self._lock:
            if self._answers is None:
                self._answers = {}
                for line_key, value in self._lines():
                    self._answers.setdefault(line_key, []).append(value)
            return tuple(self._answers.get(key, ()))

    def put(self, key: str, value: Json) -> None:
        """See `DrawJournal.put`. Raises IncompleteError if the disk is full or fails."""
        text = json.dumps({"owner": self._owner, "key": key, "value": value})
        with self._lock:
            append(self.file, f"\n{text}")  # the line break ends an incomplete line
            if self._answers is not None:
                self._answers.setdefault(key, []).append(value)

    def remove(self) -> None:
        """Delete the journal after its part is stored."""
        self.file.unlink(missing_ok=True)

    def _lines(self) -> Iterator[tuple[str, Json]]:
        if not self.file.is_file():
            return
        for line in self.file.read_bytes().splitlines():
            try:
                entry = json.loads(line)
                if entry["owner"] == self._owner:
                    yield entry["key"], entry["value"]
            except (ValueError, KeyError, TypeError):
                continue


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact(Generic[T]):
    """Files of an arm in one folder, as tables whose rows are values of one dataclass.

    Attributes:
        folder: the folder.
        kind: the dataclass.
        owner: metadata that each file must have. A file of a part must also have the part's
            metadata.
        remedy: the fix for a damaged file.
        ending: the suffix of the files' names.
    """

    folder: Path
    kind: type[T]
    owner: JsonObject = field(default_factory=dict)
    remedy: str
    ending: str = ".parquet"

    def file(self, name: Name) -> Path:
        """Return the path of a file."""
        return self.folder / f"{name}{self.ending}"

    def meta(self, name: Name) -> dict[str, Json]:
        """Return a file's metadata; raise DamagedError for an absent, changed or foreign file."""
        file = self.file(name)
        meta = tables.read_meta(file, self.remedy)
        if not tables.states(meta, self._owner(name)):
            raise DamagedError(f"`{file}` belongs to another run. {self.remedy}")
        return meta

    def record(self, name: Name, kind: type[V]) -> V:
        """Build a value from the metadata of a file; raises the same errors as `meta`."""
        meta = self.meta(name)
        values = {column.name: meta.get(column.name) for column in fields(kind)}  # type: ignore[arg-type]
        return value_of(kind, self.file(name), values, self.remedy)

    def is_from(self, name: Name, made_from: JsonObject) -> bool:
        """Return whether a file was made from these sources, according to its metadata."""
        return tables.states(self.meta_or_none(name), made_from)

    def meta_or_none(self, name: Name) -> Mapping[str, Json]:
        """Return a file's metadata; empty if the file is absent or damaged."""
        try:
            return self.meta(name)
        except DamagedError:
            return {}

    def has(self, name: Name, made_from: JsonObject) -> bool:
        """Return whether a file is stored, is undamaged, and was made from these sources."""
        try:
            self.table(name)
        except DamagedError:
            return False
        return self.is_from(name, made_from)

    def table(self, name: Name) -> pa.Table:
        """Return all rows; raise DamagedError, with the remedy, for an absent or changed file."""
        self.meta(name)
        return tables.read_table(self.file(name), self.remedy)

    def values(self, name: Name, made_from: JsonObject | None = None) -> Iterator[T]:
        """Yield the stored values; nothing if there is no file, or if its sources differ."""
        if self.file(name).exists():
            table = self.table(name)
            if made_from is None or self.is_from(name, made_from):
                yield from values_of(self.kind, table)

    def digest(self, name: Name) -> str | None:
        """Check a file's table, and return the digest of its content; None without a file."""
        if not self.file(name).exists():
            return None
        self.table(name)
        return self.content(name)

    def content(self, name: Name) -> str:
        """Return a digest of the metadata without costs. Equal draws have equal digests."""
        return digest_of({k: v for k, v in self.meta(name).items() if k not in _COSTS})

    def write(self, name: Name, rows: pa.Table | Sequence[T], made_from: JsonObject) -> None:
        """Store a table, which replaces an earlier table."""
        table = rows if isinstance(rows, pa.Table) else table_of(self.kind, rows)
        tables.write_table(self.file(name), table, {**made_from, **self._owner(name)})

    def _owner(self, name: Name) -> JsonObject:
        return {**self.owner, **name.owner} if isinstance(name, Part) else self.owner
