"""The draws of an arm, cut into parts: the unit of work, of storage and of resuming.

A part takes about a minute, whatever the model costs. The first one is small. Each one after it is
as large as the time that the one before it took suggests; that is decided once, before it is drawn,
and recorded with the arm. So a run that is gone on with has the parts it was begun with, and speed
decides only how many are lost when it is stopped, never what is drawn: draws are keyed by query and
chunk, whatever part they are in. Which queries advance together changes the shapes of the model's
batches, and with them the last bits of its probabilities: so a part, once cut, stays as it is.

In an arm that is sampled until a claim is decided, each look leads to another round of parts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from leakbound.stats import Design
from leakbound.store.files import ELSEWHERE, DamagedError, read_value, write_sealed
from leakbound.types import JsonObject, Query
from leakbound.types.decoding import require

CHUNK = 1024  # draws under one key
MOST, MOST_CHUNKS = 10**9, 10**6  # draws of a query, and keys that they are made under
_PART_QUERIES = 64
_EXPLORED_QUERIES = 4  # of a part that is explored, at most: each is much work


@dataclass(frozen=True, slots=True)
class Part:
    """Some queries and some of their chunks.

    Attributes:
        number: the part's.
        query_ids: the queries, in order.
        sizes: `sizes[i]` draws in chunk `first_chunk` + i; empty: an exploration, which finds out
            how many.
        first_chunk: the number of each query's first chunk.
        draws_per_query: query i gets so many draws instead, all in the one chunk that `sizes` then
            has; empty: all get as many.
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
        """The owner that a file of this part, of the arm with this identity, names."""
        return {"arm": arm, "part": self.number, "work": self.digest}


def slice_of(text: str) -> tuple[int, int]:
    """Read the name of a slice, i/N: its number from 1, and the number of slices of a study.

    Raises InputError where there is no such slice.
    """
    number, _, of = text.partition("/")
    fits = number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)
    remedy = "A job array of 16 slices is `#SBATCH --array=1-16`."
    require(fits, "questions", text, "i/N with i from 1 to N", remedy)
    return int(number), int(of)


@dataclass(frozen=True, slots=True)
class Plan:
    """How many draws every query gets, and under how many keys.

    Attributes:
        n: draws of every query; 0: its exploration finds out.
        chunk: draws under one key.

    Raises:
        InputError: more than any machine plans.
    """

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
        parts: list[Part] = []
        chunks = self.chunks()
        query = chunk = 0
        while query < len(query_ids):
            number = first + len(parts)
            queries, sizes = self._share(cut.size(number), chunks, chunk)
            ids = tuple(query_ids[query : query + queries])
            parts.append(Part(number, ids, sizes, first_chunk + chunk))
            chunk += len(sizes)
            if chunk >= len(chunks):
                query, chunk = query + queries, 0
        return tuple(parts)

    def chunks(self) -> tuple[int, ...]:
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
    """How the outputs of a question are shared among its queries.

    Fixed when the arm is planned, like its plan.

    Attributes:
        design: by which rule.
        draws_per_query: how many each gets, by id; one that gets none is still a query of its
            question.
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


SECONDS = 60.0  # what a part should take
_SHORT, _LONG = 20.0, 90.0  # between them, the next part is as large
_GROWTH = 4  # at most, from one part to the next: questions differ in what they cost
_FIRST, _MOST = 64, 1 << 16  # draws; more advance together, and fewer are lost


@dataclass(frozen=True, slots=True)
class Cut:
    """The sizes of parts by number.

    Sizes are in draws, or in questions where they are explored. A part is as much work as there is
    below its size, but at least one chunk of one query.

    Attributes:
        sizes: `sizes[k]` is that of part k and of those up to the next key.
        most: none is above.
        decided: the parts up to this one are fixed for good.
    """

    sizes: Mapping[int, int]
    most: int
    decided: int = 0

    @classmethod
    def draws(cls) -> Cut:
        """For draws: parts of 64 at first, at last of 65,536."""
        return cls({0: _FIRST}, _MOST)

    @classmethod
    def questions(cls, most: int) -> Cut:
        """For questions that are explored: one at first."""
        return cls({0: 1}, most)

    @classmethod
    def whole(cls) -> Cut:
        """For draws that cost nothing, since they are there: the largest parts."""
        return cls({0: _MOST}, _MOST)

    def size(self, number: int) -> int:
        """The size of this part, as far as it is known."""
        return self.sizes[max(k for k in self.sizes if k <= number)]

    def after(self, number: int, done: int, seconds: float) -> Cut:
        """Decide the size of the part behind `number`, which was `done` large and took so long."""
        size = now = self.size(number + 1)
        fitting = _power(done * SECONDS / max(seconds, 1e-9))
        if seconds < _SHORT:
            size = max(size, min(fitting, _power(_GROWTH * done), self.most))
        elif seconds > _LONG:
            size = min(size, fitting)
        sizes = self.sizes if size == now else {**self.sizes, number + 1: size}
        return Cut(sizes, self.most, number + 1)


def _power(size: float) -> int:
    """The power of two at or below a size, at least 1: clocks that differ a little agree."""
    return 1 << math.floor(math.log2(max(size, 1.0)))


@dataclass(frozen=True, slots=True)
class Look:
    """A look at one question, and what followed.

    Attributes:
        n: draws that it had.
        decision: where the claim about it stood.
        next: the draws until which it is drawn on; `n` where it stops.
    """

    n: int
    decision: str
    next: int


Looks = tuple[Mapping[str, Look], ...]
"""Each look in turn: the questions looked at, by query id."""


@dataclass(frozen=True, slots=True)
class _LooksFile:
    """The content of the file of an arm's looks: whose they are, and the looks."""

    arm: str
    looks: Looks


def read_looks(file: Path, arm: str) -> Looks:
    """The looks recorded in `file` for the arm with that identity; none where there is no file.

    Raises DamagedError where the file is not what was written there for this arm.
    """
    stored = read_value(_LooksFile, file)
    if stored is None:
        return ()
    if stored.arm != arm:
        raise DamagedError(f"`{file}` belongs to another run. {ELSEWHERE}")
    return stored.looks


def write_looks(file: Path, arm: str, looks: Looks) -> None:
    """Record the looks made so far."""
    write_sealed(file, _LooksFile(arm, looks))


def rounds_of(
    query_ids: Sequence[str], first: int, looks: Looks, cut: Cut
) -> tuple[tuple[Part, ...], ...]:
    """The parts of every round: `first` draws of every query, then what each look asked for.

    Queries that get equally many draws share parts. A query's chunks are numbered by itself, so
    its draws do not depend on what the others were found to do.
    """
    wanted: list[dict[str, int]] = [dict.fromkeys(query_ids, first)]
    wanted += [{q: seen.next for q, seen in look.items() if seen.next > seen.n} for look in looks]
    have = dict.fromkeys(query_ids, (0, 0))  # draws and chunks so far
    rounds: list[tuple[Part, ...]] = []
    number = 0
    for goals in wanted:
        alike: dict[tuple[int, int], list[str]] = {}
        for query_id, n in goals.items():
            drawn, chunks = have[query_id]
            alike.setdefault((n - drawn, chunks), []).append(query_id)
            have[query_id] = n, chunks + ceil((n - drawn) / CHUNK)
        parts: list[Part] = []
        for (more, chunks), ids in alike.items():
            start = number + len(parts)
            parts += Plan.of(more).parts(ids, cut, first=start, first_chunk=chunks)
        rounds.append(tuple(parts))
        number += len(parts)
    return tuple(rounds)
