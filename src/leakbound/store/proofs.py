"""What a search for rare leaks has found of an arm, a file a scorer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from leakbound.store import tables
from leakbound.store.columns import table_of
from leakbound.store.journal import Journal
from leakbound.store.sealed import digest_of
from leakbound.types import Event, Json, JsonObject, Proving, Query, from_json, object_of

_AGAIN = "Restore the file from a copy, or remove it and run `leakbound prove` again."


@dataclass(frozen=True, slots=True)
class _Proved:
    """A row: an event of a query, all of whose outputs score at least `low`."""

    query_id: str
    event: Event
    low: float


@dataclass(frozen=True, slots=True)
class Searched:
    """A question that is searched: its query, and the texts from which that begins, in order."""

    query: Query
    leads: tuple[str, ...]

    @property
    def key(self) -> str:
        """A digest of both."""
        return digest_of({"query": object_of(self.query), "leads": [*self.leads]})


@dataclass(frozen=True, slots=True)
class _Found:
    """What is kept of a `Proving` until all of them are stored."""

    events: tuple[Event, ...]
    lows: tuple[float, ...]
    forwards: int


class Begun:
    """What a search that has not ended has found, question by question, each kept as it is."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def get(self, one: Searched) -> Proving | None:
        """What was found of it; None where it is still to be searched."""
        for value in self._journal.get(one.key):
            known = from_json(_Found, value, f"`{self._journal.file}`")
            return Proving(
                query=one.query, events=known.events, lows=known.lows, forwards=known.forwards
            )
        return None

    def put(self, one: Searched, found: Proving) -> None:
        """Keep it beyond the end of the process."""
        kept: Json = object_of(_Found(found.events, found.lows, found.forwards))
        self._journal.put(one.key, kept)

    def remove(self) -> None:
        """Forget all: the proofs are stored."""
        self._journal.remove()


class Proofs:
    """The proofs about the arm with this folder and identity."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder, self._identity = folder, identity

    def file(self, slug: str) -> Path:
        """Where those of a scorer are kept."""
        return self._folder / "proofs" / f"{slug}.parquet"

    def begun(self, slug: str, forwards: int) -> Begun:
        """What is kept of a search with at most so many forwards a query, until it is written."""
        owner: JsonObject = {"arm": self._identity, "slug": slug, "most": forwards}
        return Begun(Journal(self._folder / "proofs" / f"{slug}.jsonl", owner))

    def has(self, slug: str, searched: Sequence[Searched], forwards: int) -> bool:
        """True if what lies there, whole, was found by just this search."""
        return tables.is_made_from(self.file(slug), self._made_from(searched, forwards))

    def write(
        self, slug: str, found: Sequence[Proving], searched: Sequence[Searched], forwards: int
    ) -> None:
        """Store what was found of all queries, instead of what was known.

        `searched`: those of which something was found. `forwards`: the most that one was allowed.
        """
        rows = [
            _Proved(one.query.id, event, low)
            for one in found
            for event, low in zip(one.events, one.lows, strict=True)
        ]
        meta: JsonObject = {
            **self._made_from(searched, forwards),
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

    def events(self, slug: str) -> pa.Table | None:
        """Every event that was found, a row each, with its `query_id` and the `low` of its scores.

        Those of a query stand together. None where nothing was looked for.
        """
        if self.digest(slug) is None:
            return None
        return tables.read_table(self.file(slug), _AGAIN)

    def rows(self, slug: str) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
        """(query id, token ids, mass at least, score at least) of every event that was found."""
        if (table := self.events(slug)) is None:
            return
        columns = (table[name].to_pylist() for name in ("query_id", "token_ids", "mass", "low"))
        for query_id, ids, mass, low in zip(*columns, strict=True):
            yield query_id, tuple(ids), mass, low

    def _made_from(self, searched: Sequence[Searched], forwards: int) -> JsonObject:
        keys = [one.key for one in searched]
        return {"arm": self._identity, "most": forwards, "searched": digest_of({"keys": keys})}
