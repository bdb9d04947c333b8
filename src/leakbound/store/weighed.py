"""What weighted draws of an arm say of the leakage beyond what is proved, a file a scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound.store import tables
from leakbound.store.columns import table_of, values_of
from leakbound.types import JsonObject

_AGAIN = "Restore the file from a copy, or remove it and run `leakbound prove` again."


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedText:
    """A row: a distinct output among the weighted draws of a query, and how often it was drawn.

    Its natural log-probabilities under the model and under the one that proposes are each known to
    within a margin; None: not known. `inside`: it begins with what is proved, and counts there.
    `score`: None where the scorer did not decide.
    """

    query_id: str
    text: str
    token_ids: tuple[int, ...]
    count: int
    logprob: float | None
    margin: float | None
    proposal_logprob: float | None
    proposal_margin: float | None
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
    """The weighted draws of an arm: so many of each query, with the share of the proposal."""

    draws: int
    mix: float
    queries: tuple[WeighedQuery, ...]


class Weighed:
    """The weighted draws of the arm with this folder and identity."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder, self._identity = folder, identity

    def file(self, slug: str) -> Path:
        """Where those of a scorer are kept."""
        return self._folder / "weighed" / f"{slug}.parquet"

    def has(self, slug: str, made_from: JsonObject) -> bool:
        """True if draws are stored, whole, that were made from just this."""
        return tables.is_made_from(self.file(slug), self._owned(made_from))

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
        meta: JsonObject = {
            **self._owned(made_from),
            "draws": how[0],
            "mix": how[1],
            "proved": {one.query_id: [one.proved, one.proved_most] for one in found},
        }
        rows = [text for one in found for text in one.texts]
        tables.write_table(self.file(slug), table_of(WeighedText, rows), meta)

    def digest(self, slug: str) -> str | None:
        """A digest of what is stored; None where nothing is."""
        if not self.file(slug).exists():
            return None
        tables.read_table(self.file(slug), _AGAIN)
        tables.read_owned(self.file(slug), {"arm": self._identity})
        return tables.file_digest(self.file(slug))

    def read(self, slug: str) -> WeighedDraws | None:
        """What is stored; None where nothing is."""
        if self.digest(slug) is None:
            return None
        meta: dict[str, Any] = {**tables.read_meta(self.file(slug), _AGAIN)}
        texts: dict[str, list[WeighedText]] = {query_id: [] for query_id in meta["proved"]}
        for text in values_of(WeighedText, tables.read_table(self.file(slug), _AGAIN)):
            texts[text.query_id].append(text)
        queries = [
            WeighedQuery(query_id=name, proved=ends[0], proved_most=ends[1], texts=(*texts[name],))
            for name, ends in meta["proved"].items()
        ]
        return WeighedDraws(draws=meta["draws"], mix=meta["mix"], queries=(*queries,))

    def _owned(self, made_from: JsonObject) -> JsonObject:
        return {"arm": self._identity, "made_from": made_from}
