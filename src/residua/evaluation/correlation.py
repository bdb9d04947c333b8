"""Does a model leak more in answers it is surer of? The premise of input selection, measured.

For each question the Pearson correlation, over its queries, of cumulative log-probability and the
upper bound on expected leakage (Cheng et al. 2025, Figures 1 and 2: mostly .6 to .8).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from residua.inputs import evidence
from residua.store import Arm, read_values
from residua.store.tables import completions_of
from residua.types import Completion

LEAST = 3  # queries: two always lie on a line


def correlations(arm: Arm, scorer: str) -> dict[str, float | None]:
    """Pearson's r of every question of an arm that asks rewritings, by prompt id.

    Of the log-probabilities that input selection found, where it was made, else of the mean
    log-probability of the arm's own draws; with the upper ends that the run's estimates have of
    each query's leakage. None for a question with fewer than three such queries, or where one of
    the two does not vary.
    """
    sure = read_values(arm.run.path) or sureness(arm)
    upper = {
        row["query_id"]: row["upper"]
        for row in arm.run.estimates()
        if (row["arm"], row["scorer"]) == (arm.name, scorer)
        and row["pool"] is None
        and row["n"]
        and row["estimand"] in ("leak probability", "mean leakage")
    }
    of_prompt: dict[str, list[tuple[float, float]]] = {}
    for query in arm.queries:
        pairs = of_prompt.setdefault(query.prompt_id, [])
        if query.id in sure and query.id in upper:
            pairs.append((sure[query.id], upper[query.id]))
    return {prompt_id: _pearson(pairs) for prompt_id, pairs in of_prompt.items()}


def sureness(arm: Arm) -> Mapping[str, float]:
    """The mean log-probability, at T = 1, of the draws of every query for which it is known."""
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


def _pearson(pairs: list[tuple[float, float]]) -> float | None:
    if len(pairs) < LEAST or not np.ptp(pairs, axis=0).all():
        return None
    return float(np.corrcoef(np.array(pairs).T)[0, 1])
