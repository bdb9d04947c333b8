"""What weighted draws of an arm say of the leakage beyond what is proved, a file a scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakbound.store.by_scorer import AGAIN, Begun, ByScorer
from leakbound.store.columns import schema_of, table_of, values_of
from leakbound.store.sealed import DamagedError
from leakbound.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedText:
    """A row: a distinct output among the weighted draws of a query, and how often it was drawn.

    Its natural log-probabilities under the model and under the one that proposes, each as computed
    and between `least` and `most`, are None where they are not known. `inside`: it begins with what
    is proved, and counts there. `score`: None where the scorer did not decide.
    """

    query_id: str
    text: str
    token_ids: tuple[int, ...]
    count: int
    least: float | None
    logprob: float | None
    most: float | None
    proposal_least: float | None
    proposal_logprob: float | None
    proposal_most: float | None
    inside: bool
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedQuery:
    """The weighted draws of a query, all of them; and its leakage within what was proved before.

    That lies between `proved`, a lower bound of it, and `proved_most`.
    """

    query_id: str
    proved: float
    proved_most: float
    texts: tuple[WeighedText, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedDraws:
    """The weighted draws of an arm: so many of each query, with the share of the proposal.

    shown: whether the model itself proposed, shown the answers.
    """

    draws: int
    mix: float
    shown: bool
    queries: tuple[WeighedQuery, ...]


class Weighed(ByScorer):
    """The weighted draws of an arm."""

    def begun(self, slug: str, made_from: JsonObject) -> Begun[WeighedQuery]:
        """What was weighed of draws made from this, by query id, until they are written."""
        return self._begun(slug, made_from, WeighedQuery)

    def write(
        self,
        slug: str,
        found: Sequence[WeighedQuery],
        how: tuple[int, float],
        made_from: JsonObject,
    ) -> None:
        """Store draws, instead of what was there; `how`: draws of a query, share of the proposal.

        `made_from`: all that they depend on.
        """
        also: JsonObject = {
            "draws": how[0],
            "mix": how[1],
            "proved": {one.query_id: [one.proved, one.proved_most] for one in found},
        }
        rows = [text for one in found for text in one.texts]
        self._write(slug, table_of(WeighedText, rows), made_from, also)

    def read(self, slug: str) -> WeighedDraws | None:
        """What is stored; None where nothing is."""
        if (table := self.table(slug)) is None:
            return None
        if table.schema.names != schema_of(WeighedText).names:
            raise DamagedError(f"`{self.file(slug)}` was written by another version. {AGAIN}")
        meta: dict[str, Any] = {**self._meta(slug)}
        texts: dict[str, list[WeighedText]] = {query_id: [] for query_id in meta["proved"]}
        for text in values_of(WeighedText, table):
            texts[text.query_id].append(text)
        queries = [
            WeighedQuery(query_id=name, proved=ends[0], proved_most=ends[1], texts=(*texts[name],))
            for name, ends in meta["proved"].items()
        ]
        how = {"draws": meta["draws"], "mix": meta["mix"], "shown": meta["made_from"]["shown"]}
        return WeighedDraws(queries=(*queries,), **how)
