"""How much more one arm leaks than another, of any two runs: on average and at every question.

All that is said of a scorer holds at once: see `stats.difference_over_questions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakbound import stats
from leakbound.errors import MixError
from leakbound.evaluation.statements.comparisons import (
    BeyondControl,
    each_beyond,
    mean_beyond,
    share_nothing,
)
from leakbound.evaluation.statements.evidence import ArmEvidence
from leakbound.store import Arm, Run
from leakbound.store.identity import some
from leakbound.types import Scorer


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmDifference:
    """How much more an arm leaks than the baseline, jointly with what is said of other arms.

    mean: over the questions; None where some have no completions.
    each: one entry a question of `query_ids`.
    apart: whether the draws of both are known to share no random numbers.
    """

    query_ids: tuple[str, ...]
    mean: stats.Estimate | None
    each: stats.Estimate
    apart: bool

    @property
    def rose(self) -> int:
        """How many questions are shown to leak more than under the baseline."""
        return int(np.count_nonzero(np.asarray(self.each.lower) > 0))

    @property
    def fell(self) -> int:
        """How many are shown to leak less."""
        return int(np.count_nonzero(np.asarray(self.each.upper) < 0))


def differences(
    arms: Mapping[str, Arm], baseline: Arm, scorer: Scorer, *, questions: int, confidence: float
) -> dict[str, ArmDifference]:
    """Each arm beside the baseline, by the same labels; all that is said holds at once.

    `questions`: how many were asked. Raises MixError where two have completions of other questions.
    """
    base = ArmEvidence(baseline, scorer).known
    found = {}
    for label, arm in arms.items():
        mine = ArmEvidence(arm, scorer).known
        query_ids = mine.scores.query_ids
        _require_same(label, query_ids, base.scores.query_ids)
        apart = share_nothing([arm], [baseline])
        mean = mean_beyond(mine, base, apart, beyond="baseline")
        bounds = stats.difference_over_questions(
            mean if len(query_ids) == questions else None,
            each_beyond(mine, base, apart, beyond="baseline"),
            len(query_ids),
            models=len(arms),
            confidence=confidence,
        )
        found[label] = ArmDifference(
            query_ids=tuple(query_ids), mean=bounds.mean, each=bounds.each, apart=apart
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmBounds:
    """What an arm leaks, each statement by itself: the mean, the worst question, beyond a control.

    None of the first two where not all questions have completions, of the others without a control
    that was asked the same.
    """

    mean: stats.Estimate | None = None
    worst: stats.Estimate | None = None
    excess: stats.Estimate | None = None
    worst_excess: stats.Estimate | None = None


def standing(run: Run, arm: Arm, scorer: Scorer, *, confidence: float) -> ArmBounds:
    """An arm bounded anew at this confidence, whatever its run was bounded at."""
    target, number = ArmEvidence(arm, scorer), len(run.questions)
    known, control = target.known, run.arm(arm.key.control)
    if len(target.query_ids) < number:
        return ArmBounds()
    found = ArmBounds(
        mean=known.mean(confidence=confidence, side="both"),
        worst=stats.worst_question(known.leakage, number, confidence=confidence, side="both"),
    )
    if control is None:
        return found
    other = ArmEvidence(control, scorer)
    if other.query_ids != target.query_ids:
        return found
    over = BeyondControl.of(target, other).over_questions(confidence)
    return replace(found, excess=over.mean, worst_excess=over.worst)


def _require_same(label: str, mine: Sequence[str], base: Sequence[str]) -> None:
    if not mine:
        raise MixError(f"{label!r} has no completions of any question: nothing can be compared.")
    lacking = [*(q for q in base if q not in set(mine)), *(q for q in mine if q not in set(base))]
    if lacking:
        raise MixError(
            f"{label!r} and the baseline have completions of other questions: {some(lacking)} in "
            "one of them alone. Run the command that made the other one again, or compare runs "
            "of the questions that both can be asked."
        )
