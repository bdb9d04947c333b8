"""How the draws of an arm are cut into parts: the unit of work, of storage and of resuming."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from residua.errors import InputError
from residua.types import Query

if TYPE_CHECKING:
    from residua.stats import Design

CHUNK = 1024  # draws under one key
_PART_DRAWS = 8 * CHUNK  # a part advances together; more of them share batches, fewer get lost
_PART_QUERIES = 64
_EXPLORED_QUERIES = 4  # of a part that is explored: each is much work


@dataclass(frozen=True, slots=True)
class Part:
    """Some queries and some of their chunks: `sizes[i]` draws in chunk `first_chunk` + i.

    Without sizes: an exploration, which finds out how many. With `own`: query i gets `own[i]`
    draws instead, all in the one chunk that `sizes` then has.
    """

    number: int
    query_ids: tuple[str, ...]
    sizes: tuple[int, ...]
    first_chunk: int
    own: tuple[int, ...] = ()

    @property
    def draws(self) -> int:
        return sum(self.own) or len(self.query_ids) * sum(self.sizes)


@dataclass(frozen=True, slots=True)
class Plan:
    """n draws of every query, `chunk` under one key, `queries` × `chunks` of them in a part.

    Fixed when the run is planned, so that a part done again is the same work wherever it runs.
    """

    n: int
    chunk: int
    queries: int
    chunks: int

    @classmethod
    def of(cls, n: int) -> Plan:
        """The plan for n draws a query."""
        if n < 1:
            raise InputError(f"`n` must be at least 1 draw per question, got {n}.")
        size = min(n, CHUNK)
        queries = max(1, min(_PART_QUERIES, _PART_DRAWS // n))
        return cls(n, size, queries, max(1, _PART_DRAWS // (queries * size)))

    @classmethod
    def exploring(cls) -> Plan:
        """The plan where exploration finds out how many draws a query gets."""
        return cls(0, 1, _EXPLORED_QUERIES, 1)

    def parts(self, query_ids: Sequence[str]) -> tuple[Part, ...]:
        """All parts, in the order of the queries."""
        if self.n == 0:
            starts = range(0, len(query_ids), self.queries)
            groups = [tuple(query_ids[q : q + self.queries]) for q in starts]
            return tuple(Part(i, group, (), 0) for i, group in enumerate(groups))
        whole, rest = divmod(self.n, self.chunk)
        sizes = (self.chunk,) * whole + ((rest,) if rest else ())
        cuts = [
            (tuple(query_ids[q : q + self.queries]), sizes[c : c + self.chunks], c)
            for q in range(0, len(query_ids), self.queries)
            for c in range(0, len(sizes), self.chunks)
        ]
        return tuple(Part(i, *cut) for i, cut in enumerate(cuts))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the outputs of a question are shared among its queries, by `design`.

    `draws`: how many each query gets, by id; one that gets none is still a query of its question.
    Fixed when the arm is planned, like its plan.
    """

    design: Design
    draws: Mapping[str, int]

    def parts(self, queries: Sequence[Query]) -> tuple[Part, ...]:
        """All parts; queries of one question stand together, so that they advance together."""
        parts: list[Part] = []
        for group in self._groups(queries):
            for chunk in range(0, max(group.values(), default=0), CHUNK):
                left = {q: min(n - chunk, CHUNK) for q, n in group.items() if n > chunk}
                own = tuple(left.values())
                parts.append(Part(len(parts), tuple(left), (max(own),), chunk // CHUNK, own))
        return tuple(parts)

    def to_dict(self) -> dict[str, Any]:
        return {"design": self.design, "draws": dict(self.draws)}

    def _groups(self, queries: Sequence[Query]) -> Iterator[dict[str, int]]:
        """The draws of whole questions, as many of these as a part may have."""
        questions: dict[str, dict[str, int]] = {}
        for query in queries:
            if query.id in self.draws:
                questions.setdefault(query.prompt_id, {})[query.id] = self.draws[query.id]
        group: dict[str, int] = {}
        for question in questions.values():
            if group and sum(group.values()) + sum(question.values()) > _PART_DRAWS:
                yield group
                group = {}
            group |= question
        yield group
