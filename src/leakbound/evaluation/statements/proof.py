"""Proofs of leakage: lower bounds, given the measured margin, from texts of known probability.

The events that are known to leak are disjoint: their scores bound the leakage from below, without
any confidence to be spent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from leakbound import stats
from leakbound.evaluation.scoring.antichain import antichains
from leakbound.evaluation.statements.rows import ALL_K
from leakbound.stats.about import Quantity
from leakbound.stats.proof import raised
from leakbound.store import Arm, EstimateRow
from leakbound.types import Scorer


def proved(arm: Arm, scorer: Scorer) -> Iterator[tuple[str, stats.Estimate]]:
    """(query id, estimate) for each question with a leaking text.

    Leak probability (for a binary scorer) or mean leakage, and leak@k for any k.
    """
    for query_id, texts in antichains(arm, scorer).items():
        mass, scores, _ = np.array(list(texts.values())).T
        # a law's masses add up to 1; what rounding adds beyond that is taken off
        proof = stats.proof_of_leak(mass / max(1.0, math.fsum(mass)), scores, ALL_K)
        yield query_id, proof.probability if scorer.binary else proof.mean
        yield query_id, proof.leak_at_k


def raised_rows(
    rows: Iterable[EstimateRow], arm: Arm, proofs: Iterable[EstimateRow]
) -> Iterator[EstimateRow]:
    """The rows of the draws of an arm, leakage and leak@k no less than what is proved of them.

    That of a query, and unless a question is asked in several: the mean, the largest and the count
    of all questions.
    """
    lowers = {(row.query_id, row.quantity, row.parameter): row.lower for row in proofs}
    of_all: dict[tuple[Quantity, float | None], list[float]] = defaultdict(list)
    for (_, quantity, parameter), proved in lowers.items():
        of_all[quantity, parameter].append(proved)
    single, number = arm.spec.shares is None, len(arm.asked.questions)
    for row in rows:
        ends, proved = of_all[row.quantity, row.parameter], 0.0
        if row.scope == "query":
            proved = lowers.get((row.query_id, row.quantity, row.parameter), 0.0)
        elif single and row.scope == "mean":
            proved = math.fsum(ends) / number
        elif single and row.scope == "worst question":
            proved = max(ends, default=0.0)
        elif single and row.scope == "count":
            proved = sum(p > (row.parameter or 0.0) for p in of_all[row.quantity, None])
        yield replace(row, estimate=raised(row.estimate, proved)) if proved else row


def proved_tail(arm: Arm, scorer: Scorer, x: float) -> dict[str, float]:
    """Pr[h > x] at least, by the id of each question of which something is proved."""
    tails = {}
    for query_id, events in antichains(arm, scorer, x).items():
        total = math.fsum(event.mass for event in events.values())
        tails[query_id] = total / max(1.0, total)
    return tails
