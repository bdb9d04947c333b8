"""What exploration found of an arm's distributions: masses of events, and their scores' ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leakbound.store import tables
from leakbound.store.drawn import DrawnMasses
from leakbound.store.plan import Part
from leakbound.types import JsonObject


@dataclass(frozen=True, slots=True)
class QueryMasses:
    """Disjoint events of one query, (d,) each: their masses, and the range of their scores.

    `remainder` is the mass, at least, of the region that the query's draws were taken from.
    """

    mass: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    remainder: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _MassMeta:
    """What is recorded with the masses of a part, by query id: see `Masses.write`."""

    digest: str
    remainder: Mapping[str, float]
    settled: Mapping[str, float]
    forwards: Mapping[str, tuple[int, int]]


class Masses:
    """The mass files of the arm with this folder and identity, a file a part.

    `parts` gives those that were explored, as far as they are known by then: none of an arm that
    was only drawn from, of which there are no masses. No other file is read.
    """

    def __init__(self, folder: Path, identity: str, parts: Callable[[], Sequence[Part]]) -> None:
        self._folder, self._identity, self._parts = folder, identity, parts

    def file(self, part: Part) -> Path:
        return self._folder / "masses" / f"part-{part.number:05d}.parquet"

    def write(self, part: Part, found: DrawnMasses) -> None:
        """Store what was found of a part's queries."""
        meta = {
            **part.owned_by(self._identity),
            "remainder": found.remainder,
            "settled": found.settled,
            "forwards": {query_id: [*both] for query_id, both in found.forwards.items()},
        }
        tables.write_table(self.file(part), found.events, meta)

    def tables(self) -> Iterator[pa.Table]:
        """The stored events of each part that was explored, one row each."""
        return (tables.read_table(self.file(part), tables.DRAWN_AGAIN) for part in self._parts())

    def digest(self, part: Part) -> str:
        """A digest of the stored events."""
        return self._read(part).digest

    def remainders(self) -> dict[str, float]:
        """The mass of the region that draws were taken from, by the ids of explored queries."""
        return {q: r for meta in self._meta() for q, r in meta.remainder.items()}

    def settled(self) -> dict[str, float]:
        """The mass of events that were told apart from the rest, by the ids of explored queries.

        Without draws prefixes may still be open, and do not count.
        """
        return {q: mass for meta in self._meta() for q, mass in meta.settled.items()}

    def forwards(self) -> dict[str, tuple[int, int]]:
        """Prefixes forwarded before a query's draws, and in all."""
        return {q: both for meta in self._meta() for q, both in meta.forwards.items()}

    def score(
        self,
        scorer: str,
        slug: str,
        ranges: Callable[[pa.Table], list[tuple[float, float]]],
    ) -> None:
        """Store the range of every event's scores, unless they are there for just these.

        `ranges` gives the lowest and highest score for each row of a table of events.
        """
        if self.has_ranges(scorer, slug):
            return
        pieces = []
        for table in self.tables():
            ends = np.array(ranges(table), dtype=np.float64).reshape(-1, 2).T
            columns = [table["query_id"], table["mass"], *map(pa.array, ends)]
            pieces.append(pa.table(columns, schema=tables.RANGES))
        tables.write_table(
            self.ranges_file(slug), pa.concat_tables(pieces), self._made_from(scorer)
        )

    def has_ranges(self, scorer: str, slug: str) -> bool:
        """True if ranges are stored, whole, of just the events that are there."""
        if not self._parts():
            return True
        return tables.is_made_from(self.ranges_file(slug), self._made_from(scorer))

    def ranges_file(self, slug: str) -> Path:
        return self._folder / "scores" / f"{slug}.ranges.parquet"

    def ranges_digest(self, slug: str) -> str:
        """A digest of the stored ranges."""
        return tables.file_digest(self.ranges_file(slug))

    def by_query(self, slug: str) -> dict[str, QueryMasses]:
        """What was found of each explored query, with the ranges that this scorer gives."""
        if not self._parts():
            return {}
        rows: dict[str, list[tuple[float, ...]]] = {}
        table = tables.read_table(self.ranges_file(slug))
        for query_id, *row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            rows.setdefault(query_id, []).append(tuple(row))
        found = {}
        for query_id, remainder in self.remainders().items():
            mass, low, high = np.array(rows.get(query_id, [])).reshape(-1, 3).T
            found[query_id] = QueryMasses(mass, low, high, remainder)
        return found

    def scored(self, slug: str) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
        """(query id, token ids, mass, lowest score) of every event."""
        if not self._parts():
            return
        lows = iter(tables.read_table(self.ranges_file(slug))["low"].to_pylist())
        for table in self.tables():
            columns = (table[name].to_pylist() for name in ("query_id", "token_ids", "mass"))
            for query_id, ids, mass in zip(*columns, strict=True):
                yield query_id, tuple(ids), mass, next(lows)

    def _meta(self) -> Iterator[_MassMeta]:
        for part in self._parts():
            if self.file(part).exists():
                yield self._read(part)

    def _read(self, part: Part) -> _MassMeta:
        owner = part.owned_by(self._identity)
        return tables.read_part_meta(self.file(part), owner, _MassMeta)

    def _made_from(self, scorer: str) -> JsonObject:
        digests = [self.digest(part) for part in self._parts()]
        return {"scorer": scorer, "masses": digests}
