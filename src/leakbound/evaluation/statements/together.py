"""Statements about all questions at once, from what is known of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from leakbound import stats
from leakbound.evaluation.statements.quantities import LEAK_X
from leakbound.store import ArmScores

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
