"""How far a model leaks beyond its control: at each question, on average, and at the worst.

Where the draws of the two are known to share no randomness, and n was fixed alike for both at
`stats.FEWEST_PAIRS` or more, their differences are bet on; else each is bounded by itself and
alpha is shared, which holds whatever they share. What they share is told by what keys their draws:
within one run each arm has a purpose of its own, while a finished run that stands as control was
drawn for the purpose that the target was, and shares its random numbers unless its seed is another.
Of draws that were imported nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from leakbound import stats
from leakbound.evaluation.scoring.ordering import purpose_of
from leakbound.evaluation.statements.attacked import Attacked, as_found
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.statements.together import QuestionBounds
from leakbound.stats import questions
from leakbound.store import Arm


def share_nothing(target: Sequence[Arm], control: Sequence[Arm]) -> bool:
    """True if these arms' records prove that no draw of one shares random numbers with another's.

    Draws of one seed, purpose, question and chunk share theirs; other seeds or purposes, none.
    """
    keys = [{_key(arm) for arm in arms} for arms in (target, control)]
    return None not in keys[0] | keys[1] and not keys[0] & keys[1]


def each_beyond(
    target: QuestionBounds, control: QuestionBounds, apart: bool
) -> questions.BoundFunction:
    """The bound of each question's excess; `apart`: the draws of the two share nothing."""
    pair = _Differences.of(target, control) if apart else None
    if pair is None:
        return partial(stats.excess_of, target.leakage, control.leakage)
    return pair.each


def excess_over_questions(
    target: QuestionBounds, control: QuestionBounds, number: int, confidence: float, apart: bool
) -> Iterator[stats.Estimate]:
    """How far the target's mean exceeds its control's, and at the question where most."""
    pair = _Differences.of(target, control) if apart else None
    over = partial(stats.excess_of, target.mean, control.mean) if pair is None else pair.mean
    yield over(confidence=confidence, side="both")
    each = each_beyond(target, control, apart)
    yield stats.worst_question(each, number, confidence=confidence, side="both")


_Excess: TypeAlias = Callable[..., stats.Estimate]
"""`stats.excess_bound`, or one with its arguments."""


@dataclass(frozen=True, slots=True)
class _Differences:
    """Draws of the same questions, of both as many as it takes, that share nothing."""

    target: Fixed
    control: Fixed
    found: bool

    @classmethod
    def of(cls, target: QuestionBounds, control: QuestionBounds) -> _Differences | None:
        """None where n was not fixed, too small, or the questions are others."""
        found = isinstance(target, Attacked)
        mine, other = (
            known.draws if isinstance(known, Attacked) else known for known in (target, control)
        )
        if not (isinstance(mine, Fixed) and isinstance(other, Fixed)):
            return None
        ids, others = mine.scores.query_ids, other.scores.query_ids
        if not ids or ids != others:
            return None
        fewest = min(mine.scores.n.min(), other.scores.n.min())
        return cls(mine, other, found) if fewest >= stats.FEWEST_PAIRS else None

    def each(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        return self._by(stats.excess_bound, confidence, side)

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        return self._by(stats.excess_over_questions, confidence, side)

    def _by(self, bound: _Excess, confidence: float, side: stats.Side) -> stats.Estimate:
        """What the bound says, with what the scorer's mean is and how the questions were asked."""
        mine, other = self.target.scores, self.control.scores
        made = bound(
            mine.scores, other.scores, mine.counts, other.counts,
            missing=mine.missing, control_missing=other.missing, seed=self.target.keys,
            confidence=confidence, side=side,
        )  # fmt: skip
        quantity = LEAKAGE[0 if self.target.binary else 1]
        named = replace(made, about=replace(made.about, quantity=quantity))
        return as_found(named) if self.found else named


def _key(arm: Arm) -> tuple[str, str] | None:
    """What keys all draws of an arm beside question and chunk; None where nobody knows."""
    seed, purpose = arm.spec.seed, purpose_of(arm)
    return None if seed is None or purpose is None else (str(seed), purpose)
