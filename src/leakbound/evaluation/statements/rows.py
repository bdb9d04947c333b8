"""Which quantities an evaluation reports, and at which x and k.

Estimates to rows of the table.

Statements about all questions at once, from what is known of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from leakbound import stats
from leakbound.stats.about import Quantity, Scope
from leakbound.store import ALL, ArmScores, EstimateRow

STANDARD_K = (1, 2, 4, 8, 16, 32, 64, 128)
FAR_K = (256, 1024, 4096, 16384, 65536, 262144, 1048576)
ALL_K = STANDARD_K + FAR_K
TOGETHER_K = 32  # of the mean over the questions, which needs one k fixed beforehand
FEWEST_BLOCKS = 8  # of k draws, over all questions: fewer say next to nothing of leak@k
CURVE_X = tuple(round(0.05 * i, 2) for i in range(20))
LEAK_X = (0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # how many questions leak more than x
RHO = 2.0  # of the ED score
LEAKAGE: tuple[Quantity, ...] = (
    "leak probability",
    "mean leakage",
)  # of a binary scorer, and of any other
CLAIMS: tuple[Quantity, Quantity] = ("claim on leak probability", "claim on mean leakage")
EACH: tuple[Scope, Scope] = ("query", "question")
"""What a statement about one question is about: asked in one query, or in several."""


_AXES = {"value": 2, "lower": 2, "upper": 2, "n": 1, "missing": 1, "seed": 1}
"""The numbers of an estimate, and how many axes they may have: questions, and x or k."""


def rows_of(
    arm: str, scorer: str, query_ids: Sequence[str] | None, *estimates: stats.Estimate
) -> Iterator[EstimateRow]:
    """A row for each question, and each x or k, of estimates; `query_ids` None: of all at once.

    An estimate with one entry a question has them in the order of `query_ids`.
    """
    for estimate in estimates:
        parameter = estimate.about.parameter
        places = range(len(parameter)) if isinstance(parameter, tuple) else [None]
        for i, query_id in enumerate([ALL] if query_ids is None else query_ids):
            for j in places:
                yield EstimateRow(arm, scorer, query_id, at(estimate, i, j))


def at(estimate: stats.Estimate, i: int, j: int | None = None) -> stats.Estimate:
    """What it says of one question, where it has several, and of one x or k."""
    axes = np.ndim(estimate.n)  # that of the questions, where it has one
    place = ((i,) if axes else ()) + (() if j is None else (j,))
    return replace(_entry(estimate, place), about=estimate.about.at(i, j))


def stack(estimates: Sequence[stats.Estimate]) -> stats.Estimate:
    """Estimates of one quantity as one, with an entry for each."""
    arrays: dict[str, Any] = {
        name: np.array([getattr(estimate, name) for estimate in estimates])
        for name in _AXES
        if name != "seed"
    }
    methods = dict.fromkeys(estimate.method for estimate in estimates)
    seeds = [stats.one_seed(estimate.seed) for estimate in estimates]
    known = np.array(seeds, dtype=np.int64) if all(seed is not None for seed in seeds) else None
    over = tuple(estimate.about.over for estimate in estimates)
    numbers = tuple(number for number in over if isinstance(number, int))
    about = estimates[0].about
    if len(numbers) == len(over):
        about = replace(about, over=numbers)
    return replace(estimates[0], **arrays, about=about, method=" or ".join(methods), seed=known)


def _entry(estimate: stats.Estimate, at: tuple[int, ...]) -> stats.Estimate:
    """The numbers of one question, and of one parameter where there are several."""
    picked: dict[str, Any] = {}
    for name, axes in _AXES.items():
        if (values := getattr(estimate, name)) is not None:
            array = np.asarray(values)
            picked[name] = array[at[: min(axes, array.ndim)]].item()
    return replace(estimate, **picked)


EACH_CONFIDENCE = 0.999  # of bounds of which some may fail, where n gives no default


class QuestionBounds(Protocol):
    """An arm's questions, their leakage, and its mean."""

    @property
    def scores(self) -> ArmScores: ...

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate: ...

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate: ...


def together(
    known: QuestionBounds, confidence: float, each: float | None = None
) -> Iterator[stats.Estimate]:
    """The worst question, the mean, and how many questions leak more than x.

    `each`: the confidence of each question's bound in the last; None where n was fixed alike.
    """
    questions = len(known.scores.query_ids)
    yield stats.worst_question(known.leakage, questions, confidence=confidence, side="both")
    yield known.mean(confidence=confidence, side="both")
    seen = int((known.scores.hits > 0).sum())
    how: dict[str, Any] = {"confidence": confidence, "each_confidence": each, "side": "both"}
    yield stats.leaking_questions(known.leakage, questions, LEAK_X, seen=seen, **how)
