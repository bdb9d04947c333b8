"""The quantities that an evaluation reports, with their values of x and k; estimates as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from leakbound import stats
from leakbound.stats.about import Quantity, Scope
from leakbound.store import ALL, EstimateRow
from leakbound.store.estimates import Family

STANDARD_K = (1, 2, 4, 8, 16, 32, 64, 128)
FAR_K = (256, 1024, 4096, 16384, 65536, 262144, 1048576)
ALL_K = STANDARD_K + FAR_K
TOGETHER_K = 32  # the one k, fixed in advance, of the mean leak@k over questions
FEWEST_BLOCKS = 8  # minimum number of blocks of k draws over all questions; fewer give wide bounds
CURVE_X = tuple(round(0.05 * i, 2) for i in range(20))
LEAK_X = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # x of counts of questions above x
LEAKAGE: tuple[Quantity, ...] = (
    "leak probability",
    "mean leakage",
)  # of a binary scorer, and of any other scorer
CLAIMS: tuple[Quantity, Quantity] = ("claim on leak probability", "claim on mean leakage")
EACH: tuple[Scope, Scope] = ("query", "question")
"""The scopes of a statement about one question, which has one query or several queries."""


_AXES = {"value": 2, "lower": 2, "upper": 2, "n": 1, "missing": 1, "seed": 1}
"""The numeric fields of an estimate, and their largest number of axes (questions, then x or k)."""


def rows_of(
    arm: str,
    scorer: str,
    query_ids: Sequence[str] | None,
    *estimates: stats.Estimate,
    family: Family = "single",
) -> Iterator[EstimateRow]:
    """Yield a row for each question and each x or k of these estimates.

    The entries of an estimate are in the order of `query_ids`. If `query_ids` is None, each
    estimate is about all questions together.
    """
    for estimate in estimates:
        parameter, entry = estimate.about.parameter, entries(estimate)
        places = range(len(parameter)) if isinstance(parameter, tuple) else [None]
        for i, query_id in enumerate([ALL] if query_ids is None else query_ids):
            for j in places:
                yield EstimateRow(arm, scorer, query_id, entry(i, j), family)


def at(estimate: stats.Estimate, i: int) -> stats.Estimate:
    """Return the estimate's entry for one question."""
    return entries(estimate)(i, None)


def entries(estimate: stats.Estimate) -> Callable[[int, int | None], stats.Estimate]:
    """Return a function that returns an entry from the index of a question, and of an x or k."""
    given = {name: getattr(estimate, name) for name in _AXES}
    arrays = {name: np.asarray(values) for name, values in given.items() if values is not None}
    numbers = {name: (array.tolist(), array.ndim) for name, array in arrays.items()}
    axes = np.ndim(estimate.n)  # the axis of the questions, if there is one
    about = cache(estimate.about.at)
    several = isinstance(estimate.about.over, tuple)

    def entry(i: int, j: int | None) -> stats.Estimate:
        place = ((i,) if axes else ()) + (() if j is None else (j,))
        picked: dict[str, Any] = {}
        for name, (value, depth) in numbers.items():
            for index in place[: min(_AXES[name], depth)]:
                value = value[index]
            picked[name] = value
        return replace(estimate, about=about(i if several else 0, j), **picked)

    return entry


def stacked(bounds: Sequence[stats.BoundFunction]) -> stats.BoundFunction:
    """Return one bound with several entries, made from several bounds."""

    def bound(*, confidence: float, side: stats.Side) -> stats.Estimate:
        return stats.stack([single(confidence=confidence, side=side) for single in bounds])

    return bound


@dataclass(frozen=True, slots=True)
class Stated:
    """A quantity that is reported if `stats.THEOREMS` has a bound for it.

    Attributes:
        quantity: the quantity; the rho of an expectation deviation is replaced by the study's rho.
        binary: True if it is reported for binary scorers only, False for other scorers only, None
            for both.
        side: the bounds that are reported.
    """

    quantity: stats.Quantity
    binary: bool | None = None
    side: stats.Side = "both"


AT_K = Stated(stats.leak_at(ALL_K))
OF_QUESTION = (Stated(stats.LEAKAGE), Stated(stats.tail(CURVE_X), False), AT_K)
SPREAD = (
    Stated(stats.Quantity("median"), False),
    Stated(stats.SD),
    Stated(stats.ed(), side="upper"),
)
MEAN_SPREAD = (Stated(stats.SD.mean(), False), Stated(stats.ed().mean(), False, "upper"))
"""The measures of spread that are reported: for one question, and for the mean over questions."""
