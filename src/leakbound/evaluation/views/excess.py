"""What there is to say first: how far the target leaks beyond its control."""

from __future__ import annotations

from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.statements.rows import Interval, bound_of
from leakbound.evaluation.views.table import interval
from leakbound.store import Estimates, Run

NO_CONTROL = (
    "no control: a model that never saw the data may score as much; what leaks beyond that is "
    "bounded where one is given (evaluate with --control)"
)


def excess_sentences(run: Run, rows: Estimates) -> list[str]:
    """The excess of each of the target's arms, or that it is not known and why.

    `rows` are the estimates of one scorer.
    """
    sampled = [arm for arm in run.arms.values() if not arm.decoding.greedy and arm.key.own_words]
    if not any(arm.key.is_control for arm in sampled):
        return [NO_CONTROL]
    return [
        f"{arm.name}: {excess_sentence(*excess_of(rows, arm.name))}"
        for arm in sampled
        if not arm.key.is_control
    ]


def excess_of(rows: Estimates, arm: str) -> tuple[Interval | None, Interval | None]:
    """The excess of an arm over its control: on average, and at the question where it is most."""
    beyond = rows.where(arm=arm, quantity=LEAKAGE, beyond="control")
    mean = bound_of(beyond, scope="mean", beyond="control")
    return mean, bound_of(beyond, scope="worst question", beyond="control")


def excess_sentence(mean: Interval | None, worst: Interval | None) -> str:
    """Whether there is more than in the control, and how much."""
    if mean is None or worst is None:
        return "beyond the control nothing is known, since not every question was drawn of both"
    more = max(mean.lower, worst.lower) > 0
    verdict = "leaks beyond the control" if more else "not shown to leak beyond the control"
    return f"{verdict}: {interval(mean)} on average, {interval(worst)} at the worst question"
