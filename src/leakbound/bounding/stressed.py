"""Effects of stress: the leakage that each stress adds to an arm, and the worst stress.

*Added leakage.* Each of S stresses has alpha/S: half for the mean over the
questions, and half for all questions simultaneously
(`stats.difference_over_questions`). All statements are valid simultaneously,
even if the draws under several stresses are dependent, or if a user selects a
stress after seeing the results.

A draw of a conversation has several answers, one per turn. So its leakage is
compared with leak@k of the unstressed model, where k is the number of turns.

*The worst stress.* The means under S stresses are treated like S questions
(`worst_question`). The lower bound is the largest of S lower bounds, each at
alpha/2S. The upper bound is the largest of S upper bounds, each at alpha/2. The
statement is only about the tried stresses, which were fixed in advance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from leakbound import stats
from leakbound.bounding.comparisons import excess
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import RunEvidence
from leakbound.bounding.rows import LEAKAGE, rows_of, stacked
from leakbound.store import ALL, Arm, EstimateRow


def stress_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """Yield rows of the leakage that each stress adds, and of the stress that leaks most.

    There are rows for the target and for its control, per question and for the mean. An arm that
    lacks draws of a question has no rows. In this case there is also no row about the worst stress,
    because the number of stresses was fixed before any draw.
    """
    scorer = run.scorer.name
    for name, base in run.arms.items():
        mine = [arm for arm in run.arms.values() if arm.arm.key.unstressed == base.arm.key]
        stressed = [arm for arm in mine if arm.arm.key.stress]
        if not stressed or base.arm.key.stress or not base.complete:
            continue
        same_queries = [arm for arm in stressed if arm.query_ids == base.query_ids]
        for arm in same_queries:
            if turns_of(arm.arm) > 1 and base.rows is None:
                continue  # leak@k has a bound only for draws whose number was fixed
            *means, entries = _added(arm, base, len(stressed), confidence).estimates
            yield from rows_of(arm.arm.name, scorer, ALL, *means, family="stresses")
            yield from rows_of(arm.arm.name, scorer, arm.query_ids, entries, family="stresses")
        for bounds in ([arm.mean for arm in same_queries], _excess(run, same_queries)):
            if len(bounds) == len(stressed):
                yield from rows_of(name, scorer, ALL, _worst(bounds, confidence))


def _added(arm: Drawn, base: Drawn, stresses: int, confidence: float) -> stats.Joint:
    """Bound the leakage that a stress adds to the unstressed arm, on average and per question."""
    turns = turns_of(arm.arm)
    entries = partial(excess, arm, base, beyond="unstressed")
    mean = partial(entries, stats.LEAKAGE.mean())
    if turns > 1:
        at_k = stats.leak_at(turns)
        mean, entries = (
            partial(stats.excess_of, more, partial(_repeated, base, repeated), beyond="unstressed")
            for more, repeated in ((arm.mean, at_k.mean()), (arm.leakage, at_k))
        )
    return stats.difference_over_questions(
        mean, entries, len(arm.query_ids), models=stresses, confidence=confidence
    )


def turns_of(arm: Arm) -> int:
    """Return the number of answers per draw of this arm."""
    follow_ups = arm.spec.fingerprint.get("dialogue")
    return 1 + len(follow_ups) if isinstance(follow_ups, Sequence) else 1


def _repeated(
    base: Drawn, at_k: stats.Quantity, *, confidence: float, side: stats.Side
) -> stats.Estimate:
    """Bound leak@k of the unstressed arm, where k is the number of turns; label it as leakage."""
    made = base.bound(at_k, confidence=confidence, side=side)
    quantity = LEAKAGE[not base.binary]
    return replace(made, about=replace(made.about, quantity=quantity, parameter=None))


def _excess(run: RunEvidence, stressed: Sequence[Drawn]) -> list[stats.BoundFunction]:
    """Return a bound of each stressed arm's mean excess over the control with the same stress."""
    bounds: list[stats.BoundFunction] = []
    for arm in stressed:
        control = run.of(arm.arm.key.control)
        if control is not None and control is not arm and control.query_ids == arm.query_ids:
            bounds.append(partial(excess, arm, control, stats.LEAKAGE.mean()))
    return bounds


def _worst(bounds: Sequence[stats.BoundFunction], confidence: float) -> stats.Estimate:
    """Bound the mean under the stress that leaks most."""
    largest = stats.worst_question(stacked(bounds), len(bounds), confidence=confidence, side="both")
    about = replace(largest.about, scope="most-leaking stress", over=len(bounds))
    return replace(largest, about=about)
