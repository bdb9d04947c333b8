"""The draws of an arm, cut into parts: the unit of work, of storage and of resuming.

How large the parts are (see `cut`) changes no draw. Which queries advance together changes the
shapes of the model's batches, and with them the last bits of its probabilities: so a part, once
it is cut, stays as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakbound.stats import Design
from leakbound.store.cut import Cut
from leakbound.types import JsonObject, Query
from leakbound.types.decoding import require

CHUNK = 1024  # draws under one key
MOST, MOST_CHUNKS = 10**9, 10**6  # draws of a query, and keys that they are made under
_PART_QUERIES = 64
_EXPLORED_QUERIES = 4  # of a part that is explored, at most: each is much work


@dataclass(frozen=True, slots=True)
class Part:
    """Some queries and some of their chunks: `sizes[i]` draws in chunk `first_chunk` + i.

    Without sizes: an exploration, which finds out how many. With `draws_per_query`: query i gets
    so many draws instead, all in the one chunk that `sizes` then has.
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
        """How large it is, as a `Cut` counts: in draws, or in questions that are explored."""
        return self.draws or len(self.query_ids)

    @property
    def digest(self) -> str:
        """A digest of what it is to be, whatever its number."""
        work = [self.query_ids, self.sizes, self.first_chunk, self.draws_per_query]
        return hashlib.sha256(json.dumps(work).encode()).hexdigest()

    def owned_by(self, arm: str) -> JsonObject:
        """What a file of this part, of the arm with this identity, says of itself."""
        return {"arm": arm, "part": self.number, "work": self.digest}


@dataclass(frozen=True, slots=True)
class Plan:
    """n draws of every query, `chunk` under one key; or, where n is 0, its exploration."""

    n: int
    chunk: int

    def __post_init__(self) -> None:
        """Refuse what no machine plans: a record may say any number, and parts are listed."""
        require(0 <= self.n <= MOST, "n", self.n, f"at most {MOST:,} draws per question")
        fewest = -(-self.n // MOST_CHUNKS)
        require(self.chunk >= max(fewest, 1), "chunk", self.chunk, f"at least {fewest} draws")

    @classmethod
    def of(cls, n: int) -> Plan:
        """The plan for n draws a query."""
        require(n >= 1, "n", n, "at least 1 draw per question")
        return cls(n, min(n, CHUNK))

    @classmethod
    def exploring(cls) -> Plan:
        """The plan where exploration finds out how many draws a query gets."""
        return cls(0, 1)

    def cut(self) -> Cut:
        """How its parts begin."""
        return Cut.draws() if self.n else Cut.questions(_EXPLORED_QUERIES)

    def parts(
        self, query_ids: Sequence[str], cut: Cut, *, first: int = 0, first_chunk: int = 0
    ) -> tuple[Part, ...]:
        """All parts, in the order of the queries, numbered from `first` on.

        `first_chunk` is the number of each query's first chunk.
        """
        found: list[Part] = []
        chunks = self._chunks()
        query = chunk = 0
        while query < len(query_ids):
            number = first + len(found)
            queries, sizes = self._share(cut.size(number), chunks, chunk)
            ids = tuple(query_ids[query : query + queries])
            found.append(Part(number, ids, sizes, first_chunk + chunk))
            chunk += len(sizes)
            if chunk >= len(chunks):
                query, chunk = query + queries, 0
        return tuple(found)

    def _chunks(self) -> tuple[int, ...]:
        """The draws in each chunk of a query; it has none while it is explored."""
        whole, rest = divmod(self.n, self.chunk)
        return (self.chunk,) * whole + ((rest,) if rest else ())

    def _share(self, room: int, chunks: tuple[int, ...], chunk: int) -> tuple[int, tuple[int, ...]]:
        """How many queries a part of this size gets, and which chunks of each, from one on."""
        if not chunks:
            return room, ()
        if chunk == 0 and room >= self.n:
            return min(_PART_QUERIES, room // self.n), chunks
        return 1, chunks[chunk : chunk + max(1, room // self.chunk)]


@dataclass(frozen=True, slots=True)
class QueryShares:
    """How the outputs of a question are shared among its queries, by `design`.

    `draws_per_query`: how many each gets, by id; one that gets none is still a query of its
    question. Fixed when the arm is planned, like its plan.
    """

    design: Design
    draws_per_query: Mapping[str, int]

    def parts(self, queries: Sequence[Query], cut: Cut) -> tuple[Part, ...]:
        """All parts; queries of one question stand together, so that they advance together."""
        parts: list[Part] = []
        questions = self._questions(queries)
        while questions:
            group = questions.pop(0)
            room = cut.size(len(parts))
            while questions and sum(group.values()) + sum(questions[0].values()) <= room:
                group |= questions.pop(0)
            for chunk in range(0, max(group.values()), CHUNK):
                left = {q: min(n - chunk, CHUNK) for q, n in group.items() if n > chunk}
                own = tuple(left.values())
                parts.append(Part(len(parts), tuple(left), (max(own),), chunk // CHUNK, own))
        return tuple(parts)

    def _questions(self, queries: Sequence[Query]) -> list[dict[str, int]]:
        """The draws of each question's queries."""
        questions: dict[str, dict[str, int]] = {}
        for query in queries:
            if query.id in self.draws_per_query:
                questions.setdefault(query.prompt_id, {})[query.id] = self.draws_per_query[query.id]
        return list(questions.values())
