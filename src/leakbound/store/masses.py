"""Findings of exploration and proof about an arm, and the draws of a part as they are handed over.

Masses of events are stored like completions, and the ranges of their scores like scores. The rare
leaks that a search found are in one file per scorer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from math import fsum
from pathlib import Path

import numpy as np
import pyarrow as pa

from leakbound.stats import Mass
from leakbound.store.artifact import Artifact, Journal
from leakbound.store.files import digest_of
from leakbound.store.plan import Part
from leakbound.store.scores import place_of
from leakbound.store.tables import (
    DRAWN_AGAIN,
    SCORED_AGAIN,
    DrawnRow,
    EventRow,
    schema_of,
    table_of,
)
from leakbound.types import (
    Event,
    Exploration,
    Failure,
    JsonObject,
    Proving,
    Query,
    Sample,
    Usage,
    from_json,
    object_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """Results of exploring queries, by their ids.

    Attributes:
        remainder: the mass, at least, of the region that the draws were taken from.
        settled: the mass of events that were separated from the rest; without draws prefixes may
            still be open, and do not count.
        forwards: prefixes forwarded before the draws, and in all.
    """

    remainder: Mapping[str, float]
    settled: Mapping[str, float]
    forwards: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPart:
    """Tables and a few words: what crosses from who draws a part to who stores it.

    Attributes:
        completions: one row each, the queries in the order of the part.
        failures: why queries have no completions, by their ids.
        missing: how many draws of a query never came, by its id.
        usage: what the part cost.
        machine: what its exact draws, though not their distribution, depend on, with the plan.
        events: what exploring found, one row an event.
        explored: what exploring found of each query.
    """

    completions: pa.Table
    failures: Mapping[str, str]
    missing: Mapping[str, int]
    usage: Usage
    machine: JsonObject
    events: pa.Table
    explored: Explored

    @classmethod
    def of(
        cls,
        query_ids: Sequence[str],
        results: Sequence[Sample | Exploration | Failure],
        usage: Usage,
        machine: JsonObject,
    ) -> DrawnPart:
        """The tables of what an engine gave for these queries, in whatever order it came."""
        order = {query_id: i for i, query_id in enumerate(query_ids)}
        ordered = sorted(results, key=lambda result: order[result.query.id])
        explored = [result for result in ordered if isinstance(result, Exploration)]
        drawn = [result.sample if isinstance(result, Exploration) else result for result in ordered]
        samples = [s for s in drawn if isinstance(s, Sample)]
        return cls(
            completions=table_of(
                DrawnRow, [DrawnRow.of(s, c) for s in samples for c in s.completions]
            ),
            failures={f.query.id: f.reason for f in drawn if isinstance(f, Failure)},
            missing={s.query.id: s.missing for s in samples if s.missing},
            usage=usage,
            machine=machine,
            events=table_of(
                EventRow, [EventRow(x.query.id, e) for x in explored for e in x.events]
            ),
            explored=Explored(
                remainder={x.query.id: x.remainder for x in explored},
                settled={
                    x.query.id: fsum(e.mass for e in x.events if e.ended or x.sample.n)
                    for x in explored
                },
                forwards={x.query.id: (x.explored, x.forwards) for x in explored},
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMeta:
    """The record that is stored with the draws of a part.

    Attributes:
        digest: of the file.
        failures: why queries have no completions, by their ids.
        missing: the number of draws of a query that never came, by its id.
        usage: the cost of the part.
        machine: all that its exact draws, though not their distribution, depend on next to the
            plan.
        rows: the number of completions.
    """

    digest: str
    failures: Mapping[str, str]
    missing: Mapping[str, int]
    usage: Usage
    machine: JsonObject
    rows: int


@dataclass(frozen=True, slots=True)
class EventRange:
    """A row: an event of a query, and between what its outputs score."""

    query_id: str
    mass: float
    low: float
    high: float


class StoredMasses:
    """The mass files of an arm, one per part, and the ranges of their events' scores.

    `parts` gives the parts that are explored, as far as they are known; an arm that is only drawn
    from has none.
    """

    def __init__(self, folder: Path, identity: str, parts: Callable[[], Sequence[Part]]) -> None:
        self._parts = parts
        self.stored = Artifact(
            folder=folder / "masses", kind=EventRow, owner={"arm": identity}, remedy=DRAWN_AGAIN
        )
        self.ranges = Artifact(
            folder=folder / "scores", kind=EventRange, remedy=SCORED_AGAIN,
            ending=".ranges.parquet",
        )  # fmt: skip

    def explored(self) -> Explored:
        """The results of all explored queries."""
        there = [part for part in self._parts() if self.stored.file(part).exists()]
        parts = [self.stored.record(part, Explored) for part in there]
        names = [column.name for column in fields(Explored)]
        pairs = {name: [getattr(part, name).items() for part in parts] for name in names}
        return Explored(**{name: dict(chain.from_iterable(items)) for name, items in pairs.items()})

    def tables(self) -> Iterator[pa.Table]:
        """The stored events of each part that was explored, one row each."""
        return map(self.stored.table, self._parts())

    def score(
        self, scorer: str, slug: str, ranges: Callable[[pa.Table], list[tuple[float, float]]]
    ) -> None:
        """Store the range of every event's scores, unless the stored ones are of these events.

        `ranges` gives the lowest and highest score for each row of a table of events.
        """
        if self.has_ranges(scorer, slug):
            return
        pieces = []
        for table in self.tables():
            bounds = np.array(ranges(table), dtype=np.float64).reshape(-1, 2).T
            columns = [table["query_id"], table["mass"], *map(pa.array, bounds)]
            pieces.append(pa.table(columns, schema=schema_of(EventRange)))
        self.ranges.write(slug, pa.concat_tables(pieces), self._made_from(scorer))

    def has_ranges(self, scorer: str, slug: str) -> bool:
        """True if ranges of the events that are there now are stored, whole."""
        return not self._parts() or self.ranges.has(slug, self._made_from(scorer))

    def by_query(self, slug: str) -> dict[str, Mass]:
        """The masses of each explored query, with the ranges that this scorer gives."""
        if not self._parts():
            return {}
        table, remainders = self.ranges.table(slug), self.explored().remainder
        every = np.stack([table[name].to_numpy() for name in ("mass", "low", "high")], axis=1)
        own = place_of(table["query_id"], [*remainders])
        order = np.argsort(own, kind="stable")
        cuts = np.searchsorted(own[order], np.arange(len(remainders) + 1))
        masses = {}
        for i, (query_id, remainder) in enumerate(remainders.items()):
            # columns of one array: sums of such have other last bits than those of plain arrays
            mass, low, high = every[order[cuts[i] : cuts[i + 1]]].T
            masses[query_id] = Mass(mass, low, high, remainder)
        return masses

    def scored(self, slug: str) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
        """(query id, token ids, mass, lowest score) of every event."""
        if not self._parts():
            return
        lows = iter(self.ranges.table(slug)["low"].to_pylist())
        for query_id, event in self.events():
            yield query_id, event.token_ids, event.mass, next(lows)

    def events(self) -> Iterator[tuple[str, Event]]:
        """(query id, event) of every event."""
        for part in self._parts():
            yield from ((row.query_id, row.event) for row in self.stored.values(part))

    def _made_from(self, scorer: str) -> JsonObject:
        digests = [self.stored.content(part) for part in self._parts()]
        return {"scorer": scorer, "masses": digests}


AGAIN = "Restore the file from a copy, or remove it and run `leakbound prove` again."


@dataclass(frozen=True, slots=True)
class ProvedEvent:
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


class Proofs:
    """The proofs about an arm: every event that was found, a row each, those of a query together.

    `low` is what all of an event's outputs score at least.
    """

    def __init__(self, folder: Path, arm: str) -> None:
        self.stored = Artifact(folder=folder, kind=ProvedEvent, owner={"arm": arm}, remedy=AGAIN)

    def journal(self, slug: str, forwards: int) -> Journal:
        """The findings of a search with at most so many forwards a query, until they are written.

        By the keys of what was searched.
        """
        return self.stored.journal(slug, {"most": forwards})

    def write(
        self, slug: str, proofs: Sequence[Proving], searched: Sequence[Searched], forwards: int
    ) -> None:
        """Store what was found of all queries, instead of what was known.

        `searched`: those of which something was found. `forwards`: the most that one was allowed.
        """
        rows = [
            ProvedEvent(proof.query.id, event, low)
            for proof in proofs
            for event, low in zip(proof.events, proof.lows, strict=True)
        ]
        spent: JsonObject = {"forwards": {proof.query.id: proof.forwards for proof in proofs}}
        self.stored.write(slug, rows, {**self.made_from(searched, forwards), **spent})

    def forwards(self, slug: str) -> dict[str, int]:
        """How many prefixes were forwarded, by the id of each query that was searched."""
        if not (file := self.stored.file(slug)).exists():
            return {}
        return from_json(dict[str, int], self.stored.meta(slug)["forwards"], f"`{file}`")

    @staticmethod
    def made_from(searched: Sequence[Searched], forwards: int) -> JsonObject:
        """All that proofs depend on, with arm and scorer."""
        keys = [question.key for question in searched]
        return {"most": forwards, "searched": digest_of({"keys": keys})}
