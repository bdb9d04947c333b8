"""How far a model leaks beyond its control: at each question, on average, and at the worst.

Where the draws of the two are known to share no randomness, and n was fixed alike for both at
`stats.FEWEST_PAIRS` or more, their differences are bet on; else each is bounded by itself and
alpha is shared, which holds whatever they share. What they share is told by what keys their draws:
within one run each arm has a purpose of its own, and since draws are keyed by the model too, so has
each model of two runs. Of runs that were begun before that, a control was drawn for the purpose
that the target was, and shares its random numbers unless its seed is another. Of draws that were
imported nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.evaluation.statements.proof import proofs_of
from leakbound.evaluation.statements.rows import LEAKAGE, QuestionBounds
from leakbound.stats import questions
from leakbound.stats.about import Beyond
from leakbound.store import Arm, ImportedDraws
from leakbound.types import Scorer


def share_nothing(target: Sequence[Arm], control: Sequence[Arm]) -> bool:
    """True if these arms' records prove that no draw of one shares random numbers with another's.

    Draws of one seed, purpose, question and chunk share theirs; other seeds or purposes, none.
    """
    keys = [{_key(arm) for arm in arms} for arms in (target, control)]
    return None not in keys[0] | keys[1] and not keys[0] & keys[1]


def each_beyond(
    target: QuestionBounds, control: QuestionBounds, apart: bool, *, beyond: Beyond = "control"
) -> questions.BoundFunction:
    """The bound of each question's excess; `apart`: the draws of the two share nothing."""
    if apart and (pair := _paired(target, control)):
        return partial(_difference, stats.excess_bound, *pair, beyond=beyond)
    return partial(stats.excess_of, target.leakage, control.leakage, beyond=beyond)


def mean_beyond(
    target: QuestionBounds, control: QuestionBounds, apart: bool, *, beyond: Beyond = "control"
) -> questions.BoundFunction:
    """The bound of the mean excess over all questions, as `each_beyond`."""
    if apart and (pair := _paired(target, control)):
        return partial(_difference, stats.excess_over_questions, *pair, beyond=beyond)
    return partial(stats.excess_of, target.mean, control.mean, beyond=beyond)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondControl:
    """What is said of a target beyond its control.

    apart: whether the draws of the two share nothing.
    proofs: by question, the leakage of the target that is proved; none of 0.
    """

    target: QuestionBounds
    control: QuestionBounds
    apart: bool
    proofs: Mapping[str, float]

    def each(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The excess at each question, by itself."""
        excess = each_beyond(self.target, self.control, self.apart)
        return stats.excess_with_proof(
            excess, self.control.leakage, self._proved, confidence=confidence, side=side
        )

    def together(self, confidence: float) -> stats.Estimate:
        """How far at least each question exceeds the control's, all at once (Bonferroni).

        For whoever picks questions by it: of N that equal the control's, none is picked with
        probability `confidence`, where bounds that hold one by one pick some.
        """
        return stats.every_question(
            self.each, self._number, confidence=confidence, side="lower", independent=False
        )

    def over_questions(self, confidence: float) -> stats.ExcessOverQuestions:
        """How far the target's mean exceeds its control's, and at the question where most."""
        return stats.excess_of_mean_and_worst(
            self._mean, self.each, self._number, confidence=confidence
        )

    def _mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        excess = mean_beyond(self.target, self.control, self.apart)
        proved = float(self._proved.mean())
        return stats.excess_with_proof(
            excess, self.control.mean, proved, confidence=confidence, side=side
        )

    @property
    def _proved(self) -> NDArray[np.float64]:
        return np.array([self.proofs.get(q, 0.0) for q in self.target.scores.query_ids])

    @property
    def _number(self) -> int:
        return len(self.target.scores.query_ids)


def beyond_control(
    arm: Arm, known: QuestionBounds, control: Arm, other: QuestionBounds, scorer: Scorer
) -> BeyondControl:
    """An arm and what is known of it, beside its control."""
    return BeyondControl(
        target=known,
        control=other,
        apart=share_nothing([arm], [control]),
        proofs=proofs_of(arm, scorer),
    )


def _paired(target: QuestionBounds, control: QuestionBounds) -> tuple[Fixed, Fixed] | None:
    """Draws of the same questions; None where n was not fixed, too small, or these are others."""
    if not (isinstance(target, Fixed) and isinstance(control, Fixed)):
        return None
    mine, other = target.scores, control.scores
    if not mine.query_ids or mine.query_ids != other.query_ids:
        return None
    enough = min(mine.n.min(), other.n.min()) >= stats.FEWEST_PAIRS
    return (target, control) if enough else None


def _difference(
    bound: Callable[..., stats.Estimate],
    target: Fixed,
    control: Fixed,
    *,
    beyond: Beyond,
    confidence: float,
    side: stats.Side,
) -> stats.Estimate:
    """What the bound says, with what the scorer's mean is and how the questions were put."""
    mine, other = target.scores, control.scores
    made = bound(
        mine.scores, other.scores, mine.counts, other.counts,
        missing=mine.missing, control_missing=other.missing, seed=target.keys,
        confidence=confidence, side=side,
    )  # fmt: skip
    quantity = LEAKAGE[0 if target.binary else 1]
    about = replace(made.about, quantity=quantity, inputs=target.inputs, beyond=beyond)
    return replace(made, about=about)


def _key(arm: Arm) -> tuple[str, str] | None:
    """What keys all draws of an arm beside question and chunk; None where nobody knows."""
    imported = isinstance(arm.spec.draws, ImportedDraws)
    return None if arm.spec.seed is None or imported else (str(arm.spec.seed), arm.purpose)
