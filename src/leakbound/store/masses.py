"""Store the results of exploring, of proofs, and of drawing a part of an arm.

An event is one output, or all outputs with the same beginning; its mass is its probability. Masses
are stored like completions, and the ranges of the events' scores like scores. The proofs from a
search for rare leaks have one file per scorer.
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
from leakbound.store.files import digest_of, value_of
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
    object_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """Results of exploring queries, by query id.

    Attributes:
        remainder: a lower bound on the mass of the outputs from which the draws come.
        settled: the mass of complete outputs, and of prefixes whose continuations all have one
            score. If there are no draws, other prefixes may remain; their mass is excluded.
        forwards: the number of prefixes that had a forward pass, before the draws and in total.
    """

    remainder: Mapping[str, float]
    settled: Mapping[str, float]
    forwards: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """The record of a part, in the metadata of its completions.

    Attributes:
        failures: the reason why a query has no completions, by its id.
        missing: the number of draws of a query that the engine did not return, by its id.
        usage: the cost of the part.
        machine: facts about the machine that affect the exact draws, but not their distribution.
        rows: the number of completions.
        digest: the digest of the file.
    """

    failures: Mapping[str, str]
    missing: Mapping[str, int]
    usage: Usage
    machine: JsonObject
    rows: int
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPart:
    """The result of drawing or exploring a part.

    Attributes:
        completions: one row per completion; the queries have the same order as in the part.
        record: failures, missing draws and costs.
        events: a row per explored event.
        explored: the results of exploring each query.
    """

    completions: pa.Table
    record: PartRecord
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
        """Convert an engine's results for these queries to tables; results may have any order."""
        order = {query_id: i for i, query_id in enumerate(query_ids)}
        ordered = sorted(results, key=lambda result: order[result.query.id])
        explored = [result for result in ordered if isinstance(result, Exploration)]
        drawn = [result.sample if isinstance(result, Exploration) else result for result in ordered]
        samples = [s for s in drawn if isinstance(s, Sample)]
        rows = [DrawnRow.of(s, c) for s in samples for c in s.completions]
        events = [EventRow(x.query.id, e) for x in explored for e in x.events]
        return cls(
            completions=table_of(DrawnRow, rows),
            record=PartRecord(
                failures={f.query.id: f.reason for f in drawn if isinstance(f, Failure)},
                missing={s.query.id: s.missing for s in samples if s.missing},
                usage=usage,
                machine=machine,
                rows=len(rows),
            ),
            events=table_of(EventRow, events),
            explored=Explored(
                remainder={x.query.id: x.remainder for x in explored},
                settled={
                    x.query.id: fsum(e.mass for e in x.events if e.ended or x.sample.n)
                    for x in explored
                },
                forwards={x.query.id: (x.explored, x.forwards) for x in explored},
            ),
        )


@dataclass(frozen=True, slots=True)
class EventRange:
    """A row with the mass of an event of a query, and the range of its outputs' scores."""

    query_id: str
    mass: float
    low: float
    high: float


