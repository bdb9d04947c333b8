"""What was drawn of a part, as it is stored: whoever drew it may be another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import pyarrow as pa
import pyarrow.compute as pc

from leakbound.store import tables
from leakbound.types import Exploration, Failure, JsonObject, Sample, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMasses:
    """What an exploration found: its events, one row each, and of each query, by its id.

    remainder: the mass, at least, of the region that the draws were taken from.
    settled: the mass of events that were told apart from the rest.
    forwards: prefixes forwarded before the draws, and in all.
    """

    events: pa.Table
    remainder: Mapping[str, float]
    settled: Mapping[str, float]
    forwards: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, found: Sequence[Exploration]) -> DrawnMasses:
        """Of these explorations, in this order."""
        return cls(
            events=tables.masses_table(found),
            remainder={one.query.id: one.remainder for one in found},
            settled={one.query.id: _settled(one) for one in found},
            forwards={one.query.id: (one.explored, one.forwards) for one in found},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPart:
    """Tables and a few words: what crosses from who draws a part to who stores it.

    completions: one row each, the queries in the order of the part.
    failures: why queries have no completions, by their ids.
    missing: how many draws of a query never came, by its id.
    usage: what the part cost.
    machine: what its exact draws, though not their distribution, depend on besides the plan.
    masses: of a part that was explored.
    """

    completions: pa.Table
    failures: Mapping[str, str]
    missing: Mapping[str, int]
    usage: Usage
    machine: JsonObject
    masses: DrawnMasses

    @classmethod
    def of(
        cls,
        query_ids: Sequence[str],
        results: Sequence[Sample | Exploration | Failure],
        usage: Usage,
        machine: JsonObject,
    ) -> DrawnPart:
        """Of what an engine gave of these queries, in whatever order it came."""
        order = {query_id: i for i, query_id in enumerate(query_ids)}
        ordered = sorted(results, key=lambda one: order[one.query.id])
        explored = [one for one in ordered if isinstance(one, Exploration)]
        drawn = [one.sample if isinstance(one, Exploration) else one for one in ordered]
        samples = [one for one in drawn if isinstance(one, Sample)]
        return cls(
            completions=tables.completions_table(samples),
            failures={one.query.id: one.reason for one in drawn if isinstance(one, Failure)},
            missing={one.query.id: one.missing for one in samples if one.missing},
            usage=usage,
            machine=machine,
            masses=DrawnMasses.of(explored),
        )

    @property
    def draws(self) -> int:
        """How many draws there are, of all queries together."""
        return int(pc.sum(self.completions["count"]).as_py() or 0)

    @property
    def distinct(self) -> int:
        """How many completions there are that were drawn, each of a query once."""
        return int(pc.sum(pc.greater(self.completions["count"], 0)).as_py() or 0)


def _settled(found: Exploration) -> float:
    return fsum(event.mass for event in found.events if event.ended or found.sample.n)
