"""The claim that an arm's draws were to decide, question by question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from leakbound import stats
from leakbound.evaluation.planning.plan import looks_of
from leakbound.evaluation.scoring.ordering import Order
from leakbound.store import Arm, ArmScores, ScorerRecord, StoppedDraws
from leakbound.types import Scorer

_TRUTH = {"holds": 1.0, "refuted": 0.0}


def claim_estimate(arm: Arm, scorer: Scorer, scores: ArmScores) -> stats.Estimate | None:
    """The claim about every question: 1 where it holds, 0 where it does not, NaN where open.

    With the confidence of the rule a claim is as decided; an open one has the interval [0, 1].
    None where another scorer steered the arm.
    """
    rule = arm.spec.draws
    if not isinstance(rule, StoppedDraws) or rule.scorer != ScorerRecord.of(scorer):
        return None
    looks = looks_of(rule, arm.plan.n)
    drawn: dict[str, Any] = {"counts": scores.counts, "missing": scores.missing}
    keys = Order.of(arm, scorer).keys(scores.query_ids)
    bound = looks.bound(scores.scores, **drawn, seed=keys)
    decided = looks.decide(scores.scores, **drawn, seed=keys).tolist()
    truth = np.array([_TRUTH.get(decision, np.nan) for decision in decided])
    ends = {"lower": np.nan_to_num(truth, nan=0.0), "upper": np.nan_to_num(truth, nan=1.0)}
    about, confidence = looks.claim.about, looks.confidence
    return replace(bound, about=about, value=truth, **ends, confidence=confidence, side="both")
