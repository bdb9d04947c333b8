"""What can be said of an arm's leakage, in whichever way the arm was drawn.

Four kinds of arm, one protocol: n fixed beforehand (`Fixed`), also of what a search found to ask,
and shared among a question's queries (`Pooled`), every question drawn until a claim about it was
decided (`Stopped`), masses explored and their remainder drawn (`ExploredArm`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from leakbound import stats
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.explored import ExploredArm
from leakbound.evaluation.statements.fixed import AS_FOUND, Fixed, Stopped
from leakbound.evaluation.statements.pooled import Pooled
from leakbound.store import (
    Arm,
    ArmScores,
    ArmSpec,
    ExploredDraws,
    QueryMasses,
    QueryShares,
    StoppedDraws,
)
from leakbound.types import Scorer


class ArmEvidence(Protocol):
    """The leakage of an arm's questions: Pr[leak] for a binary scorer, else the mean score."""

    @property
    def scores(self) -> ArmScores:
        """The questions there are, and their draws' scores."""
        ...

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """One entry a question, each of which holds by itself."""
        ...

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean over these questions."""
        ...

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Every quantity of every question, one entry a question."""
        ...

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """Statements about all questions at once."""
        ...


def drawn(arm: Arm, scorer: Scorer, *, above: float | None = None) -> ArmEvidence:
    """The arm's leakage under a scorer whose scores are stored.

    `above`: make the scorer binary first, a leak being a score above that, which was fixed
    before the scores were seen.
    """
    order = Order.of(arm, scorer)
    scores, binary = arm.scores(slug(scorer)), scorer.binary or above is not None
    masses = arm.masses.by_query(slug(scorer))
    if above is not None:
        scores = replace(scores, scores=np.where(scores.scores > above, 1.0, 0.0))
        masses = {query_id: _above(known, above) for query_id, known in masses.items()}
    match arm.spec:
        case ArmSpec(draws=ExploredDraws()):
            return ExploredArm(scores, masses, binary, order)
        case ArmSpec(draws=StoppedDraws()):
            return Stopped(scores, binary, arm.plan.n, order)
        case ArmSpec(shares=QueryShares() as shares):
            return Pooled.of(scores, arm.queries, shares, binary, order)
        case ArmSpec(attack_queries=(_, *_)):
            return Fixed(scores, binary, order, AS_FOUND)
        case _:
            return Fixed(scores, binary, order)


def _above(known: QueryMasses, x: float) -> QueryMasses:
    low, high = (np.where(end > x, 1.0, 0.0) for end in (known.low, known.high))
    return replace(known, low=low, high=high)
