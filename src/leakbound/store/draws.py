"""Read the completions and scores of a run as tables of typed rows, arm by arm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from leakbound.errors import InputError
from leakbound.store.arm import Arm
from leakbound.store.tables import cells_of, schema_of, to_pandas, values_of
from leakbound.types import Completion

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CompletionRow:
    """A completion of a query, which an arm drew `completion.count` times."""

    arm: str
    query_id: str
    completion: Completion


@dataclass(frozen=True)
class DrawTable(Generic[R]):
    """Rows of several arms, about all queries or one query. An arm is read when its rows are used.

    Attributes:
        arms: the arms.
        kind: the dataclass of a row; its fields are the columns, including `arm` and `query_id`.
        read: returns the tables of an arm, part by part, without the column `arm`.
        query: the id of the only query; None: all queries.
    """

    arms: tuple[Arm, ...]
    kind: type[R]
    read: Callable[[Arm], Iterator[pa.Table]]
    query: str | None = None

    def where(self, *, arm: str | None = None, query: str | None = None) -> DrawTable[R]:
        """Return the rows of one arm, of one query, or of both.

        Args:
            arm: the arm's name; None: all arms of this table.
            query: the query's id; None: all queries of this table.

        Returns:
            A table of these rows.

        Raises:
            InputError: there is no such arm or query; the message lists some.
        """
        names = {own.name: own for own in self.arms}
        if arm is not None and arm not in names:
            raise InputError(f"there is no arm {arm!r}. The arms are {', '.join(names) or 'none'}.")
        ids = {q.id for own in self.arms for q in own.queries}
        if query is not None and query not in ids:
            raise InputError(
                f"no arm has a query {query!r}. Choose one of the {len(ids)} queries, such as "
                f"{min(ids, default='none')!r}."
            )
        chosen = self.arms if arm is None else (names[arm],)
        return replace(self, arms=chosen, query=self.query if query is None else query)

    def __iter__(self) -> Iterator[R]:
        for table in self._tables():
            yield from values_of(self.kind, table)

    def __len__(self) -> int:
        return sum(table.num_rows for table in self._tables())

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table with a column per field."""
        return pa.concat_tables([schema_of(self.kind).empty_table(), *self._tables()])

    def to_pandas(self) -> Any:
        """Return all rows as a pandas data frame with a column per field.

        Raises:
            InputError: pandas is not installed.
        """
        return to_pandas(self.to_arrow())

    def _tables(self) -> Iterator[pa.Table]:
        columns = schema_of(self.kind).names
        for arm in self.arms:
            for table in self.read(arm):
                if self.query is not None:
                    table = table.filter(pc.equal(table["query_id"], self.query))
                names = pa.array([arm.name] * table.num_rows, pa.string())
                yield table.append_column("arm", names).select(columns)


def score_tables(arm: Arm) -> Iterator[pa.Table]:
    """Yield a table of scores for each scorer that scored the arm's current completions."""
    for scorer, slug in arm.scored.scorers():
        table = arm.scored.stored.table(slug)
        yield table.append_column("scorer", pa.array([scorer] * table.num_rows, pa.string()))


def leaking(arm: Arm, slug: str) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
    """Yield (query id, token ids, lower bound of the log-probability, score) if the score is > 0.

    Completions without token ids or without this lower bound are left out.
    """
    scores, start = arm.scored.stored.table(slug)["score"], 0
    for part in arm.parts:
        table = arm.completions(part)
        table = table.append_column("score", scores.slice(start, table.num_rows))
        start += table.num_rows
        above = pc.greater(table["score"], 0)
        valid = pc.and_(table["token_ids"].is_valid(), table["logprob_floor"].is_valid())
        rows = table.filter(pc.and_(above, valid))
        for query_id, ids, floor, score in cells_of(
            rows, "query_id", "token_ids", "logprob_floor", "score"
        ):
            yield query_id, tuple(ids), floor, score
