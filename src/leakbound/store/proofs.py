"""What a search for rare leaks has found of an arm, a file a scorer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.store import tables
from leakbound.store.columns import table_of
from leakbound.types import Event, JsonObject, Proving

_AGAIN = "Restore the file from a copy, or remove it and run `leakbound prove` again."


@dataclass(frozen=True, slots=True)
class _Proved:
    """A row: an event of a query, all of whose outputs score at least `low`."""

    query_id: str
    event: Event
    low: float


class Proofs:
    """The proofs about the arm with this folder and identity."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder, self._identity = folder, identity

    def file(self, slug: str) -> Path:
        """Where those of a scorer are kept."""
        return self._folder / "proofs" / f"{slug}.parquet"

    def write(self, slug: str, found: Sequence[Proving], forwards: int) -> None:
        """Store what was found of all queries, instead of what was known.

        `forwards`: the most that a query was allowed.
        """
        rows = [
            _Proved(one.query.id, event, low)
            for one in found
            for event, low in zip(one.events, one.lows, strict=True)
        ]
        meta: JsonObject = {
            "arm": self._identity,
            "most": forwards,
            "forwards": {one.query.id: one.forwards for one in found},
        }
        tables.write_table(self.file(slug), table_of(_Proved, rows), meta)

    def digest(self, slug: str) -> str | None:
        """A digest of what is stored; None where nothing was looked for."""
        if not self.file(slug).exists():
            return None
        tables.read_table(self.file(slug), _AGAIN)
        tables.read_owned(self.file(slug), {"arm": self._identity})
        return tables.file_digest(self.file(slug))

    def rows(self, slug: str) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
        """(query id, token ids, mass at least, score at least) of every event that was found."""
        if self.digest(slug) is None:
            return
        table = tables.read_table(self.file(slug), _AGAIN)
        columns = (table[name].to_pylist() for name in ("query_id", "token_ids", "mass", "low"))
        for query_id, ids, mass, low in zip(*columns, strict=True):
            yield query_id, tuple(ids), mass, low
