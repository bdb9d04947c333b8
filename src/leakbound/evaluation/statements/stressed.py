"""Effects of stress: each stressed arm beside the same arm under none, and the worst of them.

*Added.* Of S stresses each has alpha/S, half for the mean over the questions and half for all
questions at once (`stats.difference_over_questions`): whatever the stresses' draws share, and
whichever of them somebody picks, all of it holds together.

A draw of a conversation has several answers, and is told against as many answers of the model as it
is: against leak@k, k its turns.

*The worst.* The means under S stresses are bounded as those of S questions are (`worst_question`):
the lower end is that of some stress at alpha/2S, the upper end that of every one at once. The
largest is about the stresses that were tried, fixed beforehand, and about no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from leakbound import stats
from leakbound.evaluation.statements.comparisons import (
    BeyondControl,
    each_beyond,
    mean_beyond,
    share_nothing,
)
from leakbound.evaluation.statements.evidence import ArmEvidence, RunEvidence
from leakbound.evaluation.statements.rows import LEAKAGE, StatedBound, rows_of, stacked
from leakbound.store import ALL, Arm, EstimateRow


def stress_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """Rows of what each stress adds, by question and on average, and of where there is most.

    Of the target and of its control alike. Nothing of an arm that lacks questions; nothing of the
    worst where one of them does: how many stresses there are was fixed before any was drawn.
    """
    scorer = run.scorer.name
    for name, base in run.arms.items():
        mine = [arm for arm in run.arms.values() if arm.arm.key.unstressed == base.arm.key]
        stressed = [arm for arm in mine if arm.arm.key.stress]
        if not stressed or base.arm.key.stress or not base.whole:
            continue
        alike = [arm for arm in stressed if arm.query_ids == base.query_ids]
        for arm in alike:
            if turns_of(arm.arm) > 1 and base.fixed is None:
                continue  # leak@k is known of draws whose number was fixed
            made = _added(arm, base, len(stressed), confidence)
            if made.mean is not None:
                yield from rows_of(arm.arm.name, scorer, ALL, made.mean)
            yield from rows_of(arm.arm.name, scorer, arm.query_ids, made.each)
        for bounds in ([arm.known.mean for arm in alike], _excess(run, alike)):
            if len(bounds) == len(stressed):
                yield from rows_of(name, scorer, ALL, _worst(bounds, confidence))


def _added(
    arm: ArmEvidence, base: ArmEvidence, stresses: int, confidence: float
) -> stats.ModelDifference:
    turns = turns_of(arm.arm)
    if turns > 1:
        mean, leakage = (
            partial(stats.excess_of, mine, other, beyond="unstressed")
            for mine, other in (
                (arm.known.mean, partial(_mean_at, base, turns)),
                (arm.known.leakage, partial(_each_at, base, turns)),
            )
        )
        return stats.difference_over_questions(
            mean, leakage, len(arm.query_ids), models=stresses, confidence=confidence
        )
    apart = share_nothing([arm.arm], [base.arm])
    return stats.difference_over_questions(
        mean_beyond(arm.known, base.known, apart, beyond="unstressed"),
        each_beyond(arm.known, base.known, apart, beyond="unstressed"),
        len(arm.query_ids),
        models=stresses,
        confidence=confidence,
    )


def turns_of(arm: Arm) -> int:
    """How many answers a draw of this arm has."""
    follow_ups = arm.spec.fingerprint.get("dialogue")
    return 1 + len(follow_ups) if isinstance(follow_ups, Sequence) else 1


def _each_at(
    base: ArmEvidence, turns: int, *, confidence: float, side: stats.Side
) -> stats.Estimate:
    """leak@turns of each question as it is, named as the leakage that a conversation is beside."""
    binary = base.known.binary
    row = StatedBound("leak@k proportion" if binary else "leak@k", binary, at={"k": turns})
    made = base.known.made(row, confidence=confidence, side=side)
    return replace(made, about=replace(made.about, quantity=LEAKAGE[not binary], parameter=None))


def _mean_at(
    base: ArmEvidence, turns: int, *, confidence: float, side: stats.Side
) -> stats.Estimate:
    """The mean of leak@turns over the questions."""
    assert base.fixed is not None
    made = base.fixed.mean_leak_at_k(turns, confidence=confidence, side=side)
    quantity = LEAKAGE[not base.known.binary]
    return replace(made, about=replace(made.about, quantity=quantity, parameter=None))


def _excess(run: RunEvidence, stressed: Sequence[ArmEvidence]) -> list[stats.BoundFunction]:
    """The mean excess over the equally stressed control, of each that has one."""
    bounds: list[stats.BoundFunction] = []
    for arm in stressed:
        control = run.of(arm.arm.key.control)
        if control is not None and control is not arm and control.query_ids == arm.query_ids:
            bounds.append(BeyondControl.of(arm, control).mean)
    return bounds


def _worst(bounds: Sequence[stats.BoundFunction], confidence: float) -> stats.Estimate:
    """The largest of these means, whichever stress it is of."""
    largest = stats.worst_question(stacked(bounds), len(bounds), confidence=confidence, side="both")
    about = replace(largest.about, scope="most-leaking stress", over=len(bounds))
    return replace(largest, about=about)
