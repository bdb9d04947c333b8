"""Rows of the estimates table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leakbound import stats

_PLACE = ("arm", "scorer", "query_id", "pool", "parameter")
ALL = None  # in place of a query id: a statement about all questions


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the estimates table: whose, of what, and the estimate.

    `query_id` None: all questions. `parameter` is the x of Pr[X > x] or the k of leak@k. `pool`:
    about the question with that id, asked in so many queries; None: about that query alone.
    """

    arm: str
    scorer: str
    query_id: str | None
    parameter: float | None
    estimate: stats.Estimate
    pool: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Flat, as the estimates table holds it."""
        place = {name: getattr(self, name) for name in _PLACE}
        return place | self.estimate.to_dict()


@dataclass(frozen=True, slots=True)
class Bound:
    """A point estimate with its ends; `value` None where no draw has a score."""

    value: float | None
    lower: float
    upper: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Bound:
        """What a row of the estimates table says."""
        value = row["value"]
        return cls(None if value is None or value != value else value, row["lower"], row["upper"])


def statement(
    rows: Iterable[Mapping[str, Any]], about: str, *estimands: str
) -> Mapping[str, Any] | None:
    """The first statement about all questions whose target and estimand begin so, of these rows.

    `about` is one of `stats.about`. Without estimands: whatever the estimand is.
    """
    for row in rows:
        mine = row["query_id"] is ALL and row["target"].startswith(about)
        if mine and row["estimand"].startswith(estimands or ""):
            return row
    return None


def stack(estimates: Sequence[stats.Estimate]) -> stats.Estimate:
    """Estimates of one quantity as one, with an entry for each."""
    arrays: dict[str, Any] = {
        name: np.array([getattr(estimate, name) for estimate in estimates])
        for name in ("value", "lower", "upper", "n", "missing")
    }
    methods = dict.fromkeys(estimate.method for estimate in estimates)
    seeds = [stats.one_seed(estimate.seed) for estimate in estimates]
    known = np.array(seeds, dtype=np.int64) if all(seed is not None for seed in seeds) else None
    return replace(estimates[0], **arrays, method=" or ".join(methods), seed=known)


def entry(estimate: stats.Estimate, at: tuple[int, ...]) -> stats.Estimate:
    """The estimate of one question, and of one parameter where there are several."""

    def pick(values: Any, index: tuple[int, ...]) -> Any:
        array = np.asarray(values)
        return array[index[: array.ndim]].item() if array.ndim else array.item()

    return replace(
        estimate,
        value=pick(estimate.value, at),
        lower=pick(estimate.lower, at),
        upper=pick(estimate.upper, at),
        n=pick(estimate.n, at[:1]),
        missing=pick(estimate.missing, at[:1]),
        seed=None if estimate.seed is None else pick(estimate.seed, at[:1]),
    )
