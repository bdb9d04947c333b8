"""Effects of stress: each stressed arm beside the same arm under none, and the worst of them.

*Added.* Of S stresses each has alpha/S, half for the mean over the questions and half for all
questions at once (`stats.difference_over_questions`): whatever the stresses' draws share, and
whichever of them somebody picks, all of it holds together.

A draw of a conversation has several answers, and is told against as many answers of the model as it
is: against leak@k, k its turns.

*The worst.* The means under S stresses are bounded as those of S questions are (`worst_question`):
the lower bound is that of some stress at alpha/2S, the upper bound that of every one at once. The
largest is about the stresses that were tried, fixed in advance, and about no others.
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
            if turns_of(arm.arm) > 1 and base.rows is None:
                continue  # leak@k is known of draws whose number was fixed
            *means, entries = _added(arm, base, len(stressed), confidence).estimates
            yield from rows_of(arm.arm.name, scorer, ALL, *means, family="stresses")
            yield from rows_of(arm.arm.name, scorer, arm.query_ids, entries, family="stresses")
        for bounds in ([arm.mean for arm in alike], _excess(run, alike)):
            if len(bounds) == len(stressed):
                yield from rows_of(name, scorer, ALL, _worst(bounds, confidence))


def _added(arm: Drawn, base: Drawn, stresses: int, confidence: float) -> stats.Joint:
    """Return the mean and each question's leakage beyond the unstressed arm's."""
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
    """How many answers a draw of this arm has."""
    follow_ups = arm.spec.fingerprint.get("dialogue")
    return 1 + len(follow_ups) if isinstance(follow_ups, Sequence) else 1


def _repeated(
    base: Drawn, at_k: stats.Quantity, *, confidence: float, side: stats.Side
) -> stats.Estimate:
    """leak@turns, named as the leakage that a conversation is compared with."""
    made = base.bound(at_k, confidence=confidence, side=side)
    quantity = LEAKAGE[not base.binary]
    return replace(made, about=replace(made.about, quantity=quantity, parameter=None))


def _excess(run: RunEvidence, stressed: Sequence[Drawn]) -> list[stats.BoundFunction]:
    """Return the mean excess over the equally stressed control, of each that has one."""
    bounds: list[stats.BoundFunction] = []
    for arm in stressed:
        control = run.of(arm.arm.key.control)
        if control is not None and control is not arm and control.query_ids == arm.query_ids:
            bounds.append(partial(excess, arm, control, stats.LEAKAGE.mean()))
    return bounds


def _worst(bounds: Sequence[stats.BoundFunction], confidence: float) -> stats.Estimate:
    """Return the largest of these means, whichever stress it is of."""
    largest = stats.worst_question(stacked(bounds), len(bounds), confidence=confidence, side="both")
    about = replace(largest.about, scope="most-leaking stress", over=len(bounds))
    return replace(largest, about=about)
