"""What a search for rare leaks has found of an arm, a file a scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.store.artifact import Artifact, Begun
from leakbound.store.sealed import digest_of
from leakbound.types import Event, JsonObject, Proving, Query, from_json, object_of

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
        self.stored = Artifact(folder=folder, kind=ProvedEvent, owner={"arm": arm}, again=AGAIN)

    def begun(self, slug: str, forwards: int) -> Begun[Proving]:
        """What a search with at most so many forwards a query has found, until it is written.

        By the keys of what was searched.
        """
        return self.stored.begun(slug, {"most": forwards}, Proving)

    def write(
        self, slug: str, found: Sequence[Proving], searched: Sequence[Searched], forwards: int
    ) -> None:
        """Store what was found of all queries, instead of what was known.

        `searched`: those of which something was found. `forwards`: the most that one was allowed.
        """
        rows = [
            ProvedEvent(one.query.id, event, low)
            for one in found
            for event, low in zip(one.events, one.lows, strict=True)
        ]
        spent: JsonObject = {"forwards": {one.query.id: one.forwards for one in found}}
        self.stored.write(slug, rows, {**self.made_from(searched, forwards), **spent})

    def forwards(self, slug: str) -> dict[str, int]:
        """How many prefixes were forwarded, by the id of each query that was searched."""
        if not (file := self.stored.file(slug)).exists():
            return {}
        return from_json(dict[str, int], self.stored.meta(slug)["forwards"], f"`{file}`")

    @staticmethod
    def made_from(searched: Sequence[Searched], forwards: int) -> JsonObject:
        """All that proofs depend on, beside arm and scorer."""
        keys = [one.key for one in searched]
        return {"most": forwards, "searched": digest_of({"keys": keys})}
