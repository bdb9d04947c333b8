"""Which quantities an evaluation states, at which x and k, and its estimates as rows of the table.

A bound of `stats.BOUNDS` is stated by one `StatedBound`, for every kind of evidence that it fits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.evaluation.scoring.ordering import BY_QUESTION, Order
from leakbound.stats.about import Quantity, Scope
from leakbound.store import ALL, ArmScores, EstimateRow
from leakbound.study import RHO

STANDARD_K = (1, 2, 4, 8, 16, 32, 64, 128)
FAR_K = (256, 1024, 4096, 16384, 65536, 262144, 1048576)
ALL_K = STANDARD_K + FAR_K
TOGETHER_K = 32  # of the mean over the questions, which needs one k fixed beforehand
FEWEST_BLOCKS = 8  # of k draws, over all questions: fewer say next to nothing of leak@k
CURVE_X = tuple(round(0.05 * i, 2) for i in range(20))
LEAK_X = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # how many questions leak more than x
LEAKAGE: tuple[Quantity, ...] = (
    "leak probability",
    "mean leakage",
)  # of a binary scorer, and of any other
CLAIMS: tuple[Quantity, Quantity] = ("claim on leak probability", "claim on mean leakage")
EACH: tuple[Scope, Scope] = ("query", "question")
"""The scopes of a statement about one question: asked in one query, or in several."""


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
    """The entry of one question, where it has several, and of one x or k."""
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
    keys = np.array(seeds, dtype=np.int64) if all(seed is not None for seed in seeds) else None
    over = tuple(estimate.about.over for estimate in estimates)
    numbers = tuple(number for number in over if isinstance(number, int))
    about = estimates[0].about
    if len(numbers) == len(over):
        about = replace(about, over=numbers)
    return replace(estimates[0], **arrays, about=about, method=" or ".join(methods), seed=keys)


def stacked(bounds: Sequence[stats.BoundFunction]) -> stats.BoundFunction:
    """One bound with an entry for each of these."""

    def bound(*, confidence: float, side: stats.Side) -> stats.Estimate:
        return stack([single(confidence=confidence, side=side) for single in bounds])

    return bound


def _entry(estimate: stats.Estimate, at: tuple[int, ...]) -> stats.Estimate:
    """The numbers of one question, and of one parameter where there are several."""
    picked: dict[str, Any] = {}
    for name, axes in _AXES.items():
        if (values := getattr(estimate, name)) is not None:
            array = np.asarray(values)
            picked[name] = array[at[: min(axes, array.ndim)]].item()
    return replace(estimate, **picked)


EACH_CONFIDENCE = 0.999  # of bounds of which some may fail, where n gives no default


@dataclass(frozen=True, slots=True)
class StatedBound:
    """A bound that is stated wherever there is evidence for it.

    bound: its key in `stats.BOUNDS`.
    binary: of scores that are 0 or 1, or of any others in [0, 1]; None: of both.
    side: which of its ends are shown.
    at: the x or k at which it is taken, fixed beforehand.
    """

    bound: str
    binary: bool | None = None
    side: stats.Side = "both"
    at: Mapping[str, Any] = field(default_factory=dict)

    def made(self, values: Mapping[str, Any]) -> stats.Estimate:
        """The bound by what it takes of what is given."""
        bound = stats.BOUNDS[self.bound].bound
        args = {**values, **self.at}
        result: stats.Estimate = bound(**{name: args[name] for name in _taken(bound) & args.keys()})
        return result


@cache
def _taken(bound: Callable[..., object]) -> frozenset[str]:
    return frozenset(signature(bound).parameters)


AT_X, AT_K = {"x": CURVE_X}, {"k": ALL_K}
OF_QUESTION = (
    StatedBound("leak@k proportion", True, at=AT_K),
    StatedBound("tail", False, at=AT_X),
    StatedBound("leak@k", False, at=AT_K),
)
SPREAD = (
    StatedBound("std proportion", True),
    StatedBound("mean + sd proportion", True, "upper"),
    StatedBound("std", False),
    StatedBound("mean + sd", False, "upper"),
)
MEAN = (StatedBound("proportion over questions", True), StatedBound("mean over questions", False))
MEAN_SPREAD = (
    StatedBound("std over questions", False),
    StatedBound("mean + sd over questions", False, "upper"),
)
STOPPED = (StatedBound("stopped proportion", True), StatedBound("stopped mean, betting", False))
STOPPED_ALSO = (StatedBound("stopped leak@k proportion", True, at=AT_K),)
EXPLORED = (StatedBound("mass proportion", True), StatedBound("mass mean", False))
EXPLORED_ALSO = (
    StatedBound("mass tail", False, at=AT_X),
    StatedBound("mass leak@k proportion", True, at=AT_K),
    StatedBound("mass leak@k", False, at=AT_K),
)
UNLIKE = (StatedBound("pool proportion", True), StatedBound("pool mean", False))
UNLIKE_ALSO = (StatedBound("pool leak@k", True, at=AT_K),)
"""All that is stated of one question by draws of fixed n, of all, and by the other evidence."""


@dataclass(frozen=True)
class Evidence(ABC):
    """Evidence about an arm's questions, in whichever way it was drawn.

    Their leakage is Pr[leak] for a binary scorer, else the mean score. Of what a kind of evidence
    does not bound it is silent: whoever asks looks at what is there, not at what kind it is.

    scores: the questions there are, and their draws' scores.
    binary: the scorer's declared range; every range then ends at 0 and 1.
    order: that in which bets meet the draws.
    rho: the weight of the standard deviation in the ED score.
    """

    scores: ArmScores
    binary: bool
    order: Order = field(default=BY_QUESTION, kw_only=True)
    rho: float = field(default=RHO, kw_only=True)

    LEAKAGE: ClassVar[Sequence[StatedBound]]
    """The bounds of the leakage of a question."""
    ALSO: ClassVar[Sequence[StatedBound]]
    """All else that is stated of it."""

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """The keys of the order of each question's draws."""
        return self.order.keys(self.scores.query_ids)

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """One entry a question, each of which holds by itself."""
        return self.made(first(self.LEAKAGE, self.binary), confidence=confidence, side=side)

    @abstractmethod
    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean over these questions."""

    @abstractmethod
    def made(self, row: StatedBound, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The estimate that a row states, one entry a question or one in all."""

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Every quantity of every question."""
        yield from stated(self, (*self.LEAKAGE, *self.ALSO), confidence)

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """The worst question, the mean, and how many leak more than x."""
        return together(self, confidence, EACH_CONFIDENCE)


def stated(
    evidence: Evidence, rows: Iterable[StatedBound], confidence: float
) -> Iterator[stats.Estimate]:
    """The estimates of those rows that are about scores of this kind."""
    for row in rows:
        if row.binary in (None, evidence.binary):
            yield evidence.made(row, confidence=confidence, side=row.side)


def first(rows: Iterable[StatedBound], binary: bool) -> StatedBound:
    """The row about scores of this kind."""
    return next(row for row in rows if row.binary in (None, binary))


def together(
    evidence: Evidence, confidence: float, of_question: float | None = None
) -> Iterator[stats.Estimate]:
    """The worst question, the mean, and how many questions leak more than x.

    `of_question`: the confidence of each bound in the last; None where n was fixed alike.
    """
    questions = len(evidence.scores.query_ids)
    yield stats.worst_question(evidence.leakage, questions, confidence=confidence, side="both")
    yield evidence.mean(confidence=confidence, side="both")
    how: dict[str, Any] = {"confidence": confidence, "each_confidence": of_question, "side": "both"}
    yield stats.leaking_questions(evidence.leakage, questions, LEAK_X, **how)
