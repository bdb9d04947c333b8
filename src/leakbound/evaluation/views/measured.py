"""Rows of the estimates table to what the page says of a question, or of all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from leakbound.evaluation.statements.claim import CLAIM
from leakbound.evaluation.statements.grid import JOINTLY, MOST
from leakbound.evaluation.statements.proof import PROVED
from leakbound.evaluation.statements.quantities import GREEDY_SCORE, LEAKAGE, RHO
from leakbound.evaluation.statements.rows import statement
from leakbound.evaluation.views.excess import EXCESS
from leakbound.evaluation.views.view import Bound, Claim, Measured, Overall, Proof, Statement
from leakbound.stats import about
from leakbound.stats.judged import CORRECTED

_COUNT = "questions with"  # how a number of questions begins
_ED = f"mean + {RHO:g} standard deviations"
_DECISIONS = {1.0: "holds", 0.0: "refuted"}

Rows = list[dict[str, Any]]


class Estimates:
    """A run's estimates, looked up by arm, scorer and question."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._found: defaultdict[tuple[str, str, str | None], Rows] = defaultdict(list)
        for row in rows:
            self._found[row["arm"], row["scorer"], row["query_id"]].append(row)
        self.scorers = tuple(dict.fromkeys(row["scorer"] for row in rows))
        bounded = (row["confidence"] for row in rows if row["estimand"] in LEAKAGE)
        self.confidence: float = min(bounded, default=1.0)  # what is exact holds at 1

    def of(self, arm: str, scorer: str, query_id: str | None) -> Rows:
        return self._found.get((arm, scorer, query_id), [])


def measured(rows: Rows, greedy: Rows, histogram: tuple[int, ...]) -> Measured | None:
    """One question under one scorer, its greedy answer's rows beside it; None without a bound."""
    leakage = _first(rows, *LEAKAGE)
    if leakage is None:
        return None
    answer = _first(greedy, GREEDY_SCORE)
    naive = _by_parameter(rows, "worst of k")
    return Measured(
        leakage=Bound.of(leakage),
        n=leakage["n"],
        deviation=bound_of(rows, "standard deviation"),
        expectation_deviation=bound_of(rows, _ED),
        leak_at_k={int(k): bound for k, bound in _by_parameter(rows, "leak@k").items()},
        worst_of_k={int(k): b.value for k, b in naive.items() if b.value is not None},
        tail=_by_parameter(rows, "Pr[X > x]"),
        greedy=answer["value"] if answer else None,
        corrected=bound_of(rows, CORRECTED),
        excess=bound_of(rows, *EXCESS),
        claim=_claim(rows),
        proof=_proof(rows),
        missing=leakage["missing"],
        histogram=histogram,
    )


def overall(rows: Rows) -> Overall:
    """What holds of all questions together, cell by cell of a grid left out."""
    rows = [row for row in rows if row["target"] not in (JOINTLY, MOST)]

    def found(of: str, estimands: tuple[str, ...]) -> Bound | None:
        row = statement(rows, of, *estimands)
        return None if row is None else Bound.of(row)

    return Overall(
        mean=found(about.MEAN, LEAKAGE),
        worst=found(about.WORST, LEAKAGE),
        excess=found(about.MEAN, EXCESS),
        worst_excess=found(about.WORST, EXCESS),
        others=tuple(_statements(rows)),
    )


def _statements(rows: Rows) -> Iterable[Statement]:
    """All but the mean and the worst question, of the leakage and of its excess."""
    for row in rows:
        name, parameter = row["estimand"], row["parameter"]
        if name.startswith(_COUNT) and parameter is not None:
            yield Statement(f"Questions above {parameter:g}", Bound.of(row), is_count=True)
        elif name.startswith("leak@"):
            yield Statement(f"{name}, mean", Bound.of(row))
        elif name == CORRECTED:
            yield Statement("Mean, corrected for the judge", Bound.of(row))


def _claim(rows: Rows) -> Claim | None:
    row = next((row for row in rows if row["estimand"].startswith(CLAIM)), None)
    if row is None:
        return None
    return Claim(row["estimand"].removeprefix(CLAIM), _DECISIONS.get(row["value"], "open"))


def _proof(rows: Rows) -> Proof | None:
    leakage = _first(rows, *(f"{PROVED} {name}" for name in LEAKAGE))
    repeated = _by_parameter(rows, f"{PROVED} leak@k")
    if leakage is None:
        return None
    return Proof(leakage["lower"], {int(k): bound.lower for k, bound in repeated.items()})


def bound_of(rows: Rows, *estimands: str) -> Bound | None:
    row = _first(rows, *estimands)
    return Bound.of(row) if row else None


def _by_parameter(rows: Rows, estimand: str) -> dict[float, Bound]:
    return {row["parameter"]: Bound.of(row) for row in rows if row["estimand"] == estimand}


def _first(rows: Rows, *estimands: str) -> dict[str, Any] | None:
    return next((row for row in rows if row["estimand"] in estimands), None)
