"""Scores of an arm: stored in a file per scorer, and as arrays for statistics."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leakbound.stats import Rows
from leakbound.store.artifact import Artifact
from leakbound.store.plan import Part
from leakbound.store.tables import SCORED_AGAIN, DrawnRow, schema_of
from leakbound.types import RULE, JsonObject


def stored_rows(
    table: pa.Table,
    query_ids: Sequence[str],
    undrawn: Mapping[str, int],
    *,
    binary: bool,
    empty: bool = False,
) -> Rows:
    """Return the scores of these queries from a stored table, one row per query.

    `undrawn`: the number of draws of each query that the engine did not return. `binary`: whether
    the scorer declares only the scores 0 and 1. `empty`: whether a query may have no draws.
    """
    missing = np.array([undrawn.get(query_id, 0) for query_id in query_ids], dtype=np.int64)
    own = place_of(table["query_id"], query_ids)
    score, count = table["score"].to_numpy(), table["count"].to_numpy()
    unscored = (own >= 0) & np.isnan(score)
    np.add.at(missing, own[unscored], count[unscored])
    order = np.lexsort((score, own))  # by query, then by score
    order = order[((own >= 0) & ~unscored)[order]]
    own, score, count = own[order], score[order], count[order]
    first = np.ones(len(own), dtype=bool)
    first[1:] = (np.diff(own) > 0) | (np.diff(score) > 0)
    row, starts = own[first], np.flatnonzero(first)
    column = np.arange(len(row)) - np.searchsorted(row, row)
    shape = len(query_ids), int(column.max(initial=-1)) + 1
    scores, counts = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    scores[row, column] = score[first]
    counts[row, column] = np.add.reduceat(count, starts) if len(starts) else 0
    rows = Rows.of(scores, counts, missing, binary=binary, empty=empty or not query_ids)
    return replace(rows, ids=tuple(query_ids))


def tallied_rows(
    tallies: Mapping[str, Mapping[float | None, int]],
    undrawn: Mapping[str, int],
    *,
    binary: bool,
) -> Rows:
    """Return the scores of queries, one row per query.

    `tallies`: the number of a query's draws with each score; None is a missing score. `undrawn`:
    the number of draws of each query that the engine did not return.
    """
    rows = [(q, n, x) for q, tally in tallies.items() for x, n in tally.items()]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
    table = pa.table(arrays, schema=_SCHEMA)
    return stored_rows(table, tuple(tallies), undrawn, binary=binary, empty=True)


def joined_rows(pieces: Sequence[Rows], query_ids: Sequence[str]) -> Rows:
    """Pool the draws of several arms; return the scores of each of these queries that has draws."""
    undrawn, tables = Counter[str](), [_SCHEMA.empty_table()]
    for piece in pieces:
        undrawn.update(dict(zip(piece.ids, piece.missing.tolist(), strict=True)))
        row, column = np.nonzero(piece.counts)
        ids = pa.array(piece.ids, pa.string()).take(row)
        columns = [ids, piece.counts[row, column], piece.values[row, column]]
        tables.append(pa.table(columns, schema=_SCHEMA))
    ids = [query_id for query_id in query_ids if query_id in undrawn]
    binary = any(piece.binary for piece in pieces)
    return stored_rows(pa.concat_tables(tables), ids, undrawn, binary=binary)


def place_of(query_ids: pa.ChunkedArray, among: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of each query id in `among`, or -1 if it is not in `among`."""
    places = pc.index_in(query_ids, pa.array(among, pa.string()))
    numbers: NDArray[np.int64] = pc.fill_null(places, -1).to_numpy().astype(np.int64)
    return numbers


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The score of `count` equal completions of a query; None if the scorer could not decide."""

    arm: str
    scorer: str
    query_id: str
    count: int
    score: float | None


_SCHEMA = schema_of(ScoreRow).remove(0).remove(0)  # a file is of one arm and one scorer


class Scores:
    """The scores of an arm's completions, one file per scorer.

    Args:
        folder: the folder of the arm.
        drawn: the completions.
        parts: returns all parts that are known so far.
    """

    def __init__(
        self, folder: Path, drawn: Artifact[DrawnRow], parts: Callable[[], Sequence[Part]]
    ) -> None:
        self.stored = Artifact(folder=folder / "scores", kind=ScoreRow, remedy=SCORED_AGAIN)
        self._drawn, self._parts = drawn, parts

    def write(
        self,
        scorer: str,
        slug: str,
        score_tables: Callable[[Iterable[pa.Table]], Iterable[list[float | None]]],
        model: JsonObject | None = None,
        origin: str = "",
    ) -> None:
        """Store the scores of all completions; parts that have scores are not scored again.

        Args:
            scorer: the scorer's name.
            slug: the name of its files.
            score_tables: a function that returns, for each table of completions in order, a list
                with a score or None per row. It may read several tables before it returns the first
                list.
            model: the record of the scorer's model. The scores of a model are costly, so they are
                stored after each part.
            origin: the recorded origin of a scorer that is not built in.
        """
        parts, scored = self._parts(), self._scored(scorer, slug)
        pieces = [self.stored.table(slug)] if scored else []
        waiting: deque[pa.Table] = deque()

        def tables_to_score() -> Iterator[pa.Table]:
            for part in parts[scored:]:
                waiting.append(self._drawn.table(part))
                yield waiting[-1]

        for done, scores in enumerate(score_tables(tables_to_score()), start=scored + 1):
            table = waiting.popleft()
            columns = [table["query_id"], table["count"], pa.array(scores, pa.float64())]
            pieces.append(pa.table(columns, schema=_SCHEMA))
            if model or done == len(parts):
                made_from = {**self._made_from(scorer, done), "model": model or {}}
                made_from |= {"origin": origin} if origin else {}
                self.stored.write(slug, pa.concat_tables(pieces), made_from)

    def scorers(self) -> Iterator[tuple[str, str]]:
        """Yield (scorer, slug) of every scorer with scores of the current completions.

        Raises DamagedError for a damaged file of scores.
        """
        for file in sorted(self.stored.folder.glob("*.parquet")):
            name = self.stored.meta(file.stem).get("scorer")
            if isinstance(name, str) and self.stored.is_from(file.stem, self._made_from(name)):
                yield name, file.stem

    def origin(self, scorer: str) -> object:
        """Return the recorded origin of a scorer; None if its stored scores record no origin."""
        metas = [self.stored.meta(slug) for name, slug in self.scorers() if name == scorer]
        return next((meta.get("origin") for meta in metas), None)

    def rows(self, slug: str) -> list[float | None]:
        """Return the stored scores, one per completion, in the order of the parts."""
        scores: list[float | None] = self.stored.table(slug)["score"].to_pylist()
        return scores

    def model(self, slug: str) -> JsonObject | None:
        """Return the record of the model that made the stored scores; None without a record."""
        model = self.stored.meta_or_none(slug).get("model")
        return model if isinstance(model, Mapping) else None

    def has(self, scorer: str, slug: str) -> bool:
        """Return whether undamaged scores of the current completions are stored."""
        return self.stored.has(slug, self._made_from(scorer))

    def digest(self, scorer: str, slug: str) -> str | None:
        """Return the digest of the stored scores; None if they belong to other completions.

        Raises DamagedError if their file was changed.
        """
        digest = self.stored.digest(slug)
        return digest if self.stored.is_from(slug, self._made_from(scorer)) else None

    def _scored(self, scorer: str, slug: str) -> int:
        """Return the number of parts, from the first on, that have stored scores."""
        parts = self.stored.meta_or_none(slug).get("parts")
        number = len(parts) if isinstance(parts, Sequence) else 0
        return number if number and self.stored.has(slug, self._made_from(scorer, number)) else 0

    def _made_from(self, scorer: str, number: int | None = None) -> JsonObject:
        """Return the sources of the scores of the first `number` parts; None: of all parts."""
        digests = [self._drawn.content(part) for part in self._parts()[:number]]
        return {"scorer": scorer, "rule": RULE, "parts": digests}
