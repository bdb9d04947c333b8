"""Tables of an arm, a file a scorer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from leakbound.store import tables
from leakbound.store.journal import Journal
from leakbound.types import Json, JsonObject

_AGAIN = "Restore the file from a copy, or remove it and run `leakbound prove` again."


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
        tables.read_table(self.file(slug), _AGAIN)
        tables.read_owned(self.file(slug), {"arm": self._identity})
        return tables.file_digest(self.file(slug))

    def table(self, slug: str) -> pa.Table | None:
        """What is stored; None where nothing is."""
        if self.digest(slug) is None:
            return None
        return tables.read_table(self.file(slug), _AGAIN)

    def _meta(self, slug: str) -> dict[str, Json]:
        return tables.read_meta(self.file(slug), _AGAIN)

    def _journal(self, slug: str, made_from: JsonObject) -> Journal:
        """What is kept until a table that is made from this is stored."""
        return Journal(self._folder / f"{slug}.jsonl", {**self._owned(made_from), "slug": slug})

    def _write(self, slug: str, table: pa.Table, made_from: JsonObject, also: JsonObject) -> None:
        """Store a table, instead of what was there."""
        tables.write_table(self.file(slug), table, {**self._owned(made_from), **also})

    def _owned(self, made_from: JsonObject) -> JsonObject:
        return {"arm": self._identity, **made_from}
