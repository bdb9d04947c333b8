"""Numbers about all questions, for tables and charts.

A number is either a statement of the run or the mean of the estimates for the
questions. A mean of estimates has no bounds. Tables and charts use the same
functions, so they show equal numbers.

For a binary scorer, a bound on the leak probability p implies bounds on leak@k that are valid for
every k simultaneously: see `stats.carried` and `stats.mean_leak_at_k_of_counts`. A proved bound on
p has no sampling error, if rounding errors are within the measured margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.bounding.rows import ALL_K, EACH, LEAKAGE, STANDARD_K
from leakbound.presenting.view import ArmView, Row
from leakbound.stats.about import Quantity, Scope
from leakbound.store import EstimateRow
from leakbound.store.estimates import Fields
from leakbound.types import Scorer

Overall: TypeAlias = Callable[[ArmView, Scorer, Quantity], EstimateRow | float | None]
FAR = tuple(dict.fromkeys(round(10 ** (i / 10)) for i in range(91)))
"""The values of k from 1 to 10⁹ that charts and tables use: up to ten per decade."""


def each(
    model: ArmView, scorer: Scorer, quantity: Quantity, k: float | None = None
) -> Sequence[EstimateRow]:
    """Return one statement per question, or [] if a question of the run has no statement."""
    if quantity == "greedy score":
        choices = [list(model.greedy(scorer).values())]
    else:
        own: Fields = {"arm": str(model.key), "scorer": scorer.name, "quantity": quantity}
        of = (own | Fields(scope=scope, parameter=k) for scope in EACH)
        choices = [list(model.estimates.plain(**wanted)) for wanted in of]
    return next((rows for rows in choices if len(rows) == len(model.run.questions)), [])


def mean_of(rows: Sequence[EstimateRow]) -> float | None:
    """Return the mean of the estimates; None if a row has no estimate."""
    values = [row.value for row in rows if row.value is not None]
    return sum(values) / len(values) if values and len(values) == len(rows) else None


def means_by_k(model: ArmView, scorer: Scorer, quantity: Quantity) -> dict[int, float]:
    """Return the mean of the estimates by k, for each k at which every question has an estimate."""
    means = {k: mean_of(each(model, scorer, quantity, k)) for k in ALL_K}
    return {k: value for k, value in means.items() if value is not None}


def mean(model: ArmView, scorer: Scorer, quantity: Quantity) -> EstimateRow | float | None:
    """Return the run's statement about the mean over the questions, or the mean of the estimates.

    The mean of the estimates has no bounds. It is None if a question has no estimate.
    """
    if row := model.first(scorer, quantity=quantity, scope="mean"):
        return row
    return mean_of(each(model, scorer, quantity))


def largest(model: ArmView, scorer: Scorer, quantity: Quantity) -> Row:
    """Return the largest estimate and the largest upper bound over the questions.

    The upper bound is valid without a correction: it fails only if the upper bound of the question
    with the largest true value fails.
    """
    rows = each(model, scorer, quantity)
    if mean_of(rows) is None:
        return None
    value = max(row.value for row in rows if row.value is not None)
    return max(rows, key=lambda row: row.upper).with_values(value=value, side="upper")


def mean_leak_at_k(model: ArmView, scorer: Scorer) -> dict[int, EstimateRow | float]:
    """Return the mean leak@k by k, with bounds that are valid at all k simultaneously.

    If the run has no such bounds, there are bounds only if leak@k of each question is exact.
    """
    band = model.estimates.matching(
        arm=str(model.key), scorer=scorer.name, family="leak@k", quantity="leak@k", scope="mean"
    )
    bounds = {row.parameter: row for row in band}
    figures: dict[int, EstimateRow | float] = {}
    for k in STANDARD_K:
        rows = each(model, scorer, "leak@k", k)
        value = mean_of(rows)
        point = math.nan if value is None else value
        if k in bounds:
            figures[k] = bounds[k].with_values(value=point)
        elif rows and all(row.confidence == 1 for row in rows):  # exact, so their mean is exact
            ends = ([getattr(row, end) for row in rows] for end in ("lower", "upper"))
            lower, upper = (sum(own) / len(rows) for own in ends)
            figures[k] = rows[0].with_values(value=point, lower=lower, upper=upper)
        elif value is not None:
            figures[k] = value
    return figures


def known_at_k(model: ArmView, scorer: Scorer) -> dict[Scope, list[tuple[float, float, float]]]:
    """Return bounds on leak@k of the worst question, and on the mean leak@k over the questions.

    The proved bound for the worst question is the largest proved bound of a question. The proved
    bound for the mean is the mean of the proved bounds of all questions. The bounds on the mean
    follow from the bounds on the number of questions that leak more than x.

    Returns:
        By scope, for each k in `FAR`: the proved lower bound, the lower bound and the upper bound.
            The result is empty for a scorer that is not binary, or if a question was not sampled.
    """
    worst = model.leakage(scorer, scope="worst question")
    counts = model.where(scorer, quantity=LEAKAGE, scope="count", inputs="as asked").rows
    if not scorer.binary or worst is None or not counts:
        return {}
    proofs = [stats.carried(row.estimate, FAR) for row in model.leakages(scorer, proved=True)]
    proved = np.array([proof.lower for proof in proofs]).reshape(len(proofs), len(FAR))
    about = replace(counts[0].about, parameter=tuple(row.parameter or 0.0 for row in counts))
    lower, upper = (np.array([getattr(row, end) for row in counts]) for end in ("lower", "upper"))
    count = replace(counts[0].estimate, about=about, lower=lower, upper=upper)
    pairs: dict[Scope, tuple[NDArray[np.float64], stats.Estimate]] = {
        "worst question": (proved.max(axis=0, initial=0.0), stats.carried(worst.estimate, FAR)),
        "mean": (
            proved.sum(axis=0) / counts[0].about.over,
            stats.mean_leak_at_k_of_counts(count, FAR),
        ),
    }
    return {
        scope: np.stack([proof, bound.lower, bound.upper], axis=1).tolist()
        for scope, (proof, bound) in pairs.items()
    }
