"""`Artifact`: how rows of one kind become a file of an arm, how it is checked, read and written.

A `Journal` keeps answers that cannot be requested again, until the part or table that they belong
to is stored.
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
from leakbound.store.files import DamagedError, append, digest_of
from leakbound.store.plan import Part
from leakbound.store.tables import table_of, values_of
from leakbound.types import Json, JsonObject, from_json

T = TypeVar("T")
V = TypeVar("V")
_COSTS = frozenset({"usage", "machine"})
Name: TypeAlias = str | Part
"""The name of a file among those of an artifact: a word, such as a scorer's, or a part."""


class Journal:
    """See `DrawJournal`: a file with one JSON line per answer.

    A line that was cut short, or belongs to another part, counts as absent.

    Args:
        file: its place; there is no file before the first answer.
        owner: the part that the answers are for.
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
        """See `DrawJournal.put`. Raises IncompleteError where the disk is full or fails."""
        text = json.dumps({"owner": self._owner, "key": key, "value": value})
        with self._lock:
            append(self.file, f"\n{text}")  # so a line that was cut short ends there
            if self._answers is not None:
                self._answers.setdefault(key, []).append(value)

    def remove(self) -> None:
        """Delete the journal; the part is stored."""
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
    """Files of an arm in one folder, each a table whose rows are values of one kind.

    Attributes:
        folder: the folder.
        kind: of the values.
        owner: metadata that each file must have; a part adds its own.
        remedy: the fix for a damaged file.
        ending: of the names of the files.
    """

    folder: Path
    kind: type[T]
    owner: JsonObject = field(default_factory=dict)
    remedy: str
    ending: str = ".parquet"

    def file(self, name: Name) -> Path:
        """The place of one file."""
        return self.folder / f"{name}{self.ending}"

    def meta(self, name: Name) -> dict[str, Json]:
        """The metadata of a file; DamagedError unless it is there, as written, and the owner's."""
        file = self.file(name)
        with tables.reading(file, self.remedy):
            meta = tables.read_meta(file)
            if not tables.says(meta, self._owner(name)):
                raise DamagedError(f"`{file}` belongs to another run")
        return meta

    def record(self, name: Name, kind: type[V]) -> V:
        """The fields of this value, from the metadata of a file; DamagedError as of `meta`."""
        meta = self.meta(name)
        values = {column.name: meta.get(column.name) for column in fields(kind)}  # type: ignore[arg-type]
        with tables.reading(self.file(name), self.remedy):
            return from_json(kind, values, f"`{self.file(name)}`")

    def says(self, name: Name, made_from: JsonObject) -> bool:
        """True if the metadata of a file state that it was made from this."""
        return tables.says(self.meta_or_none(name), made_from)

    def meta_or_none(self, name: Name) -> Mapping[str, Json]:
        """The metadata of a file; empty where there is none, or none that can be read."""
        try:
            return self.meta(name)
        except DamagedError:
            return {}

    def has(self, name: Name, made_from: JsonObject) -> bool:
        """True if a file is there, whole, and was made from this."""
        try:
            self.table(name)
        except DamagedError:
            return False
        return self.says(name, made_from)

    def table(self, name: Name) -> pa.Table:
        """All rows; DamagedError, with the remedy, unless they are there as they were written."""
        self.meta(name)
        return tables.read_table(self.file(name), self.remedy)

    def values(self, name: Name, made_from: JsonObject | None = None) -> Iterator[T]:
        """The stored values; none where there is no file, or it was made from something else."""
        if self.file(name).exists():
            table = self.table(name)
            if made_from is None or self.says(name, made_from):
                yield from values_of(self.kind, table)

    def digest(self, name: Name) -> str | None:
        """The digest of the content of a file, read whole; None where there is none."""
        if not self.file(name).exists():
            return None
        self.table(name)
        return self.content(name)

    def content(self, name: Name) -> str:
        """A digest of the metadata without the costs, so equal draws made elsewhere have it too."""
        return digest_of({k: v for k, v in self.meta(name).items() if k not in _COSTS})

    def write(self, name: Name, rows: pa.Table | Sequence[T], made_from: JsonObject) -> None:
        """Store a table in place of the old one."""
        table = rows if isinstance(rows, pa.Table) else table_of(self.kind, rows)
        tables.write_table(self.file(name), table, {**made_from, **self._owner(name)})

    def journal(self, name: str, made_from: JsonObject) -> Journal:
        """The values kept until a table that is made from this is stored."""
        owner = {**self.owner, **made_from, "slug": name}
        return Journal(self.folder / f"{name}.jsonl", owner)

    def _owner(self, name: Name) -> JsonObject:
        return {**self.owner, **name.owner} if isinstance(name, Part) else self.owner