class StoredMasses:
    """The mass files of an arm, one per part, and the ranges of their events' scores.

    Args:
        folder: the folder of the arm.
        identity: the digest of the arm.
        parts: returns the explored parts that are known so far; empty for an arm without exploring.
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
        """Return the results of all explored queries."""
        there = [part for part in self._parts() if self.stored.file(part).exists()]
        parts = [self.stored.record(part, Explored) for part in there]
        names = [column.name for column in fields(Explored)]
        pairs = {name: [getattr(part, name).items() for part in parts] for name in names}
        return Explored(**{name: dict(chain.from_iterable(items)) for name, items in pairs.items()})

    def tables(self) -> Iterator[pa.Table]:
        """Yield a table of stored events for each explored part, one row per event."""
        return map(self.stored.table, self._parts())

    def score(
        self, scorer: str, slug: str, ranges: Callable[[pa.Table], list[tuple[float, float]]]
    ) -> None:
        """Compute and store the range of every event's scores, unless the ranges are stored.

        `ranges` returns the lowest and highest score for each row of a table of events.
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
        """Return whether undamaged ranges of a scorer's scores are stored for current events."""
        return not self._parts() or self.ranges.has(slug, self._made_from(scorer))

    def by_query(self, slug: str) -> dict[str, Mass]:
        """Return the masses of each explored query, with the range of the scores of each mass."""
        if not self._parts():
            return {}
        table, remainders = self.ranges.table(slug), self.explored().remainder
        every = np.stack([table[name].to_numpy() for name in ("mass", "low", "high")], axis=1)
        own = place_of(table["query_id"], [*remainders])
        order = np.argsort(own, kind="stable")
        cuts = np.searchsorted(own[order], np.arange(len(remainders) + 1))
        masses = {}
        for i, (query_id, remainder) in enumerate(remainders.items()):
            # columns of one array: sums over plain arrays would have other last bits
            mass, low, high = every[order[cuts[i] : cuts[i + 1]]].T
            masses[query_id] = Mass(mass, low, high, remainder)
        return masses

    def scored(self, slug: str) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
        """Yield (query id, token ids, mass, lowest score) of every event."""
        if not self._parts():
            return
        lows = iter(self.ranges.table(slug)["low"].to_pylist())
        for query_id, event in self.events():
            yield query_id, event.token_ids, event.mass, next(lows)

    def events(self) -> Iterator[tuple[str, Event]]:
        """Yield (query id, event) of every event."""
        for part in self._parts():
            yield from ((row.query_id, row.event) for row in self.stored.values(part))

    def _made_from(self, scorer: str) -> JsonObject:
        return {"scorer": scorer, "masses": [self.stored.content(part) for part in self._parts()]}


AGAIN = "Restore it from a copy, or remove it and run `leakbound prove` again."


@dataclass(frozen=True, slots=True)
class ProvedEvent:
    """A row with an event of a query; each of its outputs scores at least `low`."""

    query_id: str
    event: Event
    low: float


@dataclass(frozen=True, slots=True)
class Searched:
    """A question to search: its query, and the texts at which the search begins, in order."""

    query: Query
    leads: tuple[str, ...]

    @property
    def key(self) -> str:
        """A digest of the query and the texts."""
        return digest_of({"query": object_of(self.query), "leads": [*self.leads]})


class Proofs:
    """The proofs about an arm, one row per event that a search found, sorted by query."""

    def __init__(self, folder: Path, arm: str) -> None:
        self.stored = Artifact(folder=folder, kind=ProvedEvent, owner={"arm": arm}, remedy=AGAIN)

    def journal(self, slug: str, forwards: int) -> Journal:
        """Return the journal of a search with at most this number of forward passes per query.

        The journal stores results by `Searched.key` until `write` stores them.
        """
        owner = {**self.stored.owner, "most": forwards, "slug": slug}
        return Journal(self.stored.folder / f"{slug}.jsonl", owner)

    def write(
        self, slug: str, proofs: Sequence[Proving], searched: Sequence[Searched], forwards: int
    ) -> None:
        """Store the proofs about all queries, and replace stored proofs.

        Args:
            slug: the name of the scorer's files.
            proofs: the result of each search.
            searched: the question of each search.
            forwards: the limit on the number of forward passes per question.
        """
        rows = [
            ProvedEvent(proof.query.id, event, low)
            for proof in proofs
            for event, low in zip(proof.events, proof.lows, strict=True)
        ]
        spent: JsonObject = {"forwards": {proof.query.id: proof.forwards for proof in proofs}}
        self.stored.write(slug, rows, {**self.made_from(searched, forwards), **spent})

    def forwards(self, slug: str) -> dict[str, int]:
        """Return the number of forward passes of each searched query, by its id."""
        if not (file := self.stored.file(slug)).exists():
            return {}
        return value_of(dict[str, int], file, self.stored.meta(slug)["forwards"], AGAIN)

    @staticmethod
    def made_from(searched: Sequence[Searched], forwards: int) -> JsonObject:
        """Return what the proofs depend on, except the arm and the scorer."""
        keys = [question.key for question in searched]
        return {"most": forwards, "searched": digest_of({"keys": keys})}
