"""How what is known of a question grows with its draws: estimates and ends after the first n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.views.view import FirstDraws
from leakbound.stats.order import one_by_one
from leakbound.store import ArmScores

FEWEST = 8  # draws of the first step


def sizes_of(n: int) -> list[int]:
    """Numbers of draws, doubled from step to step, the last one all of them."""
    doubled = [FEWEST << i for i in range(n.bit_length()) if FEWEST << i < n]
    return [*doubled, n] if n else []


Courses = dict[str, tuple[FirstDraws, ...]]
"""By question."""


def courses(scores: ArmScores, order: Order, *, binary: bool, confidence: float) -> Courses:
    """Of each question its draws one by one: what the first n of them say.

    `order` keys them, so page and figures say the same whenever they are made. The ends of a
    `binary` scorer follow from counts, as the stated ones do, and each pair holds by itself; those
    of another rest on bets over all draws, and are not made for fewer.
    """
    cut = [
        (query_id, _Cut.of(draws[:n]))
        for i, query_id in enumerate(scores.query_ids)
        for draws in [in_order(scores, i, order)]
        for n in sizes_of(len(draws))
    ]
    ends = _ends([each for _, each in cut], confidence) if binary and cut else None
    found: dict[str, list[FirstDraws]] = {query_id: [] for query_id in scores.query_ids}
    for i, (query_id, each) in enumerate(cut):
        lower, upper = ends[i] if ends else (None, None)
        found[query_id].append(FirstDraws(n=each.n, value=each.value, lower=lower, upper=upper))
    return {query_id: tuple(steps) for query_id, steps in found.items()}


def in_order(scores: ArmScores, row: int, order: Order) -> NDArray[np.float64]:
    """A question's draws by their scores one by one, NaN where there is none."""
    (key,) = order.keys((scores.query_ids[row],)).tolist()
    return one_by_one(scores.scores[row], scores.counts[row], int(scores.missing[row]), key)


@dataclass(frozen=True, slots=True)
class _Cut:
    """The first draws of a question: how many, how many of them without a score, and their sum."""

    n: int
    missing: int
    total: float

    @classmethod
    def of(cls, draws: NDArray[np.float64]) -> _Cut:
        return cls(len(draws), int(np.isnan(draws).sum()), float(np.nansum(draws)))

    @property
    def value(self) -> float | None:
        decided = self.n - self.missing
        return self.total / decided if decided else None


def _ends(cuts: list[_Cut], confidence: float) -> list[tuple[float, float]]:
    """As the stated bound has them, of so many draws."""
    bound = stats.proportion_bound(
        [round(each.total) for each in cuts],
        [each.n for each in cuts],
        confidence=confidence,
        side="both",
        missing=[each.missing for each in cuts],
    )
    lower, upper = (np.asarray(end).tolist() for end in (bound.lower, bound.upper))
    return list(zip(lower, upper, strict=True))
