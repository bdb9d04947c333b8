"""Tables of an arm, a file a scorer, and what is found of one until it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa

from leakbound.store import tables
from leakbound.store.journal import Journal
from leakbound.types import Json, JsonObject, from_json, object_of

T = TypeVar("T")

AGAIN = "Restore the file from a copy, or remove it and run `leakbound prove` again."


class Begun(Generic[T]):
    """What was found for a table that is not stored yet, each value as it came, by its key."""

    def __init__(self, journal: Journal, kind: type[T]) -> None:
        self._journal, self._kind = journal, kind

    def get(self, key: str) -> T | None:
        """What was found; None where it is still to be looked for."""
        for value in self._journal.get(key):
            return from_json(self._kind, value, f"`{self._journal.file}`")
        return None

    def put(self, key: str, found: T) -> None:
        """Keep it beyond the end of the process."""
        self._journal.put(key, {**object_of(found)})

    def remove(self) -> None:
        """Forget all: the table is stored."""
        self._journal.remove()


class ByScorer:
    """The tables in this folder about the arm with this identity."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder, self._identity = folder, identity

    def file(self, slug: str) -> Path:
        """Where that of a scorer is kept."""
        return self._folder / f"{slug}.parquet"

    def has(self, slug: str, made_from: JsonObject) -> bool:
        """True if what lies there, whole, was made from just this."""
        return tables.is_made_from(self.file(slug), self._owned(made_from))

    def digest(self, slug: str) -> str | None:
        """A digest of what is stored; None where nothing is."""
        if not self.file(slug).exists():
            return None
        tables.read_table(self.file(slug), AGAIN)
        tables.read_owned(self.file(slug), {"arm": self._identity})
        return tables.file_digest(self.file(slug))

    def table(self, slug: str) -> pa.Table | None:
        """What is stored; None where nothing is."""
        if self.digest(slug) is None:
            return None
        return tables.read_table(self.file(slug), AGAIN)

    def _meta(self, slug: str) -> dict[str, Json]:
        return tables.read_meta(self.file(slug), AGAIN)

    def _begun(self, slug: str, made_from: JsonObject, kind: type[T]) -> Begun[T]:
        """What is kept until a table that is made from this is stored."""
        owner = {**self._owned(made_from), "slug": slug}
        return Begun(Journal(self._folder / f"{slug}.jsonl", owner), kind)

    def _write(self, slug: str, table: pa.Table, made_from: JsonObject, also: JsonObject) -> None:
        """Store a table, instead of what was there."""
        tables.write_table(self.file(slug), table, {**self._owned(made_from), **also})

    def _owned(self, made_from: JsonObject) -> JsonObject:
        return {"arm": self._identity, **made_from}
