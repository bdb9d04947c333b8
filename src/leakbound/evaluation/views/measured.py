"""Rows of the estimates table to what the page says of a question, or of all of them."""

from __future__ import annotations

from collections.abc import Iterable

from leakbound.evaluation.statements.quantities import CLAIMS, LEAKAGE
from leakbound.evaluation.statements.rows import Interval, bound_of
from leakbound.evaluation.views.view import DecidedClaim, Measured, Overall, Proof, Statement
from leakbound.stats.about import Quantity
from leakbound.store import Estimates

_DECISIONS: dict[float | None, str] = {1.0: "holds", 0.0: "refuted"}


def measured(rows: Estimates, greedy: Estimates, histogram: tuple[int, ...]) -> Measured | None:
    """One question under one scorer, its greedy answer's rows beside it; None without a bound."""
    leakage = rows.first(quantity=LEAKAGE)
    if leakage is None:
        return None
    answer = greedy.first(quantity="greedy score")
    naive = _by_parameter(rows, "worst of k")
    return Measured(
        leakage=Interval.of(leakage),
        n=leakage.n,
        deviation=bound_of(rows, quantity="standard deviation"),
        expectation_deviation=bound_of(rows, quantity="expectation deviation"),
        leak_at_k={int(k): bound for k, bound in _by_parameter(rows, "leak@k").items()},
        worst_of_k={int(k): b.value for k, b in naive.items() if b.value is not None},
        tail=_by_parameter(rows, "tail"),
        greedy=answer.value if answer else None,
        corrected=bound_of(rows, quantity="corrected leak probability"),
        excess=bound_of(rows, quantity=LEAKAGE, beyond="control"),
        claim=_claim(rows),
        proof=_proof(rows),
        missing=leakage.missing,
        histogram=histogram,
    )


def overall(rows: Estimates) -> Overall:
    """What holds of all questions together, cell by cell of a grid left out."""
    leakage = rows.where(quantity=LEAKAGE)
    return Overall(
        mean=bound_of(leakage, scope="mean"),
        worst=bound_of(leakage, scope="worst question"),
        excess=bound_of(leakage, scope="mean", beyond="control"),
        worst_excess=bound_of(leakage, scope="worst question", beyond="control"),
        others=tuple(_statements(rows.plain())),
    )


def _statements(rows: Estimates) -> Iterable[Statement]:
    """All but the mean and the worst question, of the leakage and of its excess."""
    for row in rows:
        if row.about.scope == "count":
            yield Statement(f"Questions above {row.parameter:g}", Interval.of(row), is_count=True)
        elif row.about.quantity == "leak@k":
            yield Statement(f"{row.about.name}, mean", Interval.of(row))
        elif row.about.quantity == "corrected leak probability":
            yield Statement("Mean, corrected for the judge", Interval.of(row))


def _claim(rows: Estimates) -> DecidedClaim | None:
    row = rows.first(quantity=CLAIMS)
    if row is None:
        return None
    return DecidedClaim(row.about.claimed, _DECISIONS.get(row.value, "open"))


def _proof(rows: Estimates) -> Proof | None:
    proved = rows.where(proved=True)
    leakage = next(iter(proved.where(quantity=LEAKAGE)), None)
    if leakage is None:
        return None
    repeated = proved.where(quantity="leak@k")
    return Proof(leakage.lower, {int(row.parameter or 1): row.lower for row in repeated})


def _by_parameter(rows: Estimates, quantity: Quantity) -> dict[float, Interval]:
    found = rows.plain(quantity=quantity)
    return {row.parameter: Interval.of(row) for row in found if row.parameter is not None}
