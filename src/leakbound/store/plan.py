"""The parts of an arm's draws. A part is the unit of work, of storage and of resuming.

The size of a part is a constant, so every run of a study has the same parts.
The random numbers of draws depend on the query and the chunk, not on the part.
But queries of one part share the model's batches, and the shapes of batches
change the last bits of probabilities. So two runs have exactly equal draws only
if their parts are equal.

In an arm that is sampled until a claim is decided, each look leads to another round of parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from leakbound.durable import sha256_of
from leakbound.stats import Design
from leakbound.types import JsonObject, Query
from leakbound.types.decoding import require

CHUNK = 1024  # draws of a chunk, which share a key
PART = 4_096  # the largest number of draws of a part
MOST = 10**9  # the largest number of draws of a query
_PART_QUERIES = 64
_EXPLORED_QUERIES = 4  # questions of an explored part, each of which takes long


@dataclass(frozen=True, slots=True)
class Part:
    """Some queries and some of their chunks; the draws of a chunk share one random key.

    Attributes:
        number: the number of the part.
        query_ids: the queries, in order.
        sizes: the number of draws in each chunk; `sizes[i]` is for chunk `first_chunk` + i. Empty:
            exploring decides the number of draws.
        first_chunk: the number of each query's first chunk.
        draws_per_query: the number of draws of each query, if the queries differ in their number of
            draws; `sizes` then has one chunk. Empty: every query has `sizes`.
    """

    number: int
    query_ids: tuple[str, ...]
    sizes: tuple[int, ...]
    first_chunk: int
    draws_per_query: tuple[int, ...] = ()

    @property
    def draws(self) -> int:
        return sum(self.draws_per_query) or len(self.query_ids) * sum(self.sizes)

    @property
    def amount(self) -> int:
        """The size of the part, in draws or in explored questions."""
        return self.draws or len(self.query_ids)

    def __str__(self) -> str:
        """Return the name of its files."""
        return f"part-{self.number:05d}"

    @property
    def owner(self) -> JsonObject:
        """The metadata of its files: its number, and a digest of its queries and draws."""
        work = [self.query_ids, self.sizes, self.first_chunk, self.draws_per_query]
        return {"part": self.number, "work": sha256_of(json.dumps(work))}


def slice_of(text: str) -> tuple[int, int]:
    """Parse the name of a slice, i/N: its number from 1, and the number of slices of a study.

    Raises InputError if there is no such slice.
    """
    number, _, of = text.partition("/")
    fits = number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)
    remedy = "For example, 1/16 is the first of 16 slices."
    require(fits, "questions", text, "i/N with i from 1 to N", remedy)
    return int(number), int(of)


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of draws of every query.

    Attributes:
        n: the number of draws of every query; 0: exploring decides.

    Raises:
        InputError: n is larger than `MOST`.
    """

    n: int

    def __post_init__(self) -> None:
        """Raise InputError if the list of parts would not fit into memory."""
        require(0 <= self.n <= MOST, "n", self.n, f"at most {MOST:,} draws per question")

    @classmethod
    def of(cls, n: int) -> Plan:
        """Return the plan for n draws per query."""
        require(n >= 1, "n", n, "at least 1 draw per question")
        return cls(n)

    @classmethod
    def exploring(cls) -> Plan:
        """Return the plan in which exploring decides the number of draws."""
        return cls(0)

    def parts(
        self, query_ids: Sequence[str], *, first: int = 0, first_chunk: int = 0
    ) -> tuple[Part, ...]:
        """Return all parts, in the order of the queries, numbered from `first`.

        A part has as many complete queries as fit into it, or some chunks of one query.
        `first_chunk` is the number of each query's first chunk.
        """
        chunks, parts = self.chunks(), list[Part]()
        most = max(1, PART // CHUNK)
        together = max(1, min(PART // self.n, _PART_QUERIES)) if self.n else _EXPLORED_QUERIES
        for query in range(0, len(query_ids), together):
            ids = tuple(query_ids[query : query + together])
            for chunk in range(0, max(1, len(chunks)), most):
                sizes = chunks[chunk : chunk + most]
                parts.append(Part(first + len(parts), ids, sizes, first_chunk + chunk))
        return tuple(parts)

    def chunks(self) -> tuple[int, ...]:
        """Return the number of draws in each chunk of a query; empty if exploring decides it."""
        whole, rest = divmod(self.n, CHUNK)
        return (CHUNK,) * whole + ((rest,) if rest else ())


@dataclass(frozen=True, slots=True)
class QueryShares:
    """The division of a question's draws among its queries, fixed when the arm is planned.

    Attributes:
        design: the rule by which the draws are divided.
        draws_per_query: the number of draws of each query, by id. A query with 0 draws still
            belongs to its question.
    """

    design: Design
    draws_per_query: Mapping[str, int]

    def parts(self, queries: Sequence[Query]) -> tuple[Part, ...]:
        """Return all parts; the queries of one question are in the same part."""
        parts: list[Part] = []
        questions = self._questions(queries)
        while questions:
            group = questions.pop(0)
            while questions and sum(group.values()) + sum(questions[0].values()) <= PART:
                group |= questions.pop(0)
            for chunk in range(0, max(group.values()), CHUNK):
                left = {q: min(n - chunk, CHUNK) for q, n in group.items() if n > chunk}
                own = tuple(left.values())
                parts.append(Part(len(parts), tuple(left), (max(own),), chunk // CHUNK, own))
        return tuple(parts)

    def _questions(self, queries: Sequence[Query]) -> list[dict[str, int]]:
        """Return the number of draws of each query, grouped by question."""
        questions: dict[str, dict[str, int]] = {}
        for query in queries:
            if query.id in self.draws_per_query:
                questions.setdefault(query.prompt_id, {})[query.id] = self.draws_per_query[query.id]
        return list(questions.values())


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look: a decision on the claim about one question, from its draws so far.

    Attributes:
        n: the number of draws of the question at the look.
        decision: the decision on the claim about the question.
        next: the number of draws at the question's next look; `n` if the question stops.
    """

    n: int
    decision: str
    next: int


Looks = tuple[Mapping[str, Look], ...]
"""The looks in order, each by query id."""


@dataclass(frozen=True, slots=True)
class LooksRecord:
    """The content of `looks.json`: the identity of the arm, and its looks."""

    arm: str
    looks: Looks


def rounds_of(query_ids: Sequence[str], first: int, looks: Looks) -> tuple[tuple[Part, ...], ...]:
    """Return the parts of every round.

    The first round has `first` draws of every query. Each look then adds a round. Queries with
    equal numbers of draws share parts. The chunks of each query are numbered separately, so its
    draws do not depend on the results of other queries.
    """
    wanted: list[dict[str, int]] = [dict.fromkeys(query_ids, first)]
    wanted += [{q: seen.next for q, seen in look.items() if seen.next > seen.n} for look in looks]
    have = dict.fromkeys(query_ids, (0, 0))  # numbers of draws and chunks so far
    rounds: list[tuple[Part, ...]] = []
    number = 0
    for goals in wanted:
        equal: dict[tuple[int, int], list[str]] = {}
        for query_id, n in goals.items():
            drawn, chunks = have[query_id]
            equal.setdefault((n - drawn, chunks), []).append(query_id)
            have[query_id] = n, chunks + ceil((n - drawn) / CHUNK)
        parts: list[Part] = []
        for (more, chunks), ids in equal.items():
            start = number + len(parts)
            parts += Plan.of(more).parts(ids, first=start, first_chunk=chunks)
        rounds.append(tuple(parts))
        number += len(parts)
    return tuple(rounds)
