"""Does a model leak more in answers it is surer of? The premise of input selection, measured.

For each question the Pearson correlation, over its queries, of cumulative log-probability and the
upper bound on expected leakage (Cheng et al. 2025, Figures 1 and 2: mostly .6 to .8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.inputs import evidence
from leakbound.store import Arm, Estimates, Run, read_values
from leakbound.store.tables import completions_of
from leakbound.types import Completion

LEAST = 3  # queries: two always lie on a line


@dataclass(frozen=True, slots=True)
class Point:
    """One query: the cumulative log-probability of its answers, and the bound on their leakage."""

    query_id: str
    sureness: float
    upper: float


def correlations(run: Run, arm: Arm, scorer: str) -> dict[str, float | None]:
    """Pearson's r of every question of an arm that asks rewritings, by prompt id.

    Of `sureness` with the upper ends that the run's estimates have of each query's leakage. None
    for a question with fewer than three such queries, or where one of the two does not vary.
    """
    found = points(arm, run.estimates.where(scorer=scorer), sureness(run, arm))
    return {prompt_id: pearson(own) for prompt_id, own in found.items()}


def points(arm: Arm, rows: Estimates, sure: Mapping[str, float]) -> dict[str, tuple[Point, ...]]:
    """The queries of every question whose sureness and leakage are known, by prompt id.

    `rows` are one scorer's estimates, `sure` is what `sureness` gives. A query that got no output
    has no leakage.
    """
    single = rows.plain(arm=arm.name, quantity=LEAKAGE, scope="query")
    upper = {row.query_id: row.upper for row in single if row.n}
    found: dict[str, tuple[Point, ...]] = {}
    for query in arm.queries:
        known = query.id in sure and query.id in upper
        own = (Point(query.id, sure[query.id], upper[query.id]),) if known else ()
        found[query.prompt_id] = (*found.get(query.prompt_id, ()), *own)
    return found


def sureness(run: Run, arm: Arm) -> Mapping[str, float]:
    """How sure the model is of its answers to every query, natural log, where it is known.

    What input selection found, where it was made; else `drawn_sureness`.
    """
    return read_values(run.path) or drawn_sureness(arm)


def drawn_sureness(arm: Arm) -> Mapping[str, float]:
    """The mean log-probability, at T = 1, of the arm's own draws of every query."""
    drawn: dict[str, list[Completion]] = {}
    for part in arm.parts:
        for query_id, completion in completions_of(arm.completions(part)):
            if completion.count:
                drawn.setdefault(query_id, []).append(completion)
    return {
        query_id: evidence(completions, "mean_logprob")
        for query_id, completions in drawn.items()
        if all(completion.model_logprob is not None for completion in completions)
    }


def pearson(points: Sequence[Point]) -> float | None:
    """Pearson's r; None below three points, or where one of the two does not vary."""
    pairs = [(point.sureness, point.upper) for point in points]
    if len(pairs) < LEAST or not np.ptp(pairs, axis=0).all():
        return None
    return float(np.corrcoef(np.array(pairs).T)[0, 1])
